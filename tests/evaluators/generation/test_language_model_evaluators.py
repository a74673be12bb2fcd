"""Perplexity, GPTScore and hallucination: what a model's numbers make of a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import EvalContext, Evaluator
from leadline.evaluators.data import ContextChunk, Reason, Row, RowScore, Unscored
from leadline.evaluators.generation.grounding import Hallucination
from leadline.evaluators.generation.likelihood import GptScoreMachineTranslation, GptScoreQuestionAnswering, Perplexity
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import catalogue, inference, weight_files
from leadline.evaluators.models.results import Likelihood, Support
from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization.gptscore import (
    GptScoreSummarizationWithoutReference,
    GptScoreSummarizationWithReference,
)

pytestmark = pytest.mark.slow

ROW = Row(
    "case",
    "model",
    question="When does it start?",
    expected_answers=("The pump starts at seven.",),
    retrieved_context=(ContextChunk("The pump starts at seven."), ContextChunk(" "), ContextChunk("Pumps are loud.")),
    actual_answer="It starts at seven.",
)
REWRITE = {
    GptScoreMachineTranslation: {
        "accuracy": "Rewrite the following text with its core information and consistent facts:",
        "fluency": "Rewrite the following text to make it more grammatical and well-written:",
        "multidimensional_quality_metrics": "Rewrite the following text into high-quality text with its core "
        "information:",
    },
    GptScoreSummarizationWithReference: {
        "semantic_coverage": "Rewrite the following text with the same semantics.",
        "factuality": "Rewrite the following text with consistent facts.",
        "informativeness": "Rewrite the following text with its core information.",
        "coherence": "Rewrite the following text into a coherent text.",
        "relevance": "Rewrite the following text with consistent details.",
        "fluency": "Rewrite the following text into a fluent and grammatical text.",
    },
}
SUMMARIZE = {
    "semantic_coverage": "Generate a summary with as much semantic coverage as possible for the following text:",
    "factuality": "Generate a summary with consistent facts for the following text:",
    "consistency": "Generate factually consistent summary for the following text:",
    "informativeness": "Generate an informative summary that captures the key points of the following text:",
    "coherence": "Generate a coherent summary for the following text:",
    "relevance": "Generate a relevant summary with consistent details for the following text:",
    "fluency": "Generate a fluent and grammatical summary for the following text:",
}
ASKED = {
    "interest": "interesting",
    "engagement": "engaging",
    "understandability": "understandable",
    "relevance": "relevant to the conversation",
    "specific": "generic or specific to the conversation",
    "correctness": "correct to conversations",
    "semantically_appropriate": "semantically appropriate",
    "fluency": "fluently written",
}
GPT_SCORES = (*REWRITE, GptScoreQuestionAnswering, GptScoreSummarizationWithoutReference)


@pytest.fixture
def ctx() -> EvalContext:
    return EvalContext(Settings(device="cpu", splitter="rules"))


def built(kind: type[Evaluator], **params: Any) -> Evaluator:
    return kind(kind.parameters.build(kind.spec.id, {name: str(value) for name, value in params.items()}))


def loss(folder: Path, context: str, target: str) -> float:
    """Return the mean loss of the target's tokens as Transformers computes it, for one text alone."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    before = tokenizer(context)["input_ids"]
    wanted = tokenizer(target, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        if AutoConfig.from_pretrained(str(folder)).is_encoder_decoder:
            model = AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()
            return float(model(input_ids=torch.tensor([before]), labels=torch.tensor([wanted])).loss)
        model = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
        labels = torch.tensor([[-100] * len(before) + wanted])
        return float(model(input_ids=torch.tensor([before + wanted]), labels=labels).loss)


def reasons(score: RowScore) -> set[Reason]:
    return {value.reason for value in score.values.values() if isinstance(value, Unscored)}


@pytest.fixture(params=["gpt2", "opt", "t5"])
def folder(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Path:
    return tiny(request.param)


class TestGptScore:
    @pytest.mark.parametrize("kind", REWRITE)
    def test_rewriting_is_scored_both_ways_and_averaged(
        self, kind: type[Evaluator], folder: Path, ctx: EvalContext
    ) -> None:
        (score,) = built(kind, gpt_score_model=folder).score([ROW], ctx)
        answer, expected = ROW.actual_answer, ROW.expected_answers[0]
        assert set(score.values) == set(REWRITE[kind])
        for key, instruction in REWRITE[kind].items():
            there = loss(folder, f"{instruction} {expected} In other words,", f" {answer}")
            back = loss(folder, f"{instruction} {answer} In other words,", f" {expected}")
            assert score.values[key] == pytest.approx((there + back) / 2, abs=1e-5)
            assert score.evidence.data["parts"][key]["directions"] == pytest.approx([there, back], abs=1e-5)
        assert not score.flags

    def test_a_conversation_is_scored_by_the_answer_yes(self, folder: Path, ctx: EvalContext) -> None:
        (score,) = built(GptScoreQuestionAnswering, gpt_score_model=folder).score([ROW], ctx)
        assert set(score.values) == set(ASKED)
        for key, quality in ASKED.items():
            context = (
                "Answer the question based on the conversation between a human and AI.\n"
                f"Question: Are the responses of AI {quality}? (a) Yes. (b) No.\n"
                f"Conversation: human: {ROW.question}\nAI: {ROW.actual_answer}\n"
            )
            assert score.values[key] == pytest.approx(loss(folder, context, "Answer: Yes"), abs=1e-5)

    def test_a_summary_is_scored_after_its_text(self, folder: Path, ctx: EvalContext) -> None:
        (score,) = built(GptScoreSummarizationWithoutReference, gpt_score_model=folder).score([ROW], ctx)
        assert set(score.values) == set(SUMMARIZE)
        for key, instruction in SUMMARIZE.items():
            expected = loss(folder, f"{instruction} {ROW.question}\nTl;dr\n", ROW.actual_answer or "")
            assert score.values[key] == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("kind", REWRITE)
    def test_of_several_expected_answers_the_best_counts(
        self, kind: type[Evaluator], tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        texts = ("At seven.", " ", "loud", "The manual says: at nine.")
        evaluator = built(kind, gpt_score_model=tiny("gpt2"))
        together = Row("c", "m", expected_answers=texts, actual_answer="At seven.")
        singly = [Row("c", "m", expected_answers=(text,), actual_answer="At seven.") for text in texts if text.strip()]
        best, *each = evaluator.score([together, *singly], ctx)
        for key, value in best.values.items():
            assert value == pytest.approx(min(float(score.values[key]) for score in each), abs=1e-6)  # type: ignore[arg-type]

    def test_a_text_that_does_not_fit_is_scored_and_says_so(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        long = Row("c", "m", question="The pump starts at seven. " * 40, actual_answer="It starts at seven.")
        evaluator = built(GptScoreSummarizationWithoutReference, gpt_score_model=tiny("gpt2"))
        (score,) = evaluator.score([long], ctx)
        (flag,) = score.flags
        assert "longer" in flag.message
        assert len(set(score.values.values())) == len(SUMMARIZE)  # each still follows an instruction of its own

    @pytest.mark.parametrize("kind", GPT_SCORES)
    @pytest.mark.parametrize("blank", ["question", "expected_answers", "actual_answer"])
    def test_what_is_blank_cannot_be_scored(
        self, blank: str, kind: type[Evaluator], tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        from dataclasses import replace

        row = replace(ROW, **{blank: (" ",) if blank == "expected_answers" else " \n"})  # type: ignore[arg-type]
        (score,) = built(kind, gpt_score_model=tiny("gpt2")).score([row], ctx)
        reads = {field.value for field in kind.spec.inputs}
        matters = blank.removesuffix("s") in reads and kind is not GptScoreQuestionAnswering
        assert reasons(score) == ({Reason.UNSCORABLE} if matters else set())

    @pytest.mark.parametrize("name", catalogue.GPT_SCORE_MODELS)
    @pytest.mark.parametrize("kind", GPT_SCORES)
    def test_every_model_of_the_reference_can_be_chosen(
        self, name: str, kind: type[Evaluator], ctx: EvalContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        (ref,) = built(kind, gpt_score_model=name).models(ctx)
        assert ref.kind == "language_model"
        assert ref.source.endswith(name)
        assert weight_files.is_commit(ref.revision)
        if name == "gpt2-medium":
            assert kind().models(ctx) == (ref,)

    def test_sixteen_models_are_offered(self) -> None:
        assert len(set(catalogue.GPT_SCORE_MODELS)) == 16


class TestPerplexity:
    def test_it_is_the_power_of_the_mean_loss_as_lmppl_computes_it(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = tiny("gpt2")
        model = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        answers = ["It starts at seven.", "nine nine", "The pump is loud, says the manual. " * 4]
        scores = built(Perplexity, perplexity_model=folder).score(
            [Row("c", "m", actual_answer=answer) for answer in answers], ctx
        )
        for answer, score in zip(answers, scores, strict=True):
            ids = torch.tensor([tokenizer(answer)["input_ids"]])
            with torch.no_grad():
                logits = model(input_ids=ids).logits
            losses = torch.nn.CrossEntropyLoss(reduction="none")(logits[0, :-1], ids[0, 1:])
            assert score.values["perplexity"] == pytest.approx(math.exp(losses.mean()), rel=1e-5)
            assert not score.evidence.message

    @pytest.mark.parametrize("answer", ["", "."])
    def test_without_a_token_to_be_predicted_it_is_not_defined(
        self, answer: str, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        (score,) = built(Perplexity, perplexity_model=tiny("gpt2")).score([Row("c", "m", actual_answer=answer)], ctx)
        assert reasons(score) == {Reason.UNSCORABLE}

    def test_a_long_answer_is_scored_whole_and_says_how(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        evaluator = built(Perplexity, perplexity_model=tiny("gpt2"))
        start = "The pump starts at seven. " * 30
        one, other = evaluator.score([Row("c", "m", actual_answer=start + end) for end in ("loud", "nine")], ctx)
        assert "sliding windows" in one.evidence.message
        assert one.values["perplexity"] != other.values["perplexity"]

    def test_what_no_float_can_hold_is_infinite(self, ctx: EvalContext) -> None:
        score = Perplexity().measure(ROW, [Likelihood(1e9, 2, True, 3, 10)], ctx)
        assert score.values == {"perplexity": math.inf}


class TestHallucination:
    def test_it_is_the_maximum_over_the_chunks(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        folder = tiny("support-with-tokenizer")
        (score,) = built(Hallucination, hallucination_model=folder).score([ROW], ctx)
        chunks = [ROW.retrieved_context[0].content, ROW.retrieved_context[2].content]
        pairs = [(chunk, ROW.actual_answer or "") for chunk in chunks]
        ref = ModelRef("consistency", str(folder))
        values = [each.value for each in inference.support(ref, ref, pairs, settings=ctx.settings)]
        assert score.values["hallucination"] == pytest.approx(max(value or 0.0 for value in values), abs=1e-6)
        assert [(span.index, span.value) for span in score.evidence.spans] == [
            (0, pytest.approx(values[0])),
            (2, pytest.approx(values[1])),
        ]

    def test_a_blank_context_supports_nothing_and_a_blank_answer_claims_nothing(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        from dataclasses import replace

        evaluator = built(Hallucination, hallucination_model=tiny("support-with-tokenizer"))
        blank = replace(ROW, retrieved_context=(ContextChunk(""), ContextChunk("\n")))
        unsupported, silent = evaluator.score([blank, replace(ROW, actual_answer=" ")], ctx)
        assert unsupported.values == {"hallucination": 0.0}
        assert reasons(silent) == {Reason.UNSCORABLE}

    def test_what_was_read_in_parts_or_not_at_all_is_said(self, ctx: EvalContext) -> None:
        score = Hallucination().measure(ROW, [Support(0.25, 3), Support(None, 500)], ctx)
        assert score.values == {"hallucination": 0.25}
        assert len(score.flags) == 2
        unread = Hallucination().measure(ROW, [Support(None, 500), Support(None, 500)], ctx)
        assert reasons(unread) == {Reason.UNSCORABLE}

    def test_the_tokenizer_is_needed_besides_the_weights(self, ctx: EvalContext) -> None:
        assert Hallucination().models(ctx) == (catalogue.HHEM, catalogue.FLAN_T5_TOKENIZER)
