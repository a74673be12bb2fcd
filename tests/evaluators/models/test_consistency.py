"""HHEM's scores equal those of its published code on the same weights, one pair at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models import inference, tokens
from leadline.evaluators.settings import Settings

pytestmark = pytest.mark.slow

CPU = Settings(device="cpu")
PAIRS = (
    ("The pump starts at seven.", "It starts at seven."),
    ("The pump starts at seven. It stops at nine, says the manual.", "loud"),
    ("Pumps are loud.", "The pump {starts} at nine, and it {} stops at seven."),
    ("a", "b"),
)


def ref(folder: Path) -> ModelRef:
    return ModelRef("consistency", str(folder))


def tokenizer(tiny: Callable[[str], Path]) -> ModelRef:
    return ModelRef("tokenizer", str(tiny("t5-tokenizer")))


def load_support_model(*args: Any) -> Any:
    """Load a model; what runs it is imported when a test needs it."""
    from leadline.evaluators.models.consistency import load_support_model as load

    return load(*args)


def as_published(tiny: Callable[[str], Path], premise: str, hypothesis: str) -> float:
    """Return the score as ``modeling_hhem_v2.py`` computes it."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, T5Config, T5ForTokenClassification

    from tests.support.models.tiny_checkpoints import t5_sizes

    model: Any = T5ForTokenClassification(T5Config(**t5_sizes(), num_labels=2)).eval()
    state = load_file(str(tiny("support") / "model.safetensors"))
    result = model.load_state_dict({name.removeprefix("t5."): value for name, value in state.items()}, strict=False)
    assert set(result.missing_keys) <= {"transformer.encoder.embed_tokens.weight"}  # tied to the shared table
    prompt = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {text1}\n\nHypothesis: {text2}"
    inputs = AutoTokenizer.from_pretrained(str(tiny("t5-tokenizer")))(
        [prompt.format(text1=premise, text2=hypothesis)], return_tensors="pt"
    )
    with torch.no_grad():
        logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    return float(torch.softmax(logits[:, 0, :].double(), dim=-1)[0, 1])


@pytest.mark.parametrize("at_once", [1, 100_000])
def test_scores_equal_the_published_code_s_in_any_batch_and_order(
    at_once: int, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
    pairs = [*PAIRS, PAIRS[0]]
    random.Random(at_once).shuffle(pairs)
    found = inference.support(ref(tiny("support")), tokenizer(tiny), pairs, settings=CPU)
    for pair, each in zip(pairs, found, strict=True):
        assert each.windows == 1
        assert each.value == pytest.approx(as_published(tiny, *pair), abs=1e-5)
    assert len({each.value for each in found}) == len(PAIRS)


def test_a_tokenizer_that_comes_with_the_weights_is_used(tiny: Callable[[str], Path]) -> None:
    absent = ModelRef("tokenizer", "google/flan-t5-base", "0" * 40)
    ours = inference.support(ref(tiny("support-with-tokenizer")), absent, PAIRS, settings=CPU)
    assert ours == inference.support(ref(tiny("support")), tokenizer(tiny), PAIRS, settings=CPU)


def test_without_any_tokenizer_the_model_is_unavailable(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = shutil.copytree(tiny("support"), tmp_path / "support")
    with pytest.raises(ModelUnavailable, match="leadline evaluators models pull google/flan-t5-base"):
        inference.support(ref(folder), ModelRef("tokenizer", "google/flan-t5-base", "0" * 40), PAIRS, settings=CPU)


def test_a_long_premise_counts_by_its_best_window_and_a_long_hypothesis_by_its_worst(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.evaluators.models.consistency.SUPPORT_LIMIT", 40)
    premise, hypothesis = "The pump starts at seven. " * 16, "It stops at nine. " * 16
    model = load_support_model(ref(tiny("support")), tokenizer(tiny), "cpu", CPU)
    pairs = [(premise, "seven"), ("seven", hypothesis), (premise, hypothesis)]
    scores = model.score(pairs)
    for given, asked in pairs:
        lengths = {
            text: len(each.ids)
            for text, each in zip((given, asked), tokens.encode(model._tokenizer, (given, asked)), strict=True)
        }
        cut = list(model._pieces(given, asked, lengths))
        assert "".join(row[0][1] for row in cut) == asked
        assert "".join(part for part, _ in cut[0]) == given
        values = [[as_published(tiny, *pair) for pair in row] for row in cut]
        assert scores[given, asked].value == pytest.approx(min(map(max, values)), abs=1e-5)
        assert scores[given, asked].windows == sum(map(len, cut)) > 1


def test_texts_that_would_make_too_many_windows_are_not_read(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.evaluators.models.consistency.SUPPORT_LIMIT", 40)
    monkeypatch.setattr("leadline.evaluators.models.consistency.MOST_WINDOWS", 2)
    model = load_support_model(ref(tiny("support")), tokenizer(tiny), "cpu", CPU)
    long = "The pump starts at seven. " * 20
    scores = model.score([(long, long), ("seven", "nine")])
    assert scores[long, long].value is None
    assert scores[long, long].windows > 2
    assert scores["seven", "nine"].value is not None


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_weights_of_another_form_are_refused(name: str, tiny: Callable[[str], Path]) -> None:
    with pytest.raises(ModelUnavailable, match="HHEM"):
        inference.support(ref(tiny(name)), tokenizer(tiny), PAIRS, settings=CPU)
