"""Similarity of embeddings: the answer and the expected answer, whole or by sentences; the answer and the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from leadline.evaluators.core import DataKind, JudgeKey, Metric, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import EmbeddingEvaluator, EmbeddingParams, Vectors, lowest
from leadline.evaluators.data import Evidence, Flag, Json, Reason, Row, RowField, RowScore, Severity, Source, Span, clip
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import inference
from leadline.evaluators.models.vectors import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN, BGE_SMALL_EN_V15, STSB_ROBERTA_BASE, chosen

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


class AnswerSemanticSimilarityParams(EmbeddingParams, JudgeKey):
    """Parameters of :class:`AnswerSemanticSimilarity`."""

    method: Literal["embeddings", "cross-encoder"] = Field(
        "embeddings",
        description="'embeddings': cosine of the two answers' vectors; 'cross-encoder': one model reads both, "
        "slower and finer.",
    )
    cross_encoder: str | None = Field(
        None,
        description="Cross-encoder with one output: a Hugging Face id, optionally ID@REVISION, or a directory. "
        "By default cross-encoder/stsb-roberta-base.",
    )


@register
class AnswerSemanticSimilarity(EmbeddingEvaluator):
    """Assesses the semantic resemblance between the answer and the expected answer (ground truth).

    ``answer similarity = cosine(emb(expected answer), emb(actual answer))``, where a negative cosine counts as 0; or,
    with ``method = cross-encoder``, the similarity that a cross-encoder gives the pair (expected, actual)
    (https://arxiv.org/abs/2108.06130). With several expected answers it is the best of them. Long answers are
    embedded in windows and nothing of them is left out; a pair that is longer than the cross-encoder reads is
    cut off, and the row says so. A blank answer resembles nothing: 0. A row whose expected answers are all blank is
    unscored.
    """

    spec = Spec(
        id="answer_semantic_similarity",
        name="Answer Semantic Similarity Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric("answer_similarity", "Semantic resemblance of the answer and the expected answer."),
        lane="gpu",
        keywords=("embeddings", "cross-encoder", "similarity"),
        suits=(DataKind.SENTENCES,),
        source="H2O Sonar evaluator reference: Answer Semantic Similarity Evaluator; https://arxiv.org/abs/2108.06130",
    )
    parameters = AnswerSemanticSimilarityParams
    default_embedder = BGE_SMALL_EN_V15

    @property
    def crosses(self) -> bool:
        """True where the method is a cross-encoder."""
        return getattr(self.params, "method", "") == "cross-encoder"

    def cross_encoder(self, ctx: EvalContext) -> ModelRef:
        """Return the cross-encoder: the parameter, or the default."""
        named = getattr(self.params, "cross_encoder", None)
        return chosen(named, "cross_encoder", ctx.settings) if named else STSB_ROBERTA_BASE

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the one model that the method needs."""
        return (self.cross_encoder(ctx) if self.crosses else self.embedder(ctx),)

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the answers, or nothing for a cross-encoder."""
        return {} if self.crosses else super().texts_to_embed(rows, ctx)

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the answer and the expected answers."""
        yield row.actual_answer or ""
        yield from (text for _, text in _expected(row))

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows by the method asked for."""
        return self._cross(rows, ctx) if self.crosses else super().score(rows, ctx)

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row by embeddings."""
        expected = _expected(row)
        if not expected:
            return self._without_truth()
        best = best_matches(vectors.of([row.actual_answer or ""]), vectors.of(text for _, text in expected))
        return self._scored(row, float(best.values[0]), expected[int(best.places[0])][0])

    def _cross(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        ref = self.cross_encoder(ctx)
        pairs = {
            (at, number): (text, row.actual_answer or "")
            for at, row in enumerate(rows)
            if (row.actual_answer or "").strip()
            for number, text in _expected(row)
        }
        compared = inference.read(ref, list(pairs.values()), settings=ctx.settings)
        values = dict(zip(pairs, compared.values.tolist(), strict=True))
        cut = dict(zip(pairs, compared.overlong, strict=True))
        out = []
        for at, row in enumerate(rows):
            expected = _expected(row)
            if not expected:
                out.append(self._without_truth())
                continue
            number = max((number for number, _ in expected), key=lambda each: values.get((at, each), 0.0))
            score = self._scored(row, values.get((at, number), 0.0), number)
            lengths = cut.get((at, number))
            out.append(score if lengths is None else RowScore(score.values, score.evidence, (_cut_off(*lengths),)))
        return out

    def _scored(self, row: Row, value: float, number: int) -> RowScore:
        data: dict[str, Json] = {"expected_answer": number} if len(row.expected_answers) > 1 else {}
        message = "" if (row.actual_answer or "").strip() else "The answer is blank."
        return RowScore({"answer_similarity": clip(value, 0.0, 1.0)}, Evidence(message, data=data))

    def _without_truth(self) -> RowScore:
        return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")


def _expected(row: Row) -> list[tuple[int, str]]:
    return [(number, text) for number, text in enumerate(row.expected_answers) if text.strip()]


def _cut_off(tokens: int, limit: int) -> Flag:
    return Flag(
        "evaluation",
        Severity.MEDIUM,
        f"The two answers have {tokens} tokens together, of which the cross-encoder read {limit}.",
    )


@register
class AnswerSemanticSentenceSimilarity(EmbeddingEvaluator):
    """Assesses how far the sentences of the answer resemble those of the expected answer.

    With ``S`` the cosine of the embeddings::

        similarity(a)           = max over sentences e of the expected answer of S(a, e), for each answer sentence a
        mean answer similarity  = mean over answer sentences of similarity(a)
        min answer similarity   = min over answer sentences of similarity(a)

    A negative cosine counts as 0. With several expected answers, each metric is the best that any one of them gives.
    An answer without a sentence resembles nothing: 0. A row whose expected answers are all blank is unscored.
    """

    spec = Spec(
        id="answer_semantic_sentence_similarity",
        name="Answer Semantic Sentence Similarity Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "mean_answer_similarity",
                "Mean similarity of the answer's sentences to the expected answer.",
                name="Mean Answer similarity",
                primary=True,
            ),
            Metric.higher(
                "min_answer_similarity",
                "Similarity of the answer sentence that is least like the expected answer.",
                name="Min Answer similarity",
            ),
        ),
        gpu=True,
        sentences=True,
        keywords=("embeddings", "similarity"),
        suits=(DataKind.SENTENCES,),
        source="H2O Sonar evaluator reference: Answer Semantic Sentence Similarity Evaluator",
    )
    default_embedder = BGE_SMALL_EN_V15

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the sentences of the answer and of all expected answers."""
        for text in (row.actual_answer or "", *row.expected_answers):
            yield from (sentence.text for sentence in ctx.sentences(text))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row."""
        expected = {number: ctx.sentences(text) for number, text in enumerate(row.expected_answers)}
        expected = {number: sentences for number, sentences in expected.items() if sentences}
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        answer = ctx.sentences(row.actual_answer or "")
        if not answer:
            return RowScore(dict.fromkeys(self.row_metrics, 0.0), Evidence("The answer holds no sentence."))
        ours = vectors.of(sentence.text for sentence in answer)
        by_expected = {
            number: best_matches(ours, vectors.of(sentence.text for sentence in sentences)).values
            for number, sentences in expected.items()
        }
        nearest = max(by_expected, key=lambda number: by_expected[number].mean())
        values = by_expected[nearest].tolist()
        data: dict[str, Json] = {"sentences": len(answer)}
        if len(row.expected_answers) > 1:
            data["expected_answer"] = nearest
        return RowScore(
            {
                "mean_answer_similarity": float(by_expected[nearest].mean()),
                "min_answer_similarity": float(max(each.min() for each in by_expected.values())),
            },
            Evidence(
                spans=tuple(
                    Span(Source.ACTUAL_ANSWER, answer[at].start, answer[at].end, value=values[at])
                    for at in lowest(values)
                ),
                data=data,
            ),
        )


@register
class AnswerRelevancySentenceSimilarity(EmbeddingEvaluator):
    """Assesses how relevant the answer is by the similarity of the question and the answer's sentences.

    ``answer relevancy = max over answer sentences a of S(question, a)``, where ``S`` is the cosine of the embeddings;
    the question is embedded as a whole. A negative cosine counts as 0. An answer without a sentence is not relevant:
    0. A blank question cannot be answered: the row is unscored.
    """

    spec = Spec(
        id="answer_relevancy_sentence_similarity",
        name="Answer Relevancy (Sentence Similarity) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=one_metric("answer_relevancy", "Similarity of the question and the answer sentence closest to it."),
        gpu=True,
        sentences=True,
        keywords=("relevance", "embeddings", "similarity"),
        suits=(DataKind.QUESTIONS,),
        source="H2O Sonar evaluator reference: Answer Relevancy (Sentence Similarity) Evaluator",
    )
    default_embedder = BGE_SMALL_EN

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the question and the answer's sentences."""
        yield row.question or ""
        yield from (sentence.text for sentence in ctx.sentences(row.actual_answer or ""))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row."""
        question = row.question or ""
        if not question.strip():
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The question is blank.")
        answer = ctx.sentences(row.actual_answer or "")
        if not answer:
            return RowScore({"answer_relevancy": 0.0}, Evidence("The answer holds no sentence."))
        best = best_matches(vectors.of([question]), vectors.of(sentence.text for sentence in answer))
        value = float(best.values[0])
        closest = answer[int(best.places[0])]
        span = Span(Source.ACTUAL_ANSWER, closest.start, closest.end, value=value, note="closest to the question")
        return RowScore({"answer_relevancy": value}, Evidence(spans=(span,)))
