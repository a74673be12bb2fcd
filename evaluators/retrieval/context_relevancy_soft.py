"""Soft context relevancy: how close do the retrieved chunks come to the question?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leadline.evaluators.core import JudgeKey, Metric, Spec, register
from leadline.evaluators.core.model_evaluator import SPANS, EmbeddingEvaluator, EmbeddingParams, Vectors
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.models.vectors import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


class ContextRelevancySoftParams(EmbeddingParams, JudgeKey):
    """Parameters of :class:`ContextRelevancySoft`."""


@register
class ContextRelevancySoft(EmbeddingEvaluator):
    """Measures the relevancy of the retrieved context by the similarity of the question and the chunks' sentences.

    With ``S`` the cosine of the embeddings, the question embedded as a whole::

        chunk relevancy(ch)  = max over sentences s of ch of S(question, s)
        recall relevancy     = max over chunks of chunk relevancy
        precision relevancy  = mean over chunks of chunk relevancy

    A negative cosine counts as 0. A chunk without a sentence has relevancy 0 and counts in the mean: it was retrieved
    and takes a place. A blank question has no relevant context: the row is unscored.
    """

    spec = Spec(
        id="context_relevancy_soft",
        name="Context Relevancy (Soft Recall and Precision) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.RETRIEVED_CONTEXT),
        metrics=(
            Metric.higher(
                "recall_relevancy",
                "Relevancy of the retrieved chunk closest to the question.",
                name="Recall Relevancy",
                primary=True,
            ),
            Metric.higher("precision_relevancy", "Mean relevancy of the retrieved chunks.", name="Precision Relevancy"),
        ),
        gpu=True,
        llm=False,
        sentences=True,
        keywords=("relevance", "embeddings", "similarity"),
        source="H2O Sonar evaluator reference: Context Relevancy (Soft Recall and Precision) Evaluator",
    )
    parameters = ContextRelevancySoftParams
    default_embedder = BGE_SMALL_EN

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the question and the sentences of all chunks."""
        yield row.question or ""
        yield from (sentence.text for chunk in row.retrieved_context for sentence in ctx.sentences(chunk.content))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row."""
        question = row.question or ""
        if not question.strip():
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The question is blank.")
        if not row.retrieved_context:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "No context was retrieved.")
        asked = vectors.of([question])
        relevancy = []
        spans = []
        for number, chunk in enumerate(row.retrieved_context):
            sentences = ctx.sentences(chunk.content)
            best = best_matches(asked, vectors.of(sentence.text for sentence in sentences))
            relevancy.append(float(best.values[0]))
            if sentences:
                closest = sentences[int(best.places[0])]
                spans.append(Span(Source.RETRIEVED_CONTEXT, closest.start, closest.end, number, relevancy[-1]))
        return RowScore(
            {"recall_relevancy": max(relevancy), "precision_relevancy": sum(relevancy) / len(relevancy)},
            Evidence(spans=tuple(spans[:SPANS]), data={"chunks": relevancy[:SPANS]}),
        )
