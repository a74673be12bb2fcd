"""Likelihoods equal those written from the formula, one text at a time, without batches or padding."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models import inference, runtime
from leadline.evaluators.models.results import Likelihood, Passage
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_size import CONTEXT

pytestmark = pytest.mark.slow

CPU = Settings(device="cpu")
PASSAGES = (
    Passage(" it starts at seven.", "Rewrite the following text: The pump starts. In other words,", 27),
    Passage("Answer: Yes", "human: When? AI: At seven.\n"),
    Passage("The pump starts at seven, and it stops at nine."),
    Passage("seven", "x"),
    Passage(" 🙂 ünïcödé \u202e", "In other words,"),
    Passage("Pumps are loud. " * 4, "Tl;dr\n"),
)
LONG = "The pump starts at seven, says the manual, and stops at nine. " * 30


def ref(folder: Path) -> ModelRef:
    return ModelRef("language_model", str(folder))


@cache
def parts(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    encodes = AutoConfig.from_pretrained(str(folder)).is_encoder_decoder
    kind = AutoModelForSeq2SeqLM if encodes else AutoModelForCausalLM
    return kind.from_pretrained(str(folder)).eval(), AutoTokenizer.from_pretrained(str(folder))


@cache
def by_the_formula(folder: Path, passage: Passage) -> tuple[float, int]:
    """Return the sum of -ln p of the target's tokens, and how many there are, token by token."""
    import torch

    model, tokenizer = parts(folder)
    target = tokenizer(passage.target, add_special_tokens=False)["input_ids"]
    total, count = 0.0, 0
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            source = torch.tensor([tokenizer(passage.context)["input_ids"]])
            for place, token in enumerate(target):
                so_far = torch.tensor([[model.config.decoder_start_token_id, *target[:place]]])
                logits = model(input_ids=source, decoder_input_ids=so_far).logits[0, -1].double()
                total -= float(logits.log_softmax(-1)[token])
                count += 1
            return total, count
        context = tokenizer(passage.context)["input_ids"]
        for place, token in enumerate(target):
            so_far = [*context, *target[:place]]
            if so_far:
                logits = model(input_ids=torch.tensor([so_far])).logits[0, -1].double()
                total -= float(logits.log_softmax(-1)[token])
                count += 1
    return total, count


def check(folder: Path, passages: Sequence[Passage]) -> list[Likelihood]:
    """Hold the likelihoods of passages that are read together against the formula; returns them."""
    found = inference.likelihoods(ref(folder), passages, settings=CPU)
    for passage, each in zip(passages, found, strict=True):
        nll, tokens = by_the_formula(folder, passage)
        assert each.tokens == tokens
        assert each.mean == pytest.approx(nll / tokens, abs=1e-5)
    return found


@pytest.fixture(params=["gpt2", "opt", "gptj", "gpt-neo", "t5", "bart"])
def architecture(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Path:
    return tiny(request.param)


@pytest.fixture(params=["gpt2", "t5"])
def folder(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Path:
    """A decoder and an encoder with a decoder: what does not depend on how an architecture counts positions."""
    return tiny(request.param)


def test_likelihoods_equal_the_formula_in_any_batch_and_order(
    architecture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_once in (1, 200, 100_000):
        monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
        passages = list(PASSAGES)
        random.Random(at_once).shuffle(passages)
        assert all(each.whole for each in check(architecture, passages))


SHARED = (
    *(
        Passage(f" {answer}", f"human: {LONG[:120]} AI:")
        for answer in ("seven.", "It starts at nine.", "loud loud", "?")
    ),
    *(
        Passage(f" {answer}", f"Rewrite the following text: {LONG[:90]}")
        for answer in ("The pump", "nine. Pumps stop.")
    ),
    Passage(" alone", f"In other words, {LONG[:60]}"),
    Passage("At seven.", "human: When?"),
    Passage("At nine.", "human: When?"),
)
"""Several texts after the same long context, and some that gain nothing by it."""


def test_texts_after_the_same_context_score_as_if_it_were_read_for_each(
    architecture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_once in (1, 100_000):
        monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
        check(architecture, SHARED)


def test_contexts_of_very_different_lengths_fit_the_model_together(architecture: Path) -> None:
    passages = [
        *(Passage(" seven" * times, "human: The pump is loud, says the manual. AI:") for times in (200, 190)),
        *(Passage(" seven" * times, LONG[:440]) for times in (1, 2)),
    ]
    assert all(each.whole for each in check(architecture, passages))


def test_a_shared_context_is_read_once(architecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    read: list[int] = []

    def count(module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        read.append(inputs[0].numel())

    def tokens_read(passages: Sequence[Passage]) -> int:
        read.clear()
        inference.likelihoods(ref(architecture), passages, settings=CPU)
        return sum(read)

    inference.likelihoods(ref(architecture), [PASSAGES[0]], settings=CPU)
    ((loaded, _),) = [each for key, each in runtime._models.items() if key[0] == ref(architecture)]
    words = loaded.model.config.vocab_size
    tables = [each for each in loaded.model.modules() if getattr(each, "num_embeddings", 0) == words]
    hooks = [table.register_forward_pre_hook(count) for table in tables]
    try:
        context = f"human: {LONG[:120]} AI:"
        alone = tokens_read([Passage(" seven", context)])
        together = tokens_read([Passage(f" {word}", context) for word in ("seven", "nine", "loud", "pump")])
    finally:
        for hook in hooks:
            hook.remove()
    assert together < 1.5 * alone


def test_windows_that_do_not_fit_together_are_read_one_by_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.evaluators.models.language_models import Predictor

    forward = Predictor.forward

    def small(self: Any, jobs: Sequence[Any]) -> Any:
        if any(len(job.windows) > 1 for job in jobs):
            raise MemoryError
        return forward(self, jobs)

    wanted = inference.likelihoods(ref(folder), SHARED, settings=CPU)
    monkeypatch.setattr(Predictor, "forward", small)
    found = inference.likelihoods(ref(folder), SHARED, settings=CPU)
    assert [each.nll for each in found] == pytest.approx([each.nll for each in wanted], abs=1e-4)


def test_a_model_that_counts_positions_otherwise_reads_each_text_whole(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    import torch
    from transformers import RobertaConfig, RobertaForCausalLM

    folder = shutil.copytree(tiny("roberta"), tmp_path / "model")
    config = RobertaConfig.from_pretrained(str(folder))
    config.is_decoder = True
    torch.manual_seed(3)
    RobertaForCausalLM(config).save_pretrained(str(folder))
    passages = [
        Passage(f" {word}", "It starts at seven, it stops at")
        for word in ("nine", "loud", "seven", "the", "pump", "is")
    ]
    alone = [inference.likelihoods(ref(folder), [each], settings=CPU)[0].nll for each in passages]
    together = [each.nll for each in inference.likelihoods(ref(folder), passages, settings=CPU)]
    assert together == pytest.approx(alone, abs=1e-5)


def test_only_what_is_left_to_a_model_after_its_output_layer_keeps_the_layer_in_it(tiny: Callable[[str], Path]) -> None:
    def apart(name: str) -> bool:
        inference.likelihoods(ref(tiny(name)), PASSAGES[:1], settings=CPU)
        ((model, _),) = [each for key, each in runtime._models.items() if key[0] == ref(tiny(name))]
        return bool(model._predictor._output.apart)

    assert apart("gptj")
    assert not apart("bart")


def test_the_mean_is_the_loss_that_transformers_computes_for_the_same_labels(architecture: Path) -> None:
    import torch

    model, tokenizer = parts(architecture)
    passage = PASSAGES[0]
    target = tokenizer(passage.target, add_special_tokens=False)["input_ids"]
    context = tokenizer(passage.context)["input_ids"]
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            loss = model(input_ids=torch.tensor([context]), labels=torch.tensor([target])).loss
        else:
            labels = [-100] * len(context) + target
            loss = model(input_ids=torch.tensor([context + target]), labels=torch.tensor([labels])).loss
    (found,) = inference.likelihoods(ref(architecture), [passage], settings=CPU)
    assert found.mean == pytest.approx(float(loss), abs=1e-5)


@pytest.mark.parametrize(("name", "tokens"), [("gpt2", 0), ("opt", 1), ("t5", 1)])
def test_a_first_token_is_predicted_only_after_a_start_mark(
    name: str, tokens: int, tiny: Callable[[str], Path]
) -> None:
    one, none = inference.likelihoods(ref(tiny(name)), [Passage("."), Passage("")], settings=CPU)
    assert one.length == 1 if name != "t5" else one.length >= 1
    assert one.tokens == tokens if name != "t5" else one.tokens == one.length
    assert (one.mean is None) == (one.tokens == 0)
    assert none == Likelihood(0.0, 0, True, 0, none.limit)
    assert none.mean is None


@pytest.mark.parametrize("name", ["gpt2", "opt"])
def test_a_long_text_slides_through_the_window_and_each_token_counts_once(
    name: str, tiny: Callable[[str], Path]
) -> None:
    import torch

    model, tokenizer = parts(tiny(name))
    ids = tokenizer(LONG)["input_ids"]
    mark = len(ids) - len(tokenizer(LONG, add_special_tokens=False)["input_ids"])
    step = (CONTEXT - mark) // 2
    total, first, scored = 0.0, 1, 0
    while first < len(ids):
        end = min(len(ids), max(first + step, CONTEXT))
        window = [*ids[:mark], *ids[max(mark, end - CONTEXT + mark) : end]]
        with torch.no_grad():
            logs = model(input_ids=torch.tensor([window])).logits[0].double().log_softmax(-1)
        for back in range(end - first, 0, -1):
            total -= float(logs[len(window) - back - 1, window[len(window) - back]])
            scored += 1
        first = end
    (found,) = inference.likelihoods(ref(tiny(name)), [Passage(LONG)], settings=CPU)
    assert found.tokens == scored == len(ids) - 1
    assert not found.whole
    assert found.limit == CONTEXT
    assert found.mean == pytest.approx(total / scored, abs=1e-5)


def test_an_instruction_stays_in_front_of_every_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.evaluators.models.language_models import Predictor

    monkeypatch.setattr("leadline.evaluators.models.language_models.RELATIVE_LIMIT", CONTEXT)
    runtime.unload()
    seen: list[Sequence[int]] = []
    forward = Predictor.forward

    def watched(self: Any, jobs: Sequence[Any]) -> Any:
        seen.extend(window.source or window.ids for job in jobs for window in job.windows)
        return forward(self, jobs)

    monkeypatch.setattr(Predictor, "forward", watched)
    instruction = "human: Rewrite"
    passage = Passage(LONG[:200], f"{instruction} {LONG}", len(instruction))
    (found,) = inference.likelihoods(ref(folder), [passage], settings=CPU)
    runtime.unload()
    _, tokenizer = parts(folder)
    start = tokenizer(instruction)["input_ids"]
    start = start[:-1] if start[-1] == tokenizer.eos_token_id else start
    assert seen
    for window in seen:
        assert len(window) <= CONTEXT
        assert list(window[: len(start)]) == start
    assert not found.whole
    assert found.tokens == len(tokenizer(passage.target, add_special_tokens=False)["input_ids"])


def test_a_long_target_of_an_encoder_decoder_model_is_scored_whole(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.evaluators.models.language_models.RELATIVE_LIMIT", 60)
    runtime.unload()
    (found,) = inference.likelihoods(ref(tiny("t5")), [Passage(LONG, "Tl;dr")], settings=CPU)
    runtime.unload()
    _, tokenizer = parts(tiny("t5"))
    assert found.tokens == len(tokenizer(LONG, add_special_tokens=False)["input_ids"])
    assert not found.whole


def test_equal_passages_are_scored_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.evaluators.models.language_models import Predictor

    read: list[int] = []
    forward = Predictor.forward

    def counted(self: Any, jobs: Sequence[Any]) -> Any:
        read.extend(len(job.windows) for job in jobs)
        return forward(self, jobs)

    monkeypatch.setattr(Predictor, "forward", counted)
    found = inference.likelihoods(ref(folder), [PASSAGES[1], PASSAGES[0], PASSAGES[1]], settings=CPU)
    assert sum(read) == 2
    assert found[0] is found[2]


def test_a_classifier_is_no_language_model(tiny: Callable[[str], Path]) -> None:
    with pytest.raises(ModelUnavailable):
        inference.likelihoods(ref(tiny("bias")), [PASSAGES[0]], settings=CPU)


def test_no_passages_need_no_weights() -> None:
    assert inference.likelihoods(ModelRef("language_model", "/no/where"), [], settings=CPU) == []
