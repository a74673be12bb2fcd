"""Parameters, scanning of a row and evidence, shared by the privacy evaluators.

Messages never repeat what was found: spans point at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Protocol

from pydantic import Field, field_validator

from leadline.evaluators.core.base import RowEvaluator
from leadline.evaluators.core.boolean import verdict
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.params import Params
from leadline.evaluators.core.row import ContextChunk, Evidence, Json, Row, RowScore, Source, Span
from leadline.evaluators.privacy.rules.matching import RuleMatch, scan
from leadline.evaluators.privacy.rules.tables import Rule, choose, rules_of

MAX_SPANS: Final = 100
"""Most spans of a row."""


class FindingKind(Protocol):
    """A rule, or a kind of name that a model tells."""

    @property
    def id(self) -> str:
        """Its name, as users type it."""

    @property
    def description(self) -> str:
        """The same in words, as a noun."""


class Finding(Protocol):
    """A place where something was found: ``text[start:end]``."""

    @property
    def rule(self) -> FindingKind:
        """Its rule, or kind of name."""

    @property
    def start(self) -> int:
        """Its first character's place."""

    @property
    def end(self) -> int:
        """The place after its last character."""


class LeakageParams(Params):
    """Parameters of evaluators that scan texts with a table of rules."""

    table: ClassVar[str]

    evaluate_retrieved_context: Annotated[
        bool, Field(description="Scan the retrieved context too; a row fails when its context does.")
    ] = True
    rules: Annotated[
        tuple[str, ...],
        Field(
            description="Rules to apply, by name; 'default' stands for the default ones, 'all' for all.", min_length=1
        ),
    ] = ("default",)
    exclude_documentation_examples: Annotated[
        bool,
        Field(description="Leave out well-known examples: addresses at example.com, test card numbers, YOUR_API_KEY."),
    ] = True

    @field_validator("rules", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("rules")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        choose(rules_of(cls.table), value)
        return value


class LeakageEvaluator(RowEvaluator):
    """Fails a row when a rule finds something in its answer or its retrieved context."""

    parameters: ClassVar[type[Params]] = LeakageParams
    params: LeakageParams

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that the parameters choose."""
        return choose(rules_of(self.params.table), self.params.rules)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Scan one row."""
        skip = self.params.exclude_documentation_examples
        answer = scan(self.rules, row.actual_answer or "", skip_documentation=skip)
        return self.scored(answer, scan_chunks(self.rules, self.chunks(row), skip_documentation=skip))

    def chunks(self, row: Row) -> Sequence[ContextChunk]:
        """Return the chunks of a row that are scanned."""
        return row.retrieved_context if self.params.evaluate_retrieved_context else ()

    def scored(self, answer: Sequence[Finding], context: Sequence[tuple[int, Finding]]) -> RowScore:
        """Return a row's score.

        Args:
            answer: Findings in the answer.
            context: Findings in the chunks, each with the place of its chunk.
        """
        values = verdict(self.metrics, generation=bool(answer), retrieval=bool(context))
        return RowScore(values, evidence_of(answer, context))


def scan_chunks(
    rules: Sequence[Rule], chunks: Sequence[ContextChunk], *, skip_documentation: bool
) -> list[tuple[int, RuleMatch]]:
    """Return what rules find in each chunk, with the chunk's place.

    Args:
        rules: The rules, more specific ones first.
        chunks: The chunks, each scanned by itself.
        skip_documentation: Whether to leave out well-known examples.
    """
    return [
        (index, finding)
        for index, chunk in enumerate(chunks)
        for finding in scan(rules, chunk.content, skip_documentation=skip_documentation)
    ]


def evidence_of(
    answer: Sequence[Finding], context: Sequence[tuple[int, Finding]], spans: Sequence[Span] | None = None
) -> Evidence:
    """Return the rules that found something and the places, without repeating the text.

    Args:
        answer: Findings in the answer.
        context: Findings in the chunks, each with the place of its chunk.
        spans: Where to show the answer's findings, if not where they were found.
    """
    if not answer and not context:
        return Evidence()
    if spans is None:
        spans = [Span(Source.ACTUAL_ANSWER, found.start, found.end, note=found.rule.id) for found in answer]
    spans = [
        *spans,
        *(Span(Source.RETRIEVED_CONTEXT, found.start, found.end, at, note=found.rule.id) for at, found in context),
    ]
    found_in = {"answer": answer, "retrieved context": [finding for _, finding in context]}
    message = " ".join(f"The {where} contains {_listed(found)}." for where, found in found_in.items() if found)
    data: dict[str, Json] = {
        where.replace(" ", "_"): dict(Counter(finding.rule.id for finding in found))
        for where, found in found_in.items()
        if found
    }
    return Evidence(message, tuple(spans[:MAX_SPANS]), {"rules": data})


def _listed(found: Sequence[Finding]) -> str:
    counts = Counter(finding.rule.description for finding in found)
    return ", ".join(what if count == 1 else f"{what} ({count})" for what, count in counts.items())
