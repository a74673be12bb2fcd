"""Ranked retrieval at k: only the first k documents count, against scikit-learn where it has the metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.retrieval.llamaindex_retrieval import LlamaIndexRetrieval, RetrievalParams


def values(expected: list[str], retrieved: list[str], k: int | None = None) -> dict[str, float]:
    row = Row(
        case="c",
        model="m",
        expected_documents=tuple(expected),
        retrieved_context=tuple(ContextChunk(document, document) for document in retrieved),
    )
    return dict(LlamaIndexRetrieval(RetrievalParams(k=k)).score([row], EvalContext())[0].values)  # type: ignore[arg-type]


def test_only_the_first_k_documents_count() -> None:
    found = values(["a", "b"], ["x", "a", "y", "b"], k=3)
    assert found == pytest.approx(
        {"hit_rate": 1, "mrr": 1 / 2, "precision": 1 / 3, "recall": 1 / 2, "ap": 1 / 4,
         "ndcg": (1 / np.log2(3)) / (1 + 1 / np.log2(3))}
    )  # fmt: skip
    assert values(["a", "b"], ["x", "a", "y", "b"], k=1)["hit_rate"] == 0


@given(st.permutations([f"d{n}" for n in range(8)]), st.integers(1, 8), st.integers(1, 8))
def test_ndcg_at_k_is_scikit_learns(order: list[str], relevant: int, k: int) -> None:
    from sklearn.metrics import ndcg_score

    expected = [f"d{n}" for n in range(relevant)]
    truth = np.array([[float(document in expected) for document in order]])
    scores = np.arange(len(order), 0, -1, dtype=float)[None, :]
    assert values(expected, order, k)["ndcg"] == pytest.approx(ndcg_score(truth, scores, k=k), abs=1e-12)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8), st.integers(8, 20))
def test_a_k_beyond_the_documents_changes_nothing(retrieved: list[str], k: int) -> None:
    assert values(["a", "b"], retrieved, k) == pytest.approx(values(["a", "b"], retrieved))
