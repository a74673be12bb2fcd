"""Grounding: does the retrieved context entail each sentence of the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from leadline.evaluators.core import Metric, Params, Spec, register
from leadline.evaluators.core.embedding_evaluator import lowest, quote
from leadline.evaluators.core.model_evaluator import ModelEvaluator
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore, Source, Span, clip
from leadline.evaluators.models import nli
from leadline.evaluators.models.catalogue import VITAMINC_NLI

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

MOST_PAIRS: Final = 20_000
"""Pairs of a chunk and a sentence that are read for one row."""


class GroundingParams(Params):
    """Parameters of grounding."""

    grounding_model: Annotated[
        str | None,
        Field(
            description="A classifier for natural language inference: a Hugging Face id, optionally ID@REVISION, or a "
            "directory. By default tals/albert-xlarge-vitaminc-mnli."
        ),
    ] = None
    supported_from: Annotated[
        float, Field(gt=0, lt=1, description="Probability of entailment from which a sentence counts as supported.")
    ] = 0.5


@register
class Grounding(ModelEvaluator[tuple[str, str], float]):
    """Share of the answer's sentences that some chunk of the retrieved context entails, by a small classifier.

    **Method.** Each sentence of the answer is a claim. A classifier for natural language inference reads it with each
    chunk of the context, and says how likely the chunk entails it; the most likely chunk counts. A claim is supported
    from ``supported_from`` on. ``grounding`` is the share of the claims that are, ``least_grounded`` the likelihood of
    the least supported one. The evidence has each claim's value and the chunk that supports it most. The default model
    was trained on facts and revisions of Wikipedia (VitaminC) and has 59 million parameters; any classifier with the
    outputs entailment, contradiction and neutral will do, or with the outputs supported and unsupported, such as
    MiniCheck's of 0.4 billion parameters (MIT), which people's labels rank above it. All rows' pairs are read in one
    pass, equal ones once.

    **Edge cases.**

    * A chunk or sentence that is too long for the model is cut: a chunk supports as much as its best part, a sentence
      is supported as its worst part is.
    * A claim that only two chunks together support is not found to be supported.
    * A blank context supports nothing: 0. An answer without a sentence claims nothing: the row is unscorable; so is one
      that makes more than 20,000 pairs.

    **Source.** Schuster et al. 2021, "Get Your Vitamin C!", https://aclanthology.org/2021.naacl-main.52; the scheme of
    claims against chunks is that of Tang et al. 2024, "MiniCheck", https://aclanthology.org/2024.emnlp-main.499.
    """

    spec = Spec(
        id="grounding",
        name="Grounding (NLI)",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "grounding",
                "Share of the answer's sentences that some chunk of the retrieved context entails.",
                primary=True,
            ),
            Metric.higher(
                "least_grounded",
                "Likelihood that the context entails the answer's least supported sentence.",
                name="Least grounded sentence",
                threshold=None,
            ),
        ),
        gpu=True,
        llm=False,
        sentences=True,
        keywords=("hallucination", "NLI", "entailment", "MiniCheck", "faithfulness"),
        source="Schuster et al. 2021, https://aclanthology.org/2021.naacl-main.52; Tang et al. 2024, MiniCheck",
    )
    parameters = GroundingParams
    params: GroundingParams
    default_model = VITAMINC_NLI
    model_parameter = "grounding_model"

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[tuple[str, str]]:
        """Return each chunk that is not blank with each sentence of the answer, sentence by sentence."""
        claims = ctx.sentences(row.actual_answer or "")
        chunks = _chunks(row)
        if len(claims) * len(chunks) > MOST_PAIRS:
            return []
        return [(row.retrieved_context[chunk].content, claim.text) for claim in claims for chunk in chunks]

    def answers(self, requests: Sequence[tuple[str, str]], ctx: EvalContext) -> Sequence[float]:
        """Return how likely each chunk entails its sentence."""
        if not requests:
            return []
        ref = self.model(ctx)
        distinct = list(dict.fromkeys(requests))
        pieces = nli.fit(ref, [text for pair in distinct for text in pair], settings=ctx.settings)
        parts = {text: [text[start:end] for start, end in places] for text, places in pieces.items()}
        pairs = [(given, part) for chunk, claim in distinct for part in parts[claim] for given in parts[chunk]]
        likely = iter(nli.infer(ref, pairs, settings=ctx.settings)[:, nli.ENTAILMENT].tolist())
        found = {
            (chunk, claim): min(max(next(likely) for _ in parts[chunk]) for _ in parts[claim])
            for chunk, claim in distinct
        }
        return [found[pair] for pair in requests]

    def measure(self, row: Row, results: Sequence[float], ctx: EvalContext) -> RowScore:
        """Score one row."""
        claims = ctx.sentences(row.actual_answer or "")
        if not claims:
            return self.unscorable("The answer has no sentence that could be looked up.")
        chunks = _chunks(row)
        if not chunks:
            return RowScore({"grounding": 0.0, "least_grounded": 0.0}, Evidence("The retrieved context is blank."))
        if not results:
            return self.unscorable(f"The answer and its context make more than {MOST_PAIRS:,} pairs.")
        lines = [results[first : first + len(chunks)] for first in range(0, len(results), len(chunks))]
        values = [clip(max(line), 0.0, 1.0) for line in lines]
        supported = sum(value >= self.params.supported_from for value in values)
        worst = min(range(len(values)), key=values.__getitem__)
        shown = lowest(values)
        best: list[Json] = [chunks[max(range(len(chunks)), key=lines[at].__getitem__)] for at in shown]
        return RowScore(
            {"grounding": supported / len(values), "least_grounded": values[worst]},
            Evidence(
                f"The context supports {supported} of {len(values)} sentences, least this one: "
                f"{quote(claims[worst].text)}",
                tuple(Span(Source.ACTUAL_ANSWER, claims[at].start, claims[at].end, value=values[at]) for at in shown),
                {"best_chunks": best},
            ),
        )


def _chunks(row: Row) -> list[int]:
    return [number for number, chunk in enumerate(row.retrieved_context) if chunk.content.strip()]
