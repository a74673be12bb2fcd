"""The share of the expected documents that were retrieved, as Databricks measures it without a judge."""

from __future__ import annotations

from leadline.evaluators.agent.databricks_judges import SOURCE
from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore


@register
class DatabricksDocumentRecall(RowEvaluator):
    """Share of the expected documents that are among the retrieved ones.

    **Method.** The distinct documents (``doc_uri``) that the case expects and that some retrieved chunk comes from,
    divided by the distinct documents that it expects: one of two gives 0.5, however many others were retrieved. There
    is no judge.

    **Edge cases.**

    * Chunks without a ``doc_uri`` count for nothing.
    * A case without expected documents, or a row whose chunks name no document, is not applicable.

    **Source.** Databricks, Mosaic AI Agent Evaluation LLM judges reference, "document_recall".
    """

    spec = Spec(
        id="databricks.document_recall",
        name="Document recall",
        origin="databricks",
        inputs=(RowField.EXPECTED_DOCUMENTS, RowField.RETRIEVED_DOCUMENTS),
        metrics=(
            Metric.higher("document_recall", "Share of the expected documents that were retrieved.", threshold=None),
        ),
        llm=False,
        keywords=("rule-based", "deterministic", "retrieval"),
        source=SOURCE,
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row."""
        expected = dict.fromkeys(row.expected_documents)
        retrieved = {chunk.doc_uri for chunk in row.retrieved_context if chunk.doc_uri is not None}
        if not expected or not retrieved:
            return RowScore.not_applicable(self.row_metrics, "There is no expected or no retrieved document.")
        missing: list[Json] = [document for document in expected if document not in retrieved]
        message = f"{len(expected) - len(missing)} of {len(expected)} expected documents were retrieved."
        return RowScore(
            {"document_recall": 1 - len(missing) / len(expected)}, Evidence(message, data={"missing": missing})
        )
