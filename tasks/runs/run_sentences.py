"""Sentences about a run that all faces share: pages, terminals, Prefect, pull requests and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leadline.evaluators.ground import count, percent
from leadline.tasks.ground.numbers import ABSENT, money
from leadline.tasks.runs.run_facts import Answer, says_all

if TYPE_CHECKING:
    from leadline.tasks.db import Verdict


class _ToldRun(Protocol):
    """A run that sentences are made of: :class:`.run_facts.RunFacts`, which has these words, or a flow's result."""

    @property
    def gate(self) -> Verdict: ...
    @property
    def gate_reason(self) -> str: ...
    @property
    def gate_counted(self) -> str: ...
    @property
    def questions(self) -> tuple[Answer, ...]: ...
    @property
    def stopping(self) -> str: ...
    @property
    def scored(self) -> int | None: ...
    @property
    def unscored(self) -> int | None: ...
    @property
    def not_applicable(self) -> int | None: ...
    @property
    def reused(self) -> int | None: ...
    @property
    def computed(self) -> int | None: ...
    @property
    def judge_calls(self) -> int: ...
    @property
    def judge_cost_usd(self) -> float: ...
    @property
    def judge_unknown_price(self) -> int: ...
    @property
    def judge_made_again(self) -> int: ...


def gate_words(run: _ToldRun) -> str:
    """Return the gate with what it counted: "pass (counted: model problems of high severity)"."""
    return f"{run.gate} ({run.gate_counted})" if run.gate_counted else run.gate


def gate_reason(run: _ToldRun) -> str:
    """Return why the gate decided, or ``""`` where the answers to the questions, which stand beside it, say so."""
    return "" if says_all(run.questions) else run.gate_reason


def gate_line(run: _ToldRun) -> str:
    """Return the gate and why it decided."""
    return ": ".join(filter(None, (gate_words(run), gate_reason(run))))


def scores_line(run: _ToldRun) -> str:
    """Return the number of scores by status: "6 scored, 1 unscored, 0 not applicable"."""
    needed = " or not needed" if run.stopping else ""
    scored, unscored, rest = map(_number, (run.scored, run.unscored, run.not_applicable))
    return f"{scored} scored, {unscored} unscored, {rest} not applicable{needed}"


def work_line(run: _ToldRun) -> str:
    """Return where the row scores come from: "4 row scores reused, 2 computed"."""
    reused = f"{ABSENT} row scores" if run.reused is None else count(run.reused, "row score")
    return f"{reused} reused, {_number(run.computed)} computed"


def coverage_line(run: _ToldRun) -> str:
    """Return the share of the applicable scores that were measured, and the number of those that could not be."""
    scored, unscored = run.scored or 0, run.unscored or 0
    if not scored + unscored:
        return "Nothing was measured."
    lost = f", {unscored:,} could not be" if unscored else ""
    return f"{percent(scored / (scored + unscored))} of the applicable scores were measured{lost}."


def cost_line(run: _ToldRun) -> str:
    """Return the judge calls with their cost: "12 judge calls, $0.0012"."""
    again = f"; {run.judge_made_again:,} made again, lost with an earlier run" if run.judge_made_again else ""
    return calls_line(run.judge_calls, run.judge_cost_usd, run.judge_unknown_price) + again


def calls_line(calls: int, cost_usd: float, unknown: int) -> str:
    """Return a number of judge calls with their cost."""
    return f"{count(calls, 'judge call')}, {paid(cost_usd, calls, unknown)}" if calls else "no judge calls"


def paid(cost_usd: float, answered: int, unknown: int) -> str:
    """Return the cost of calls as a part of a sentence. See :func:`price`."""
    return "price unknown" if unknown >= answered else price(cost_usd, answered, unknown)


def price(cost_usd: float, answered: int, unknown: int) -> str:
    """Return the cost of calls, where the price of some or all of them may be unknown; never "$0" for that.

    Args:
        unknown: Those of them without a known price.
    """
    if not answered:
        return ABSENT
    if unknown >= answered:
        return "unknown"
    return money(cost_usd) + (f" and {count(unknown, 'call')} of unknown price" if unknown else "")


def _number(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


@dataclass(frozen=True, slots=True)
class Spending:
    """The calls of one evaluator, or of all of them.

    Attributes:
        evaluator: Id of the evaluator that asked first, ``""`` for all together.
        lost: Calls whose process was gone before the reply was on record; they may have been paid for.
        retries: Attempts beyond the first one of a call.
        input_tokens: Tokens sent, as far as the provider counted them; ``None`` where it gave no counts.
        price: What they cost, with what is not known of it; never "$0" for an unknown price.
    """

    evaluator: str
    asked: int
    answered: int
    failed: int
    lost: int
    retries: int
    input_tokens: int | None
    output_tokens: int | None
    price: str


def spending(record: Mapping[str, Any]) -> list[Spending]:
    """Return the calls in a run's record (``judge_calls``), by evaluator and then the sum; empty without calls."""
    counted = record.get("judge_calls") or {}
    parts = counted.get("by_evaluator") or []
    return [_line(part) for part in (*parts, counted)] if parts else []


def _line(part: Mapping[str, Any]) -> Spending:
    counted = bool(part["input_tokens"] or part["output_tokens"])
    return Spending(
        evaluator=part.get("evaluator", ""),
        asked=part["asked"],
        answered=part["answered"],
        failed=part["failed"],
        lost=part["lost"],
        retries=part["repeated_attempts"],
        input_tokens=part["input_tokens"] if counted else None,
        output_tokens=part["output_tokens"] if counted else None,
        price=price(part["cost_usd"], part["answered"], part["unknown_price"]),
    )
