from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models import inference, weights
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_models import MAX_TOKENS, make_cross_encoder, pairs_of

pytestmark = pytest.mark.slow

SETTINGS = Settings(device="cpu")


@pytest.fixture
def ref(tiny_cross_encoder: Path) -> ModelRef:
    return weights.parse_ref(str(tiny_cross_encoder), "cross_encoder")


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    yield
    inference.unload()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "by the library"])
@pytest.mark.parametrize("at_once", [1, 60, 1_000_000])
def test_a_score_is_the_sigmoid_of_the_models_output_for_the_pair(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch, at_once: int, plain: bool
) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(ref.source)
    model = AutoModelForSequenceClassification.from_pretrained(ref.source).eval()
    pairs = pairs_of(40)
    with torch.no_grad():
        logits = [model(**tokenizer(*pair, return_tensors="pt")).logits[0, 0].item() for pair in pairs]
    expected = 1 / (1 + np.exp(-np.array(logits)))
    assert np.ptp(expected) > 0.01
    monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
    monkeypatch.setattr(inference.pair_reader(ref, SETTINGS), "plain", plain)
    for order in (range(40), random.Random(1).sample(range(40), 40)):
        found = inference.read(ref, [pairs[place] for place in order], settings=SETTINGS).values
        np.testing.assert_allclose(found, expected[list(order)], atol=1e-5)


def test_equal_pairs_are_read_once_and_the_order_of_texts_counts(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = inference.pair_reader(ref, SETTINGS)
    seen: list[int] = []
    original = reader.forward

    def counting(features: Any) -> Any:
        seen.append(len(features["input_ids"]))
        return original(features)

    monkeypatch.setattr(reader, "forward", counting)
    there, back = ("the ship", "paris"), ("paris", "the ship")
    found = inference.read(ref, [there, back, there], settings=SETTINGS).values
    assert sum(seen) == 2
    assert found[0] == found[2] != found[1]
    assert inference.read(ref, [], settings=SETTINGS).values.shape == (0,)


def test_a_model_whose_library_adds_to_the_texts_is_not_read_without_it(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import CrossEncoder

    from leadline.evaluators.models.sentence_models import PairReader

    plain = inference.pair_reader(ref, SETTINGS)
    assert plain.plain
    preprocess = CrossEncoder.preprocess

    def prompted(self: Any, pairs: Any, *args: Any, **options: Any) -> Any:
        return preprocess(self, [("ship " + first, second) for first, second in pairs], *args, **options)

    monkeypatch.setattr(CrossEncoder, "preprocess", prompted)
    assert not PairReader(plain.model, "cpu").plain


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "by the library"])
def test_pairs_that_are_cut_off_are_named_with_their_length(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    monkeypatch.setattr(inference.pair_reader(ref, SETTINGS), "plain", plain)
    pairs = [("a", "b"), ("water " * 20, "ship " * 20), ("é" * 20, "b"), ("water " * 14, "ship " * 15)]
    assert inference.read(ref, pairs, settings=SETTINGS).overlong == [None, (43, MAX_TOKENS), None, None]


def test_odd_texts_have_scores(ref: ModelRef) -> None:
    odd = ["", "\ud800", "\0", "👩‍👩‍👧", "x" * 5000]
    found = inference.read(ref, [(first, second) for first in odd for second in odd], settings=SETTINGS).values
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_a_classifier_of_pairs_is_no_similarity_model(tmp_path: Path) -> None:
    ref = weights.parse_ref(str(make_cross_encoder(tmp_path / "nli", labels=3)), "cross_encoder")
    with pytest.raises(ModelUnavailable, match="3 classes"):
        inference.read(ref, [("a", "b")], settings=SETTINGS)


def test_absent_weights_are_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="leadline evaluators models pull cross-encoder/stsb-roberta-base"):
        inference.read(weights.STSB_ROBERTA_BASE, [("a", "b")], settings=SETTINGS)
