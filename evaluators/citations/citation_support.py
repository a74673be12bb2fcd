"""Citations: is each statement supported by what it cites, and is each citation of use?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field

from leadline.evaluators.citations._markers import Citation, Statement, statements
from leadline.evaluators.core import Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import EmbeddingEvaluator, EmbeddingParams, Vectors, lowest
from leadline.evaluators.data import DataKind, Evidence, Json, NotApplicable, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import ModelRef, count, quoted
from leadline.evaluators.models import weights
from leadline.evaluators.models.similarity import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

Supported: TypeAlias = Callable[[frozenset[int], str], bool]
"""Says whether some contexts, taken together, support a sentence."""

ENTAILED: Final = 0.5
"""Least probability of entailment that is support."""

SHOWN: Final = 50
"""Statements that the evidence of a row lists."""


class CitationParams(EmbeddingParams):
    """Parameters of citations."""

    similarity: Annotated[
        float,
        Field(
            gt=0,
            le=1,
            description="Least cosine of a statement and a sentence of a context that is support. It depends on the "
            "embedder: about 0.6 for MiniLM, more for models whose texts are all near each other.",
        ),
    ] = 0.6
    nli_model: Annotated[
        str | None,
        Field(
            description="Model for natural language inference that decides instead of similarity: a Hugging Face id, "
            "optionally ID@REVISION, or a directory."
        ),
    ] = None
    uncited: Annotated[
        bool,
        Field(description="Count answers that cite nothing (0, as in ALCE); else they are not applicable."),
    ] = True


@register
class Citations(EmbeddingEvaluator):
    """Checks that an answer's citations support what it says: citation recall and precision.

    **Method.** ALCE's. The answer is split into statements, its sentences. Let ``C`` be what a statement cites, and
    ``f(C, s)`` whether the contexts ``C`` support the statement ``s``. ``citation_recall`` is the share of statements
    with ``f(C, s)``: those that cite something, all of it there, which together supports them. ``citation_precision``
    is the share of citations that are of use: ``f(C, s)`` holds, and it is not so that the citation alone does not
    support the statement while the others do without it. ``citations_resolved`` is the share of citations that mean a
    context that is there.

    A citation is a number (``[1]``, ``[2, 5]``, ``[1-3]``, ``【1】``; the first context is 1), a document by its name
    (``[manual.pdf]``, ``[doc: manual]``), an address or a link of Markdown that is a document's, or a quotation of
    three words or more, which cites the contexts that it stands in. Markers behind a full stop belong to the sentence
    before it.

    ``f`` is decided by embeddings: some sentence of the contexts has a cosine of at least ``similarity`` to the
    statement. ``nli_model`` asks a model for natural language inference instead, as ALCE does: the contexts, one
    after the other, entail the statement with a probability of 0.5 or more; what is too long for the model is read in
    pieces, one of which must.

    **Edge cases.**

    * A statement that cites a context that is not there has no support, and none of its citations is of use, as in
      ALCE.
    * An answer without a citation has recall and precision 0, as in ALCE; with ``uncited=false`` it is not
      applicable, which suits answers such as "I do not know". A blank answer is not applicable.
    * Equal citations of one statement count once. Brackets that are neither numbers nor documents are remarks,
      and those in code are indexes.
    * Addresses count only where contexts have documents with names.
    * Embeddings see likeness, not truth: "at seven" and "at nine" are near each other. Use a model for inference to
      gate.

    **Source.** Gao, Yen, Yu and Chen, Enabling Large Language Models to Generate Text with Citations (ALCE, EMNLP
    2023), section 4.
    """

    spec = Spec(
        id="citations",
        name="Citations",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "citation_recall", "Share of an answer's statements that are supported by what they cite.", primary=True
            ),
            Metric.higher(
                "citation_precision", "Share of an answer's citations that are of use to support their statement."
            ),
            Metric.higher(
                "citations_resolved", "Share of an answer's citations that mean a retrieved context.", threshold=1.0
            ),
        ),
        gpu=True,
        llm=False,
        sentences=True,
        suits=(DataKind.CITED,),
        keywords=("citation_precision", "citation_recall", "attribution", "sources", "references", "alce", "nli"),
        source="Gao et al. 2023, https://arxiv.org/abs/2305.14627",
    )
    parameters = CitationParams
    params: CitationParams
    default_embedder = BGE_SMALL_EN

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the model that decides."""
        nli = self._nli(ctx)
        return (self.embedder(ctx),) if nli is None else (nli,)

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: models by what they are."""
        out = super().identity(ctx)
        names = ("embedding_model", "nli_model")
        out["params"] = {name: value for name, value in self.params.identity().items() if name not in names}
        return out | {"by": "similarity" if self.params.nli_model is None else "entailment"}

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the statements that cite something, and the sentences of the contexts that are cited."""
        if self.params.nli_model is not None:
            return
        cited: set[int] = set()
        for statement in _statements(row, ctx):
            if _can_be_supported(statement):
                yield statement.text
                cited |= _cited(statement.citations)
        for number in sorted(cited):
            yield from (sentence.text for sentence in ctx.sentences(row.retrieved_context[number].content))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row by similarity."""

        def supported(chunks: frozenset[int], statement: str) -> bool:
            there = [each.text for n in sorted(chunks) for each in ctx.sentences(row.retrieved_context[n].content)]
            best = best_matches(vectors.of([statement]), vectors.of(there))
            return bool(best.values[0] >= self.params.similarity)

        return self._scored(row, _statements(row, ctx), supported)

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows: by similarity, or by inference in one pass over all pairs of contexts and statements.

        Raises:
            ModelUnavailable: The weights are not here, which leaves all rows unscored.
        """
        nli = self._nli(ctx)
        if nli is None:
            return super().score(rows, ctx)
        said = [_statements(row, ctx) for row in rows]
        asked = dict.fromkeys(
            (_joined(row, chunks), statement.text)
            for row, some in zip(rows, said, strict=True)
            for statement in some
            for chunks in _needed(statement)
        )
        entailed = _entailments(nli, list(asked), ctx)
        return [
            self._scored(row, some, lambda chunks, text, row=row: entailed[_joined(row, chunks), text])  # type: ignore[misc]
            for row, some in zip(rows, said, strict=True)
        ]

    def _nli(self, ctx: EvalContext) -> ModelRef | None:
        return weights.chosen(self.params.nli_model, "nli", ctx.settings) if self.params.nli_model else None

    def _scored(self, row: Row, said: Sequence[Statement], supported: Supported) -> RowScore:
        cited = [citation for statement in said for citation in statement.citations]
        if not said or not (cited or self.params.uncited):
            why = "The answer cites nothing." if said else "The answer says nothing."
            return RowScore.not_applicable(self.row_metrics, why)
        good = [_can_be_supported(one) and supported(_cited(one.citations), one.text) for one in said]
        of_use = sum(
            sum(_is_of_use(citation, statement, supported) for citation in statement.citations)
            for statement, holds in zip(said, good, strict=True)
            if holds
        )
        resolved = sum(bool(citation.chunks) for citation in cited)
        shown = lowest([float(holds) for holds in good], SHOWN)
        message = f"{sum(good)} of {count(len(said), 'statement')} {'is' if sum(good) == 1 else 'are'} supported"
        lost = next((one.text for one in cited if not one.chunks), None)
        message += f"; {quoted(lost, most=60)} means no context." if lost else "."
        return RowScore(
            {
                "citation_recall": sum(good) / len(said),
                "citation_precision": of_use / len(cited) if cited else 0.0,
                "citations_resolved": resolved / len(cited) if cited else NotApplicable("The answer cites nothing."),
            },
            Evidence(
                message,
                tuple(Span(Source.ACTUAL_ANSWER, said[at].start, said[at].end, value=float(good[at])) for at in shown),
                {"statements": [_shown(said[at], good[at]) for at in shown]},
            ),
        )


def _statements(row: Row, ctx: EvalContext) -> tuple[Statement, ...]:
    answer = row.actual_answer or ""
    return statements(answer, ctx.sentences(answer), row.retrieved_context)


def _cited(citations: Iterable[Citation]) -> frozenset[int]:
    return frozenset[int]().union(*(citation.chunks for citation in citations))


def _can_be_supported(statement: Statement) -> bool:
    """Return whether a statement cites something, and all of it is there."""
    return bool(statement.citations) and all(citation.chunks for citation in statement.citations)


def _others(citation: Citation, statement: Statement) -> frozenset[int]:
    return _cited(one for one in statement.citations if one is not citation)


def _needed(statement: Statement) -> Iterator[frozenset[int]]:
    """Yield the sets of contexts about which must be known whether they support a statement."""
    if _can_be_supported(statement):
        yield _cited(statement.citations)
        if len(statement.citations) > 1:
            for citation in statement.citations:
                yield citation.chunks
                yield _others(citation, statement)


def _is_of_use(citation: Citation, statement: Statement, supported: Supported) -> bool:
    """Return whether a supported statement needs this citation."""
    if len(statement.citations) == 1 or supported(citation.chunks, statement.text):
        return True
    return not supported(_others(citation, statement), statement.text)


def _joined(row: Row, chunks: frozenset[int]) -> str:
    return "\n".join(row.retrieved_context[number].content for number in sorted(chunks))


def _entailments(ref: ModelRef, pairs: Sequence[tuple[str, str]], ctx: EvalContext) -> Mapping[tuple[str, str], bool]:
    """Return for each pair of contexts and statement whether a piece of the former entails each of the latter."""
    from leadline.evaluators.models.nli import ENTAILMENT, fit, infer

    cuts = fit(ref, list(dict.fromkeys(text for pair in pairs for text in pair)), settings=ctx.settings)
    pieces = {text: [text[start:end] for start, end in places] or [text] for text, places in cuts.items()}
    asked = [(a, b) for premise, hypothesis in pairs for b in pieces[hypothesis] for a in pieces[premise]]
    shares = dict(zip(asked, infer(ref, asked, settings=ctx.settings)[:, ENTAILMENT].tolist(), strict=True))
    return {
        (premise, hypothesis): all(max(shares[a, b] for a in pieces[premise]) >= ENTAILED for b in pieces[hypothesis])
        for premise, hypothesis in pairs
    }


def _shown(statement: Statement, supported: bool) -> dict[str, Json]:
    cites: list[Json] = [
        [one.text, sorted(number + 1 for number in one.chunks)[:20]] for one in statement.citations[:20]
    ]
    return {"statement": quoted(statement.text), "supported": supported, "cites": cites}
