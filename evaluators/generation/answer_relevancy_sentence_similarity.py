"""Answer relevancy by sentence similarity: does any sentence of the answer resemble the question?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leadline.evaluators.core import Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import EmbeddingEvaluator, Vectors
from leadline.evaluators.data import DataKind, Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.models.similarity import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


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
        metrics=(
            Metric.higher("answer_relevancy", "Similarity of the question and the answer sentence closest to it."),
        ),
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
