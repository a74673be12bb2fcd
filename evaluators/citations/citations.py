"""Citations: is each statement supported by what it cites, and is each citation of use?

Citations are [1], [2, 5], [manual.pdf], addresses and quotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

from pydantic import Field

from leadline.evaluators.citations.quoted_spans import SearchedText, folded_parts, quotations
from leadline.evaluators.core import DataKind, Metric, Spec, register
from leadline.evaluators.core.model_evaluator import EmbeddingEvaluator, EmbeddingParams, Vectors, lowest
from leadline.evaluators.data import ContextChunk, Evidence, Json, NotApplicable, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import ModelRef, count, quoted
from leadline.evaluators.models import weights
from leadline.evaluators.models.inference import fit, infer
from leadline.evaluators.models.results import ENTAILMENT
from leadline.evaluators.models.vectors import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN
from leadline.evaluators.text.sentences import Sentence

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

MOST: Final = 2_000
"""Citations of an answer that are resolved."""

QUOTED_WORDS: Final = 3
"""Words that a quotation has at least to be a citation."""

FEW_WORDS: Final = 3
"""A sentence of fewer words that cites something, such as "See [2].", only carries what the one before it cites."""

_CODE: Final = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]*`")
_NUMBERS: Final = re.compile(
    r"\[(\d{1,3}(?:\s?[-,;\u2013]\s?\d{1,3}){0,20})\](?!\()|\u3010(\d{1,3})[^\u3011\n]{0,80}\u3011"
)
_LINK: Final = re.compile(r"\[[^\[\]\n]{0,300}\]\(\s?<?(https?://[^\s()<>]{1,1000}|[^\s()<>]{1,300})>?\)")
_ADDRESS: Final = re.compile(r"https?://[^\s()<>\[\]\"'\u201c\u201d]{1,1000}")
_NAMED: Final = re.compile(r"\[(?:(?:doc(?:ument)?|source|file)\s?[:#]?\s?)?([^\[\]\n]{2,200})\](?!\()", re.IGNORECASE)
_RANGE: Final = re.compile(r"(\d{1,3})(?:\s?[-\u2013]\s?(\d{1,3}))?")
_FILE: Final = re.compile(r"[\w .\-/]{1,150}\.[A-Za-z]\w{1,4}$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in an answer.

    Attributes:
        text: How it is written.
        start: First character.
        end: One past the last character.
        chunks: The contexts that it means, by number from 0; empty where there is none such.
        words: Whether it is a quotation, whose words belong to the statement.
    """

    text: str
    start: int
    end: int
    chunks: frozenset[int]
    words: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer, without its markers, and what it cites."""

    text: str
    start: int
    end: int
    citations: tuple[Citation, ...]


def statements(answer: str, sentences: Sequence[Sentence], chunks: Sequence[ContextChunk]) -> tuple[Statement, ...]:
    """Return the sentences of an answer that say something, each with its citations.

    Markers at the beginning of a sentence belong to the one before, if that has none: writers put them behind the full
    stop as well as before it.
    """
    found = sorted(citations(answer, chunks), key=lambda one: (one.start, one.end))
    out: list[Statement] = []
    at = 0
    for sentence in sentences:
        mine: list[Citation] = []
        while at < len(found) and found[at].start < sentence.end:
            mine.append(found[at])
            at += 1
        leading = _leading(answer, sentence.start, mine)
        if out and leading and not out[-1].citations:
            last = out[-1]
            out[-1] = Statement(last.text, last.start, last.end, tuple(leading))
            mine = mine[len(leading) :]
        text = _without(answer, sentence, found)
        if len(text.split()) >= (FEW_WORDS if out and mine else 1) and any(map(str.isalnum, text)):
            out.append(Statement(text, sentence.start, sentence.end, tuple(mine)))
        elif out and mine:
            last = out[-1]
            out[-1] = Statement(last.text, last.start, last.end, (*last.citations, *mine))
    return tuple(out)


def _leading(answer: str, start: int, found: Sequence[Citation]) -> list[Citation]:
    """Return the markers that a sentence begins with."""
    out = []
    for one in found:
        if one.words or any(map(str.isalnum, answer[start : one.start])):
            break
        out.append(one)
        start = one.end
    return out


def _without(answer: str, sentence: Sentence, found: Sequence[Citation]) -> str:
    """Return a sentence without its markers."""
    parts, at = [], sentence.start
    for one in found:
        if not one.words and at <= one.start < sentence.end:
            parts.append(answer[at : one.start])
            at = min(one.end, sentence.end)
    parts.append(answer[at : sentence.end])
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join("".join(parts).split()))


def citations(answer: str, chunks: Sequence[ContextChunk]) -> Iterator[Citation]:
    """Yield the citations of an answer; one that several patterns read counts once."""
    names = _names(chunks)
    quoted = _quoted(answer, chunks)
    answer = _CODE.sub(lambda found: " " * len(found[0]), answer)  # where brackets are indexes
    taken: list[tuple[int, int]] = []
    readers = (_numbers(answer, len(chunks)), _links(answer, names), _named(answer, names), quoted)
    for reader in readers:
        mine: list[tuple[int, int]] = []
        for one in reader:
            if len(mine) >= MOST:
                break
            if one.words or not any(start < one.end and one.start < end for start, end in taken):
                yield one
                mine.append((one.start, one.end))
        taken += mine


def _numbers(answer: str, chunks: int) -> Iterator[Citation]:
    for found in _NUMBERS.finditer(answer):
        text = next(filter(None, found.groups()))
        for part in _RANGE.finditer(text):
            first, last = int(part[1]), int(part[2] or part[1])
            for number in range(first, min(last, first + 50) + 1):
                there = frozenset({number - 1} if 1 <= number <= chunks else ())
                yield Citation(f"[{number}]", found.start(), found.end(), there)


def _links(answer: str, names: Mapping[str, frozenset[int]]) -> Iterator[Citation]:
    if not names:  # contexts without addresses cannot tell whether one is theirs
        return
    places = [(found.start(), found.end(), found[1]) for found in _LINK.finditer(answer)]
    inside = {place for start, end, _ in places for place in range(start, min(end, start + 1400))}
    bare = [(found.start(), found[0].rstrip(".,;:!?")) for found in _ADDRESS.finditer(answer)]
    plain = [(start, start + len(address), address) for start, address in bare if start not in inside]
    for start, end, address in (*places, *plain):
        yield Citation(address[:200], start, end, names.get(_plain_name(address), frozenset()))


def _named(answer: str, names: Mapping[str, frozenset[int]]) -> Iterator[Citation]:
    for found in _NAMED.finditer(answer):
        there = names.get(_plain_name(found[1]), frozenset())
        if there or (names and _FILE.fullmatch(found[1].strip())):  # other brackets are remarks, no citations
            yield Citation(found[0], found.start(), found.end(), there)


def _quoted(answer: str, chunks: Sequence[ContextChunk]) -> Iterator[Citation]:
    searched: list[SearchedText] | None = None
    for quotation in quotations(answer, QUOTED_WORDS):
        searched = [SearchedText(chunk.content) for chunk in chunks] if searched is None else searched
        parts = folded_parts(quotation.text)
        there = frozenset(number for number, each in enumerate(searched) if each.find(parts) is not None)
        yield Citation(quotation.text[:200], quotation.start, quotation.end, there, words=True)


def _names(chunks: Sequence[ContextChunk]) -> dict[str, frozenset[int]]:
    """Return the names by which a document may be cited, each with its contexts."""
    out: dict[str, frozenset[int]] = {}
    for number, chunk in enumerate(chunks):
        if chunk.doc_uri:
            plain = _plain_name(chunk.doc_uri)
            path = PurePosixPath(plain.replace("\\", "/"))
            for name in {plain, path.name, path.stem}:
                if name:
                    out[name] = out.get(name, frozenset()) | {number}
    return out


def _plain_name(name: str) -> str:
    """Return an address or a file's name without scheme, www, fragment, last slash and case."""
    plain = re.sub(r"^(?:https?://)?(?:www\.)?", "", unquote(name.strip()).casefold())
    return plain.partition("#")[0].rstrip("/.,;:!?")


Supported: TypeAlias = Callable[[frozenset[int], str], bool]
"""Says whether some contexts, taken together, support a sentence."""

ENTAILED: Final = 0.5
"""Least probability of entailment that is support."""

SHOWN: Final = 50
"""Statements that the evidence of a row lists."""


class CitationParams(EmbeddingParams):
    """Parameters of citations."""

    similarity: float = Field(
        0.6,
        gt=0,
        le=1,
        description="Least cosine of a statement and a sentence of a context that is support. It depends on the "
        "embedder: about 0.6 for MiniLM, more for models whose texts are all near each other.",
    )
    nli_model: str | None = Field(
        None,
        description="Model for natural language inference that decides instead of similarity: a Hugging Face id, "
        "optionally ID@REVISION, or a directory.",
    )
    uncited: bool = Field(
        True, description="Count answers that cite nothing (0, as in ALCE); else they are not applicable."
    )


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
