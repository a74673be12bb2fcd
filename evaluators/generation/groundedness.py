"""Groundedness: is every sentence of the answer similar to something in the retrieved context?"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core import Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import EmbeddingEvaluator, Vectors, lowest, quote
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore, Source, Span
from leadline.evaluators.models.similarity import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext
    from leadline.evaluators.text.sentences import Sentence

SHORT: Final = 10
"""Characters of the longest sentence that is too short to be assessed."""

WIDE: Final = 3
"""How many letters a wide character of Chinese, Japanese or Korean counts for: it is a syllable or a word."""


@register
class Groundedness(EmbeddingEvaluator):
    """Assesses whether the answer is based on the retrieved context, sentence by sentence.

    ``groundedness = min over answer sentences a of (max over context sentences c of S(a, c))``, where ``S`` is the
    cosine of the sentences' embeddings and the context sentences are those of all chunks. A negative cosine counts as
    0. A context without a sentence supports nothing: 0. The evidence contains the value of each sentence, the context
    sentence closest to it, and the least grounded sentence.

    Answer sentences of up to 10 characters ("Yes.", "Of course.") claim nothing that could be looked up, and are left
    out, as in H2O Sonar; other than there those with a digit stay, and a wide character of Chinese, Japanese or Korean
    counts as three. To an answer without a longer one the evaluator is not applicable: there is no minimum of nothing.
    Short sentences of the context stay (H2O Sonar leaves out these too), since
    they can support a claim.
    """

    spec = Spec(
        id="groundedness",
        name="Groundedness (Semantic Similarity) Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "groundedness",
                "Similarity of the least supported answer sentence to the closest sentence of the "
                "retrieved context. A low value means that the answer says something that its context does not.",
            ),
        ),
        version="3",
        gpu=True,
        llm=False,
        sentences=True,
        keywords=("hallucination", "embeddings", "similarity"),
        source="H2O Sonar evaluator reference: Groundedness (Semantic Similarity) Evaluator",
    )
    default_embedder = BGE_SMALL_EN

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the longer sentences of the answer, and the sentences of all chunks."""
        yield from (sentence.text for sentence in _claims(row, ctx))
        yield from (sentence.text for _, sentence in _context(row, ctx))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row."""
        answer = _claims(row, ctx)
        if not answer:
            message = (
                f"The answer holds no sentence of more than {SHORT} characters or with a number: there is nothing to "
                "compare with the context."
            )
            return RowScore.not_applicable(self.row_metrics, message)
        context = list(_context(row, ctx))
        best = best_matches(
            vectors.of(sentence.text for sentence in answer), vectors.of(sentence.text for _, sentence in context)
        )
        values = best.values.tolist()
        closest = [_place(context, at) for at in best.places.tolist()]
        worst = min(range(len(values)), key=values.__getitem__)
        shown = lowest(values)
        data: dict[str, Json] = {
            "least_grounded": {
                "sentence": quote(answer[worst].text),
                "start": answer[worst].start,
                "end": answer[worst].end,
                "value": values[worst],
                "closest": quote(context[best.places[worst]][1].text) if context else None,
                "closest_at": closest[worst],
            },
            "closest": [closest[at] for at in shown],
            "sentences": len(answer),
        }
        return RowScore(
            {"groundedness": values[worst]},
            Evidence(
                message=f"The least grounded of {len(answer)} sentences reaches {values[worst]:.4f}.",
                spans=tuple(
                    Span(Source.ACTUAL_ANSWER, answer[at].start, answer[at].end, value=values[at]) for at in shown
                ),
                data=data,
            ),
        )


def _claims(row: Row, ctx: EvalContext) -> list[Sentence]:
    return [sentence for sentence in ctx.sentences(row.actual_answer or "") if _claims_something(sentence.text)]


def _claims_something(sentence: str) -> bool:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in sentence)
    return len(sentence) + (WIDE - 1) * wide > SHORT or any(map(str.isdigit, sentence))


def _context(row: Row, ctx: EvalContext) -> Iterable[tuple[int, Sentence]]:
    for number, chunk in enumerate(row.retrieved_context):
        for sentence in ctx.sentences(chunk.content):
            yield number, sentence


def _place(context: list[tuple[int, Sentence]], at: int) -> dict[str, Json] | None:
    if at < 0:
        return None
    chunk, sentence = context[at]
    return {"chunk": chunk, "start": sentence.start, "end": sentence.end}
