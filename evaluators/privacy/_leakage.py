"""Parameters, scanning of a row and evidence, shared by the privacy evaluators.

Messages never repeat what was found: spans point at it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

from pydantic import Field, field_validator

from leadline.evaluators.core import EvalContext, Params, RowEvaluator, verdict
from leadline.evaluators.data import ContextChunk, Evidence, Json, Row, RowScore, Source, Span
from leadline.evaluators.privacy.rules.matching import (
    PatternRule,
    RuleMatch,
    WhyAside,
    choose,
    examine,
    example,
    fold,
    leaks,
    rules_of,
)

MAX_SPANS: Final = 100
"""Most spans of a row."""

SET_ASIDE: Final = "set_aside"
"""Key of the evidence under which what is no leak is counted."""
ALLOWED: Final = "allowed"
EXPECTED: Final = "in the expected answer"
PUBLIC: Final = "public contact"
"""Reasons for which something that was found is no leak."""

_ROLE: Final = re.compile(
    r"(?:info|kontakt|contact|contacto|contatto|hello|hallo|hola|bonjour|office|mail|support|help|helpdesk|service"
    r"|customer[._-]?(?:service|care|support)|kundenservice|sales|vertrieb|orders?|shop|returns|billing|accounts?"
    r"|accounting|press|presse|media|marketing|jobs|careers|hr|privacy|datenschutz|legal|security|abuse|postmaster"
    r"|webmaster|admin|no-?reply|newsletter|feedback|team)(?:[._+-][a-z]{1,12})?"
)
_FREE_CALL: Final = re.compile(r"(?:\+?1)?8(?:00|33|44|55|66|77|88)[0-9]{7}\Z|(?:00|\+)?800[0-9]{8}\Z|0800[0-9]{5,8}\Z")


class NameKind(NamedTuple):
    """A kind of name: its id and what it is called in words."""

    id: str
    description: str


class NameMatch(NamedTuple):
    """A place where a model found a name: ``text[start:end]``."""

    rule: NameKind
    start: int
    end: int


LeakFinding: TypeAlias = RuleMatch | NameMatch


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
    allow: Annotated[
        tuple[str, ...],
        Field(
            description="What is no leak wherever it stands: your public address and telephone number, or a domain as "
            "@acme.com. What a row's expected answer holds is none in that row.",
            max_length=1_000,
        ),
    ] = ()

    @field_validator("allow", mode="before")
    @classmethod
    def _listed_allow(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

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
    def rules(self) -> tuple[PatternRule, ...]:
        """The rules that the parameters choose."""
        return choose(rules_of(self.params.table), self.params.rules)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Scan one row."""
        why = self.why_aside(row)
        answer = examine(self.rules, row.actual_answer or "", why)
        context = examine_chunks(self.rules, self.chunks(row), why)
        return self.scored(leaks(answer), leaks_in_chunks(context), aside=answer)

    def why_aside(self, row: Row) -> WhyAside:
        """Return what tells which findings in a row are no leaks.

        Args:
            row: The row, whose expected answer may be given to everybody.
        """
        examples = self.params.exclude_documentation_examples
        allowed = frozenset(map(_plain, self.params.allow))

        expected: list[str] | None = None  # made for the first finding; most rows have none

        def why(rule: PatternRule, text: str) -> str:
            nonlocal expected
            plain = _plain(text)
            if plain in allowed or any(each.startswith("@") and plain.endswith(each) for each in allowed):
                return ALLOWED
            if expected is None:
                expected = [_plain(text) for text in row.expected_answers]
            if any(plain in each for each in expected):
                return EXPECTED
            if examples and _is_public(rule, plain):
                return PUBLIC
            return example(rule, text) if examples else ""

        return why

    def chunks(self, row: Row) -> Sequence[ContextChunk]:
        """Return the chunks of a row that are scanned."""
        return row.retrieved_context if self.params.evaluate_retrieved_context else ()

    def scored(
        self, answer: Sequence[LeakFinding], context: Sequence[tuple[int, LeakFinding]], aside: Sequence[RuleMatch] = ()
    ) -> RowScore:
        """Return a row's score.

        Args:
            context: Findings in the chunks, each with the place of its chunk.
            aside: What was found in the answer, of which some is set aside.
        """
        values = verdict(self.metrics, generation=bool(answer), retrieval=bool(context))
        return RowScore(values, with_aside(evidence_of(answer, context), aside))


def examine_chunks(
    rules: Sequence[PatternRule], chunks: Sequence[ContextChunk], why: WhyAside
) -> list[tuple[int, RuleMatch]]:
    """Return all that rules find in each chunk, with the chunk's place.

    Args:
        rules: The rules, more specific ones first.
        chunks: The chunks, each scanned by itself.
        why: Tells what of it is no leak.
    """
    return [(index, found) for index, chunk in enumerate(chunks) for found in examine(rules, chunk.content, why)]


def leaks_in_chunks(found: Sequence[tuple[int, RuleMatch]]) -> list[tuple[int, RuleMatch]]:
    """Return what is not set aside."""
    return [(index, finding) for index, finding in found if not finding.aside]


def with_aside(evidence: Evidence, found: Sequence[RuleMatch]) -> Evidence:
    """Return evidence that counts what was set aside, by the reason.

    Args:
        evidence: What the row's score rests on.
        found: What was found in the answer.
    """
    counts = Counter(finding.aside for finding in found if finding.aside)
    return replace(evidence, data={**evidence.data, SET_ASIDE: dict(counts)}) if counts else evidence


def _plain(text: str) -> str:
    return " ".join(fold(text).lower().split())


def _is_public(rule: PatternRule, plain: str) -> bool:
    """Return whether a mail address belongs to a function, not a person, or calling a number is free for everybody."""
    if rule.id == "email":
        return _ROLE.fullmatch(plain.partition("@")[0]) is not None
    return rule.id.startswith("phone") and _FREE_CALL.match(re.sub(r"[^0-9+]", "", plain)) is not None


def evidence_of(
    answer: Sequence[LeakFinding], context: Sequence[tuple[int, LeakFinding]], spans: Sequence[Span] | None = None
) -> Evidence:
    """Return the rules that found something and the places, without repeating the text.

    Args:
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


def _listed(found: Sequence[LeakFinding]) -> str:
    counts = Counter(finding.rule.description for finding in found)
    return ", ".join(what if count == 1 else f"{what} ({count})" for what, count in counts.items())
