"""Hallucination: does at least one retrieved chunk support the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from leadline.evaluators.core import Metric, Params, Spec, register
from leadline.evaluators.core.embedding_evaluator import SPANS
from leadline.evaluators.core.model_evaluator import ModelEvaluator
from leadline.evaluators.data import Evidence, Flag, Row, RowField, RowScore, Severity, Source, Span, clip
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import consistency
from leadline.evaluators.models.catalogue import FLAN_T5_TOKENIZER, HHEM
from leadline.evaluators.models.consistency import Support

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


class HallucinationParams(Params):
    """Parameters of :class:`Hallucination`."""

    hallucination_model: Annotated[
        str | None,
        Field(
            description="Weights in the form of HHEM-2.1-Open: a Hugging Face id, optionally ID@REVISION, or a "
            "directory. By default vectara/hallucination_evaluation_model."
        ),
    ] = None


@register
class Hallucination(ModelEvaluator[tuple[str, str], Support]):
    """Assesses whether the answer is factually consistent with the retrieved context; higher is better.

    ``hallucination = max over retrieved chunks c of HHEM(c, answer)``, where ``HHEM`` is the probability that
    HHEM-2.1-Open (``vectara/hallucination_evaluation_model``, a fine-tuned flan-t5-base) gives to the chunk supporting
    the answer. Despite its name it is a consistency score: 1 is no hallucination, as the reference has it.

    The model reads texts of any length; from 2,048 tokens on a chunk counts by its best window and an answer by its
    worst, and the row says so; what makes more than 64 pairs of windows is not read. A blank chunk supports nothing and
    is not read; a context of blank chunks alone gives 0. A blank answer claims nothing that could be checked: unscored.
    """

    spec = Spec(
        id="hallucination",
        name="Hallucination Evaluator",
        origin="h2o",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "hallucination",
                "How well the best chunk of the retrieved context supports the answer. A low value means "
                "that the answer states facts that its context does not hold.",
            ),
        ),
        gpu=True,
        llm=False,
        keywords=("hallucination", "classifier"),
        source="H2O Sonar evaluator reference: Hallucination Evaluator; "
        "https://huggingface.co/vectara/hallucination_evaluation_model",
    )
    parameters = HallucinationParams
    default_model = HHEM
    model_parameter = "hallucination_model"

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the weights, and the tokenizer that they come without."""
        return (self.model(ctx), FLAN_T5_TOKENIZER)

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[tuple[str, str]]:
        """Return each chunk with the answer, unless one of them is blank."""
        answer = row.actual_answer or ""
        if not answer.strip():
            return []
        return [(row.retrieved_context[number].content, answer) for number in _not_blank(row)]

    def answers(self, requests: Sequence[tuple[str, str]], ctx: EvalContext) -> Sequence[Support]:
        """Return how well each chunk supports its answer."""
        return consistency.support(self.model(ctx), FLAN_T5_TOKENIZER, requests, settings=ctx.settings)

    def measure(self, row: Row, results: Sequence[Support], ctx: EvalContext) -> RowScore:
        """Score one row."""
        if not (row.actual_answer or "").strip():
            return self.unscorable("The answer is blank.")
        if not results:
            return RowScore({"hallucination": 0.0}, Evidence("The retrieved context is blank."))
        read = {chunk: each for chunk, each in zip(_not_blank(row), results, strict=True) if each.value is not None}
        if not read:
            return self.unscorable("The answer and each chunk of its context together are too long to be read.")
        chunks = list(read)
        values = [clip(each.value or 0.0, 0.0, 1.0) for each in read.values()]
        best = max(range(len(values)), key=values.__getitem__)
        shown = sorted(sorted(range(len(values)), key=lambda at: -values[at])[:SPANS])
        long = sum(each.windows > 1 for each in read.values())
        flags = [_windowed(long, len(results))] if long else []
        if len(read) < len(results):
            flags.append(_unread(len(results) - len(read), len(results)))
        return RowScore(
            {"hallucination": values[best]},
            Evidence(
                message=f"Of {len(values)} chunks, number {chunks[best] + 1} supports the answer most: "
                f"{values[best]:.4f}.",
                spans=tuple(
                    Span(
                        Source.RETRIEVED_CONTEXT,
                        0,
                        len(row.retrieved_context[chunks[at]].content),
                        index=chunks[at],
                        value=values[at],
                    )
                    for at in shown
                ),
                data={"best_chunk": chunks[best], "chunks": len(row.retrieved_context)},
            ),
            tuple(flags),
        )


def _not_blank(row: Row) -> list[int]:
    return [number for number, chunk in enumerate(row.retrieved_context) if chunk.content.strip()]


def _windowed(long: int, chunks: int) -> Flag:
    return Flag(
        "evaluation",
        Severity.MEDIUM,
        f"With {long} of {chunks} chunks the texts together are longer than the {consistency.LIMIT} tokens that are "
        "read at once, and were read in parts: a chunk counts by its best part, the answer by its worst.",
    )


def _unread(count: int, chunks: int) -> Flag:
    return Flag(
        "evaluation",
        Severity.HIGH,
        f"{count} of {chunks} chunks are so long, together with the answer, that they were not read; the value is that "
        "of the other chunks.",
    )
