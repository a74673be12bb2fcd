from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models import inference, runtime, weights
from leadline.evaluators.models.catalogue import VITAMINC_NLI
from leadline.evaluators.models.results import nli_order
from leadline.evaluators.models.tokens import encode_pairs
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import without_surrogates
from tests.support.models.tiny_models import pairs_of
from tests.support.models.tiny_nli import make_nli

SETTINGS = Settings(device="cpu")
OTHER = ModelRef("nli", "someone/else", "0" * 40)


@pytest.fixture(scope="module")
def ref(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> ModelRef:
    return weights.parse_ref(str(make_nli(tmp_path_factory.mktemp("nli") / "albert")), "nli")


@pytest.fixture(scope="module", autouse=True)
def _cold() -> Iterator[None]:
    yield
    runtime.unload()


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 40, 1_000_000])
def test_probabilities_are_those_of_the_library_for_each_pair_alone(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
    tokenizer = AutoTokenizer.from_pretrained(ref.source)
    model = AutoModelForSequenceClassification.from_pretrained(ref.source).eval()
    pairs = pairs_of(30)
    with torch.no_grad():
        expected = np.array(
            [model(**tokenizer(*pair, return_tensors="pt")).logits[0].softmax(-1).tolist() for pair in pairs]
        )
    assert np.ptp(expected, axis=0).min() > 0.02
    for places in (range(30), random.Random(1).sample(range(30), 30)):
        found = inference.infer(ref, [pairs[place] for place in places], settings=SETTINGS)
        np.testing.assert_allclose(found, expected[list(places)], atol=1e-5)


@pytest.mark.slow
def test_columns_are_entailment_contradiction_neutral_whatever_order_the_model_has(
    ref: ModelRef, tmp_path: Path
) -> None:
    turned = make_nli(tmp_path / "turned", labels=("contradiction", "neutral", "entailment"))
    pairs = pairs_of(5)
    first = inference.infer(ref, pairs, settings=SETTINGS)
    other = inference.infer(weights.parse_ref(str(turned), "nli"), pairs, settings=SETTINGS)
    np.testing.assert_allclose(other, first[:, [2, 0, 1]], atol=1e-6)


@pytest.mark.slow
def test_of_two_outputs_the_one_that_does_not_support_is_neutral(tmp_path: Path) -> None:
    named = weights.parse_ref(str(make_nli(tmp_path / "named", labels=("unsupported", "supported"))), "nli")
    plain = weights.parse_ref(str(make_nli(tmp_path / "plain", labels=("LABEL_0", "LABEL_1"))), "nli")
    pairs = pairs_of(5)
    found = inference.infer(named, pairs, settings=SETTINGS)
    assert found.shape == (5, 3)
    np.testing.assert_allclose(found[:, 0] + found[:, 2], 1.0, atol=1e-9)
    assert not found[:, 1].any()
    assert np.ptp(found[:, 0]) > 1e-4
    np.testing.assert_allclose(inference.infer(plain, pairs, settings=SETTINGS), found, atol=1e-6)


@pytest.mark.slow
def test_a_model_with_other_outputs_is_refused(tmp_path: Path) -> None:
    sentiment = weights.parse_ref(str(make_nli(tmp_path / "two", labels=("NEGATIVE", "POSITIVE"))), "nli")
    with pytest.raises(ModelUnavailable, match="NEGATIVE, POSITIVE"):
        inference.infer(sentiment, pairs_of(1), settings=SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["the ship is of water " * 30, "x" * 200, "ship\ud800 " * 40, "", "the ship"])
def test_any_two_pieces_of_long_texts_fit_and_cover_them(ref: ModelRef, text: str) -> None:
    pieces = inference.fit(ref, [text, "a line"], settings=SETTINGS)[text]
    assert "".join(text[start:end] for start, end in pieces) == text
    loaded = runtime.resident(ref, SETTINGS, inference._pair_classifier)
    found = [without_surrogates(text[start:end]) for start, end in pieces]
    whole = list(encode_pairs(loaded._tokenizer, [(one, other) for one in found for other in found], None))
    assert max(len(pair.ids) for pair in whole) <= 32
    full = loaded._tokenizer(found, found, truncation=False)["input_ids"]
    assert max(map(len, full)) <= 32, "nothing is cut off"


class OnMps:
    """Logits on Apple's GPU, which has no float64."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def float(self) -> OnMps:
        return OnMps(self.values.float())

    def double(self) -> Any:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    def cpu(self) -> Any:
        return self.values


@pytest.mark.slow
def test_logits_become_float64_on_the_cpu_since_mps_has_none(ref: ModelRef, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = runtime.resident(ref, SETTINGS, inference._pair_classifier)
    pairs = list(encode_pairs(loaded._tokenizer, pairs_of(3), loaded.limit))
    expected, model = loaded._forward(pairs), loaded.model
    monkeypatch.setattr(loaded, "model", lambda **inputs: SimpleNamespace(logits=OnMps(model(**inputs).logits)))
    found = loaded._forward(pairs)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), [0, 1, 2]),
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), [2, 0, 1]),
        (("entailment", "not_enough_info", "contradict"), [0, 2, 1]),
        (("entailment", "not_entailment"), [0, 1]),
        (("Unsupported", "Supported"), [1, 0]),
        (("LABEL_0", "LABEL_1"), [1, 0]),
    ],
)
def test_outputs_are_told_by_their_names(labels: tuple[str, ...], expected: list[int]) -> None:
    assert nli_order(labels, OTHER) == expected


@pytest.mark.parametrize(
    "labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("NEGATIVE", "POSITIVE"), ("entailment", "entailed", "neutral"), ()]
)
def test_outputs_that_cannot_be_told_apart_are_refused(labels: tuple[str, ...]) -> None:
    with pytest.raises(ModelUnavailable, match="id2label"):
        nli_order(labels, OTHER)


def test_nameless_outputs_of_the_published_model_are_in_its_published_order() -> None:
    assert nli_order(("LABEL_0", "LABEL_1", "LABEL_2"), VITAMINC_NLI) == [0, 1, 2]
