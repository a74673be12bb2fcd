from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, Reason, Row, Unscored
from leadline.evaluators.retrieval.context_relevancy_soft import ContextRelevancySoft
from leadline.evaluators.text.sentences import splitter_for
from tests.support.datasets.rag_rows import cosine_by_library, rag_rows

pytestmark = pytest.mark.slow


def test_recall_is_the_best_and_precision_the_mean_of_the_chunks(ctx: EvalContext, tiny_embedder: Path) -> None:
    cosine = cosine_by_library(tiny_embedder)
    split = splitter_for("en").split
    rows = rag_rows()
    for row, score in zip(rows, ContextRelevancySoft().score(rows, ctx), strict=True):
        relevancy = [
            max((cosine(str(row.question), sentence.text) for sentence in split(chunk.content)), default=0.0)
            for chunk in row.retrieved_context
        ]
        assert score.values == {
            "recall_relevancy": pytest.approx(max(relevancy), abs=1e-5),
            "precision_relevancy": pytest.approx(sum(relevancy) / len(relevancy), abs=1e-5),
        }
        assert score.evidence.data["chunks"] == pytest.approx(relevancy, abs=1e-5)
        for span in score.evidence.spans:
            closest = row.retrieved_context[span.index].content[span.start : span.end]
            assert cosine(str(row.question), closest) == pytest.approx(span.value, abs=1e-5)


def test_an_empty_chunk_takes_a_place_in_the_mean(ctx: EvalContext) -> None:
    full = Row("c", "m", "The ship?", retrieved_context=(ContextChunk("The ship?"),))
    half = Row("c", "m", "The ship?", retrieved_context=(ContextChunk("The ship?"), ContextChunk("")))
    one, two = ContextRelevancySoft().score([full, half], ctx)
    assert one.values == {"recall_relevancy": pytest.approx(1), "precision_relevancy": pytest.approx(1)}
    assert two.values == {"recall_relevancy": pytest.approx(1), "precision_relevancy": pytest.approx(0.5)}


@pytest.mark.parametrize(("question", "context"), [("  ", (ContextChunk("Paris."),)), ("Where?", ())])
def test_without_question_or_chunks_there_is_nothing_to_measure(
    ctx: EvalContext, question: str, context: tuple[ContextChunk, ...]
) -> None:
    score = ContextRelevancySoft().score([Row("c", "m", question, retrieved_context=context)], ctx)[0]
    assert {value.reason for value in score.values.values() if isinstance(value, Unscored)} == {Reason.UNSCORABLE}


def test_thousands_of_chunks_are_measured_and_the_evidence_stays_small(ctx: EvalContext) -> None:
    chunks = tuple(ContextChunk(f"Ship {number} of the harbour. Line {number % 7}.") for number in range(3000))
    score = ContextRelevancySoft().score([Row("c", "m", "Which ship?", retrieved_context=chunks)], ctx)[0]
    assert score.complete
    assert len(score.evidence.spans) == 200
