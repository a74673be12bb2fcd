"""Groundedness, answer relevancy and the two answer similarities against their formulas, one row at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.core.model_evaluator import EmbeddingEvaluator, EmbeddingParams, lowest, required_weights
from leadline.evaluators.data import ContextChunk, NotApplicable, Reason, Row, Unscored
from leadline.evaluators.generation.answer_similarity import (
    AnswerRelevancySentenceSimilarity,
    AnswerSemanticSentenceSimilarity,
    AnswerSemanticSimilarity,
    AnswerSemanticSimilarityParams,
)
from leadline.evaluators.generation.grounding import Groundedness
from leadline.evaluators.ground import ModelUnavailable, OutOfMemory
from leadline.evaluators.models import embedders, inference, weights
from leadline.evaluators.retrieval.context_relevancy_soft import ContextRelevancySoft
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import splitter_for
from tests.support.datasets.rag_rows import cosine_by_library, rag_rows

pytestmark = pytest.mark.slow

ROWS = rag_rows()
EVALUATORS: Sequence[type[EmbeddingEvaluator]] = (
    Groundedness,
    AnswerRelevancySentenceSimilarity,
    AnswerSemanticSentenceSimilarity,
    AnswerSemanticSimilarity,
    ContextRelevancySoft,
)
Cosine = Callable[[str, str], float]


@pytest.fixture(scope="module")
def cosine(tiny_embedder: Path) -> Cosine:
    return cosine_by_library(tiny_embedder)


def split(text: str | None) -> list[str]:
    return [sentence.text for sentence in splitter_for("en").split(text or "")]


def claims(row: Row) -> list[str]:
    """Return the sentences of an answer that groundedness assesses."""
    return [sentence for sentence in split(row.actual_answer) if len(sentence) > 10]


GROUNDABLE = [row for row in ROWS if claims(row)]


def unscored(value: object) -> Reason | None:
    return value.reason if isinstance(value, Unscored) else None


class TestFormulas:
    def test_groundedness(self, ctx: EvalContext, cosine: Cosine) -> None:
        for row, score in zip(GROUNDABLE, Groundedness().score(GROUNDABLE, ctx), strict=True):
            context = [sentence for chunk in row.retrieved_context for sentence in split(chunk.content)]
            expected = min(max(cosine(a, c) for c in context) for a in claims(row))
            assert score.values["groundedness"] == pytest.approx(expected, abs=1e-5)

    def test_answer_relevancy(self, ctx: EvalContext, cosine: Cosine) -> None:
        for row, score in zip(ROWS, AnswerRelevancySentenceSimilarity().score(ROWS, ctx), strict=True):
            expected = max(cosine(str(row.question), a) for a in split(row.actual_answer))
            assert score.values["answer_relevancy"] == pytest.approx(expected, abs=1e-5)

    def test_answer_sentence_similarity(self, ctx: EvalContext, cosine: Cosine) -> None:
        for row, score in zip(ROWS, AnswerSemanticSentenceSimilarity().score(ROWS, ctx), strict=True):
            by_expected = [
                [max(cosine(a, e) for e in split(expected)) for a in split(row.actual_answer)]
                for expected in row.expected_answers
            ]
            assert score.values == {
                "mean_answer_similarity": pytest.approx(max(np.mean(each) for each in by_expected), abs=1e-5),
                "min_answer_similarity": pytest.approx(max(min(each) for each in by_expected), abs=1e-5),
            }

    def test_answer_similarity_by_embeddings(self, ctx: EvalContext, cosine: Cosine) -> None:
        rows = [replace(row, actual_answer=split(row.actual_answer)[0]) for row in ROWS]
        rows = [replace(row, expected_answers=tuple(split(text)[0] for text in row.expected_answers)) for row in rows]
        for row, score in zip(rows, AnswerSemanticSimilarity().score(rows, ctx), strict=True):
            expected = max(cosine(e, str(row.actual_answer)) for e in row.expected_answers)
            assert score.values["answer_similarity"] == pytest.approx(expected, abs=1e-5)

    def test_answer_similarity_by_cross_encoder(self, ctx: EvalContext, tiny_cross_encoder: Path) -> None:
        from sentence_transformers import CrossEncoder

        evaluator = AnswerSemanticSimilarity(
            AnswerSemanticSimilarityParams(method="cross-encoder", cross_encoder=str(tiny_cross_encoder))
        )
        library = CrossEncoder(str(tiny_cross_encoder), device="cpu", local_files_only=True)
        for row, score in zip(ROWS, evaluator.score(ROWS, ctx), strict=True):
            pairs = [(expected, str(row.actual_answer)) for expected in row.expected_answers]
            expected = max(float(library.predict([pair], show_progress_bar=False)[0]) for pair in pairs)
            assert score.values["answer_similarity"] == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("evaluator", EVALUATORS)
    def test_values_do_not_depend_on_the_batch_or_its_order(
        self, evaluator: type[EmbeddingEvaluator], ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = evaluator().score(ROWS, ctx)
        for block in (1, 30):
            embedders.forget()
            monkeypatch.setattr("leadline.evaluators.core.model_evaluator.BLOCK_TEXTS", block)
            order = random.Random(block).sample(range(len(ROWS)), len(ROWS))
            for place, score in zip(order, evaluator().score([ROWS[at] for at in order], ctx), strict=True):
                for metric, value in score.values.items():
                    assert value == pytest.approx(whole[place].values[metric], abs=1e-5)


class TestEvidence:
    def test_each_answer_sentence_has_its_value_and_the_closest_context_sentence(
        self, ctx: EvalContext, cosine: Cosine
    ) -> None:
        for row, score in zip(GROUNDABLE, Groundedness().score(GROUNDABLE, ctx), strict=True):
            data: Any = score.evidence.data
            assert [str(row.actual_answer)[span.start : span.end] for span in score.evidence.spans] == claims(row)
            for span, place in zip(score.evidence.spans, data["closest"], strict=True):
                closest = row.retrieved_context[place["chunk"]].content[place["start"] : place["end"]]
                sentence = str(row.actual_answer)[span.start : span.end]
                assert cosine(sentence, closest) == pytest.approx(span.value, abs=1e-5)
            least = data["least_grounded"]
            assert least["value"] == score.values["groundedness"]
            assert str(row.actual_answer)[least["start"] : least["end"]] == least["sentence"]
            place = least["closest_at"]
            chunk = row.retrieved_context[place["chunk"]].content
            assert chunk[place["start"] : place["end"]] == least["closest"]

    def test_an_endless_answer_points_at_its_worst_sentences_only(self, ctx: EvalContext) -> None:
        answer = " ".join(f"Ship {number} is of paris." for number in range(900))
        row = Row("c", "m", actual_answer=answer, retrieved_context=(ContextChunk("Ship 7 is of paris. " * 3),))
        score = Groundedness().score([row], ctx)[0]
        assert len(score.evidence.spans) == 200
        assert min(span.value or 0 for span in score.evidence.spans) == score.values["groundedness"]
        assert lowest([3.0, 1.0, 2.0], 2) == [1, 2]

    def test_the_expected_answer_that_fits_best_is_named(self, ctx: EvalContext) -> None:
        row = Row("c", "m", expected_answers=("Of of of of of.", "The ship."), actual_answer="The ship.")
        for evaluator in (AnswerSemanticSimilarity(), AnswerSemanticSentenceSimilarity()):
            score = evaluator.score([row], ctx)[0]
            assert score.evidence.data["expected_answer"] == 1
            assert all(value == pytest.approx(1, abs=1e-5) for value in score.values.values())


class TestEdges:
    def test_an_answer_without_a_sentence_claims_nothing_that_could_be_grounded(self, ctx: EvalContext) -> None:
        for answer in (" \n", "Yes.", "Yes. No! Yes it is."):
            row = Row("c", "m", actual_answer=answer, retrieved_context=(ContextChunk("Paris."),))
            (score,) = Groundedness().score([row], ctx)
            value = score.values["groundedness"]
            assert isinstance(value, NotApplicable)
            assert "no sentence of more than 10 characters" in value.message

    def test_a_short_sentence_beside_a_longer_one_is_not_the_least_grounded(self, ctx: EvalContext) -> None:
        claim = "The ship is of paris."
        row = Row("c", "m", actual_answer=f"Yes. {claim} Of course.", retrieved_context=(ContextChunk(f"{claim} No."),))
        (score,) = Groundedness().score([row], ctx)
        assert score.values["groundedness"] == pytest.approx(1.0, abs=1e-5)
        assert [str(row.actual_answer)[span.start : span.end] for span in score.evidence.spans] == [claim]
        assert score.evidence.data["sentences"] == 1
        assert Groundedness().identity(ctx)["version"] == "3"

    @pytest.mark.parametrize(
        "answer", ["巴黎是法国的首都。", "パリは首都です。", "서울은 수도이다.", "$15,969 M.", "In 1986."]
    )
    def test_a_short_sentence_with_a_number_or_in_a_dense_script_is_assessed(
        self, ctx: EvalContext, answer: str
    ) -> None:
        row = Row("c", "m", actual_answer=answer, retrieved_context=(ContextChunk("Paris."),))
        (score,) = Groundedness().score([row], ctx)
        assert score.complete
        assert score.evidence.data["sentences"] == 1

    def test_a_context_without_a_sentence_grounds_nothing(self, ctx: EvalContext) -> None:
        row = Row("c", "m", actual_answer="It is Paris.", retrieved_context=(ContextChunk(""), ContextChunk(" ")))
        score = Groundedness().score([row], ctx)[0]
        assert score.values == {"groundedness": 0.0}
        least: Any = score.evidence.data["least_grounded"]
        assert (least["closest"], least["closest_at"]) == (None, None)

    @pytest.mark.parametrize("answer", ["", "   "])
    def test_a_blank_answer_resembles_nothing(self, ctx: EvalContext, tiny_cross_encoder: Path, answer: str) -> None:
        row = Row("c", "m", question="Where?", expected_answers=("Paris.",), actual_answer=answer)
        cross = AnswerSemanticSimilarityParams(method="cross-encoder", cross_encoder=str(tiny_cross_encoder))
        for evaluator in (
            AnswerRelevancySentenceSimilarity(),
            AnswerSemanticSentenceSimilarity(),
            AnswerSemanticSimilarity(),
            AnswerSemanticSimilarity(cross),
        ):
            score = evaluator.score([row], ctx)[0]
            assert set(score.values.values()) == {0.0}
            assert score.evidence.message

    def test_a_blank_question_or_expected_answer_leaves_the_row_unscored(self, ctx: EvalContext) -> None:
        row = Row("c", "m", question=" ", expected_answers=("", " "), actual_answer="Paris.")
        for evaluator in (
            AnswerRelevancySentenceSimilarity(),
            AnswerSemanticSentenceSimilarity(),
            AnswerSemanticSimilarity(),
            AnswerSemanticSimilarity(AnswerSemanticSimilarityParams(method="cross-encoder")),
        ):
            score = evaluator.score([row], ctx)[0]
            assert {unscored(value) for value in score.values.values()} == {Reason.UNSCORABLE}

    def test_a_pair_that_the_cross_encoder_cuts_off_says_so(self, ctx: EvalContext, tiny_cross_encoder: Path) -> None:
        cross = AnswerSemanticSimilarityParams(method="cross-encoder", cross_encoder=str(tiny_cross_encoder))
        rows = [Row("c", "m", expected_answers=("water " * count,), actual_answer="ship") for count in (5, 50)]
        short, long = AnswerSemanticSimilarity(cross).score(rows, ctx)
        assert short.flags == ()
        assert "54 tokens" in long.flags[0].message

    @pytest.mark.parametrize("evaluator", EVALUATORS)
    def test_hostile_text_is_survived(self, evaluator: type[EmbeddingEvaluator], ctx: EvalContext) -> None:
        odd = ["\ud800 lone. Two.", "\0", "👩‍👩‍👧 مرحبا. ", "x" * 20_000, "." * 5_000, "a. " * 3_000, "\u200b"]
        rows = [
            Row(str(at), "m", text, (text, ""), (ContextChunk(text), ContextChunk("")), text)
            for at, text in enumerate(odd)
        ]
        for score in evaluator().score(rows, ctx):
            assert all(0 <= value <= 1 for value in score.values.values() if isinstance(value, float))
            assert score.complete


class TestModels:
    @pytest.mark.parametrize("evaluator", EVALUATORS)
    def test_missing_weights_are_for_the_caller_to_report(
        self, evaluator: type[EmbeddingEvaluator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(ModelUnavailable, match="leadline evaluators models pull BAAI/bge-small-en"):
            evaluator().score(ROWS[:1], EvalContext(Settings(device="cpu")))

    def test_the_parameter_goes_before_the_run_and_the_run_before_the_default(self, tiny_embedder: Path) -> None:
        for evaluator in EVALUATORS:
            assert evaluator().embedder(EvalContext()) == evaluator.default_embedder
            of_run = EvalContext(Settings(embedder="offline"))
            assert evaluator().embedder(of_run).source == "offline"
            params = evaluator.parameters.build("x", {"embedding_model": str(tiny_embedder)})
            assert evaluator(params).embedder(of_run).source == str(tiny_embedder)

    def test_keys_know_the_model_and_not_how_it_was_named(self, tiny_embedder: Path) -> None:
        named = Groundedness(EmbeddingParams(embedding_model=str(tiny_embedder))).identity(EvalContext())
        of_run = Groundedness().identity(EvalContext(Settings(embedder=str(tiny_embedder))))
        assert named == of_run
        assert str(tiny_embedder) not in str(named)
        assert Groundedness().identity(EvalContext()) != named

    def test_one_pass_over_the_texts_serves_all_evaluators(
        self, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        passes = [evaluator().texts_to_embed(ROWS, ctx) for evaluator in EVALUATORS]
        (ref,) = {ref for one in passes for ref in one}
        ctx.embed(ref, list(dict.fromkeys(text for one in passes for text in one[ref])))

        def refuse(*_: object) -> None:
            raise AssertionError("a text was left out of the pass")

        monkeypatch.setattr(embedders, "_compute", refuse)
        for evaluator in EVALUATORS:
            assert all(score.complete for score in evaluator().score(ROWS, ctx))

    def test_the_cross_encoder_embeds_nothing_and_needs_no_embedder(self, ctx: EvalContext) -> None:
        evaluator = AnswerSemanticSimilarity(AnswerSemanticSimilarityParams(method="cross-encoder"))
        assert evaluator.texts_to_embed(ROWS, ctx) == {}
        assert evaluator.models(ctx) == (weights.STSB_ROBERTA_BASE,)
        assert required_weights([evaluator, Groundedness(), ContextRelevancySoft()], EvalContext()) == {
            weights.STSB_ROBERTA_BASE: ("answer_semantic_similarity",),
            weights.BGE_SMALL_EN: ("groundedness", "context_relevancy_soft"),
        }

    def test_a_text_that_does_not_fit_into_memory_costs_its_row_only(
        self, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = EvalContext.embed

        def embed(self: EvalContext, ref: Any, texts: Sequence[str], *, steady: bool = False) -> Any:
            if "Too long to be read." in texts:
                raise OutOfMemory("A text does not fit.")
            return original(self, ref, texts)

        monkeypatch.setattr(EvalContext, "embed", embed)
        first, second, third, long, *rest = GROUNDABLE[:6]
        rows = [first, second, third, replace(long, actual_answer="Too long to be read."), *rest]
        scores = Groundedness().score(rows, ctx)
        assert [unscored(score.values["groundedness"]) for score in scores] == [
            *[None] * 3,
            Reason.OUT_OF_MEMORY,
            None,
            None,
        ]

    def test_a_row_that_fails_costs_itself_only(self, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch) -> None:
        original = Groundedness.measure

        def measure(self: Groundedness, row: Row, *rest: Any) -> Any:
            if row.case == "c1":
                raise ValueError("broken")
            return original(self, row, *rest)

        monkeypatch.setattr(Groundedness, "measure", measure)
        values = [score.values["groundedness"] for score in Groundedness().score(GROUNDABLE[:3], ctx)]
        assert [unscored(value) for value in values] == [None, Reason.EVALUATOR_ERROR, None]

    def test_cross_encoders_can_be_dropped(self, ctx: EvalContext, tiny_cross_encoder: Path) -> None:
        cross = AnswerSemanticSimilarityParams(method="cross-encoder", cross_encoder=str(tiny_cross_encoder))
        first = AnswerSemanticSimilarity(cross).score(ROWS[:2], ctx)
        inference.unload()
        assert AnswerSemanticSimilarity(cross).score(ROWS[:2], ctx) == first
