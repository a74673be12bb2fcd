"""Support of the answer by the retrieved context, as small models see it: similarity, entailment, consistency."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pydantic import Field

from leadline.evaluators.core import Metric, Params, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import SPANS, EmbeddingEvaluator, ModelEvaluator, Vectors, lowest, quote
from leadline.evaluators.data import Evidence, Flag, Json, Row, RowField, RowScore, Severity, Source, Span, clip
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import inference
from leadline.evaluators.models.catalogue import FLAN_T5_TOKENIZER, HHEM, VITAMINC_NLI
from leadline.evaluators.models.results import ENTAILMENT, SUPPORT_LIMIT, Support
from leadline.evaluators.models.vectors import best_matches
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
        metrics=one_metric(
            "groundedness",
            "Similarity of the least supported answer sentence to the closest sentence of the "
            "retrieved context. A low value means that the answer says something that its context does not.",
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


MOST_PAIRS: Final = 20_000
"""Pairs of a chunk and a sentence that are read for one row."""


class GroundingParams(Params):
    """Parameters of grounding."""

    grounding_model: str | None = Field(
        None,
        description="A classifier for natural language inference: a Hugging Face id, optionally ID@REVISION, or a "
        "directory. By default tals/albert-xlarge-vitaminc-mnli.",
    )
    supported_from: float = Field(
        0.5, gt=0, lt=1, description="Probability of entailment from which a sentence counts as supported."
    )


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
        chunks = _not_blank(row)
        if len(claims) * len(chunks) > MOST_PAIRS:
            return []
        return [(row.retrieved_context[chunk].content, claim.text) for claim in claims for chunk in chunks]

    def answers(self, requests: Sequence[tuple[str, str]], ctx: EvalContext) -> Sequence[float]:
        """Return how likely each chunk entails its sentence."""
        if not requests:
            return []
        ref = self.model(ctx)
        distinct = list(dict.fromkeys(requests))
        pieces = inference.fit(ref, [text for pair in distinct for text in pair], settings=ctx.settings)
        parts = {text: [text[start:end] for start, end in places] for text, places in pieces.items()}
        pairs = [(given, part) for chunk, claim in distinct for part in parts[claim] for given in parts[chunk]]
        likely = iter(inference.infer(ref, pairs, settings=ctx.settings)[:, ENTAILMENT].tolist())
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
        chunks = _not_blank(row)
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


class HallucinationParams(Params):
    """Parameters of :class:`Hallucination`."""

    hallucination_model: str | None = Field(
        None,
        description="Weights in the form of HHEM-2.1-Open: a Hugging Face id, optionally ID@REVISION, or a "
        "directory. By default vectara/hallucination_evaluation_model.",
    )


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
        metrics=one_metric(
            "hallucination",
            "How well the best chunk of the retrieved context supports the answer. A low value means "
            "that the answer states facts that its context does not hold.",
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
        return inference.support(self.model(ctx), FLAN_T5_TOKENIZER, requests, settings=ctx.settings)

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
        f"With {long} of {chunks} chunks the texts together are longer than the {SUPPORT_LIMIT} tokens that are "
        "read at once, and were read in parts: a chunk counts by its best part, the answer by its worst.",
    )


def _unread(count: int, chunks: int) -> Flag:
    return Flag(
        "evaluation",
        Severity.HIGH,
        f"{count} of {chunks} chunks are so long, together with the answer, that they were not read; the value is that "
        "of the other chunks.",
    )
