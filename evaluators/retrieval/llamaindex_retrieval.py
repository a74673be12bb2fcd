"""Ranked retrieval against the documents that should have been found, with LlamaIndex's metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import ContextChunk, Evidence, Row, RowField, RowScore, clip


class RetrievalParams(Params):
    """Parameters of ranked retrieval."""

    k: int | None = Field(
        None, ge=1, description="Only the first k distinct documents count (precision at k, …); empty: all."
    )
    granular_hit_rate: bool = Field(
        False, description="Hit rate is the share of expected documents found, instead of whether any was."
    )
    granular_mrr: bool = Field(
        False, description="MRR is the mean over all expected documents found, instead of the first one's."
    )


def ranked(chunks: Sequence[ContextChunk]) -> list[str | None]:
    """Return the documents in the order in which they first appear; a chunk that names none is one of its own."""
    seen: set[str] = set()
    documents: list[str | None] = []
    for chunk in chunks:
        if chunk.doc_uri is None or chunk.doc_uri not in seen:
            documents.append(chunk.doc_uri)
        if chunk.doc_uri is not None:
            seen.add(chunk.doc_uri)
    return documents


def ranks_of(expected: frozenset[str], retrieved: Sequence[str | None]) -> list[int]:
    """Return the ranks, from 1 and ascending, at which expected documents stand among the distinct ones retrieved."""
    return [rank for rank, document in enumerate(retrieved, start=1) if document in expected]


def hit_rate(ranks: Sequence[int], n_expected: int, *, granular: bool = False) -> float:
    """Return 1 if any expected document was found and 0 otherwise; granular: the share of them that was."""
    return len(ranks) / n_expected if granular else float(bool(ranks))


def mrr(ranks: Sequence[int], *, granular: bool = False) -> float:
    """Return the reciprocal rank of the first hit, and 0 without any; granular: the mean over all hits."""
    if not ranks:
        return 0.0
    return math.fsum(1 / rank for rank in ranks) / len(ranks) if granular else 1 / ranks[0]


def average_precision(ranks: Sequence[int], n_expected: int) -> float:
    """Return the sum of the precisions at the hits' ranks, divided by the number of expected documents."""
    return math.fsum(hits / rank for hits, rank in enumerate(ranks, start=1)) / n_expected


def ndcg(ranks: Sequence[int], n_expected: int) -> float:
    """Return the discounted gain with binary relevance, divided by that of the best order."""
    ideal = math.fsum(1 / math.log2(rank + 1) for rank in range(1, n_expected + 1))
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks) / ideal


def _metric(key: str, name: str, description: str, primary: bool = False) -> Metric:
    return Metric(key, name, True, threshold=None, primary=primary, description=description)


@register
class LlamaIndexRetrieval(RowEvaluator):
    """Hit rate, MRR, precision, recall, average precision and NDCG of the retrieved documents.

    **Method.** With n expected documents, and the retrieved ones in rank order, of which those expected are hits:

    * hit_rate: 1 if there is a hit; granular: hits / n.
    * mrr: 1 / rank of the first hit; granular: the mean of 1 / rank over all hits.
    * precision: hits / retrieved. recall: hits / n.
    * ap: sum over the hits of (hits so far / rank), divided by n.
    * ndcg: sum over the hits of 1 / log2(rank + 1), divided by the same sum over the ranks 1 to n (not over the
      ranks that were retrieved). Relevance is binary, so that linear and exponential gain are equal.

    With ``k`` only the first k distinct documents count. Precision is then over those that there are among them, recall
    and ap still over all n, and the best order that ndcg compares with has min(n, k) hits, as is usual for NDCG at k.

    **Edge cases.**

    * Several chunks of a document count once, at the rank of the first among the distinct documents. The reference
      counts a repeated id again in ap and ndcg, which could then exceed 1.
    * A chunk without a document takes a rank and is no hit.
    * Without an expected or a retrieved document the row is not applicable; the reference raises an error.

    **Source.** LlamaIndex, evaluation of retrievers (``llama_index.core.evaluation.retrieval.metrics``).
    """

    spec = Spec(
        id="llamaindex.retrieval",
        name="Ranked retrieval (LlamaIndex)",
        origin="llamaindex",
        inputs=(RowField.EXPECTED_DOCUMENTS, RowField.RETRIEVED_DOCUMENTS),
        metrics=(
            _metric("hit_rate", "Hit rate", "Share of rows in which an expected document was retrieved."),
            _metric("mrr", "MRR", "Mean reciprocal rank of the first expected document.", primary=True),
            _metric("precision", "Precision", "Share of the retrieved documents that were expected."),
            _metric("recall", "Recall", "Share of the expected documents that were retrieved."),
            _metric("ap", "Average precision", "Mean precision at the ranks of the expected documents."),
            _metric("ndcg", "NDCG", "Discounted gain of the expected documents against that of a perfect order."),
        ),
        llm=False,
        keywords=("rule-based", "deterministic", "rank"),
        source="LlamaIndex, llama_index.core.evaluation.retrieval.metrics",
    )
    parameters = RetrievalParams
    params: RetrievalParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row."""
        expected, retrieved = frozenset(row.expected_documents), ranked(row.retrieved_context)[: self.params.k]
        if not expected or not any(document is not None for document in retrieved):
            return RowScore.not_applicable(self.row_metrics, "There is no expected or no retrieved document.")
        ranks, n = ranks_of(expected, retrieved), len(expected)
        return RowScore(
            {
                "hit_rate": hit_rate(ranks, n, granular=self.params.granular_hit_rate),
                "mrr": mrr(ranks, granular=self.params.granular_mrr),
                "precision": len(ranks) / len(retrieved),
                "recall": len(ranks) / n,
                "ap": clip(average_precision(ranks, n), 0.0, 1.0),
                "ndcg": clip(ndcg(ranks, min(n, self.params.k or n)), 0.0, 1.0),
            },
            Evidence(f"{len(ranks)} of {n} expected documents were retrieved.", data={"ranks": ranks}),
        )
