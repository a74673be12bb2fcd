"""Sentences about a run that all faces share: pages, terminals, Prefect, pull requests and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leadline.evaluators.ground import count, percent
from leadline.tasks.ground.numbers import ABSENT, money
from leadline.tasks.runs.answers import Answer, says_all

if TYPE_CHECKING:
    from leadline.tasks.db import Verdict


class ToldRun(Protocol):
    """A run that sentences are made of: :class:`.run_facts.RunFacts`, or the result of a flow."""

    @property
    def gate(self) -> Verdict:
        """The gate's verdict."""

    @property
    def gate_reason(self) -> str:
        """One sentence for the verdict."""

    @property
    def gate_counted(self) -> str:
        """The problems that the gate counted, in a few words."""

    @property
    def questions(self) -> tuple[Answer, ...]:
        """The answers to the questions that a person asks of it."""

    @property
    def stopping(self) -> str:
        """The outcome of stopping early, or ``""``."""

    @property
    def scored(self) -> int | None:
        """Scores with a value."""

    @property
    def unscored(self) -> int | None:
        """Scores that could not be measured."""

    @property
    def not_applicable(self) -> int | None:
        """Scores whose row lacks an input."""

    @property
    def reused(self) -> int | None:
        """Row scores taken from the store."""

    @property
    def computed(self) -> int | None:
        """Row scores computed in it."""

    @property
    def judge_calls(self) -> int:
        """Judge calls made in it."""

    @property
    def judge_cost_usd(self) -> float:
        """Their cost, as far as their price is known."""

    @property
    def judge_unknown_price(self) -> int:
        """Judge calls whose price is not known."""

    @property
    def judge_made_again(self) -> int:
        """Judge calls that were lost with an earlier process."""


def gate_words(run: ToldRun) -> str:
    """Return the gate with what it counted: "pass (counted: model problems of high severity)"."""
    return f"{run.gate} ({run.gate_counted})" if run.gate_counted else run.gate


def gate_reason(run: ToldRun) -> str:
    """Return why the gate decided, or ``""`` where the answers to the questions, which stand beside it, say so."""
    return "" if says_all(run.questions) else run.gate_reason


def gate_line(run: ToldRun) -> str:
    """Return the gate and why it decided."""
    return ": ".join(filter(None, (gate_words(run), gate_reason(run))))


def scores_line(run: ToldRun) -> str:
    """Return the number of scores by status: "6 scored, 1 unscored, 0 not applicable"."""
    needed = " or not needed" if run.stopping else ""
    scored, unscored, rest = map(_number, (run.scored, run.unscored, run.not_applicable))
    return f"{scored} scored, {unscored} unscored, {rest} not applicable{needed}"


def work_line(run: ToldRun) -> str:
    """Return where the row scores come from: "4 row scores reused, 2 computed"."""
    reused = f"{ABSENT} row scores" if run.reused is None else count(run.reused, "row score")
    return f"{reused} reused, {_number(run.computed)} computed"


def coverage_line(run: ToldRun) -> str:
    """Return the share of the applicable scores that were measured, and the number of those that could not be."""
    scored, unscored = run.scored or 0, run.unscored or 0
    if not scored + unscored:
        return "Nothing was measured."
    lost = f", {unscored:,} could not be" if unscored else ""
    return f"{percent(scored / (scored + unscored))} of the applicable scores were measured{lost}."


def cost_line(run: ToldRun) -> str:
    """Return the judge calls with their cost: "12 judge calls, $0.0012"."""
    again = f"; {run.judge_made_again:,} made again, lost with an earlier run" if run.judge_made_again else ""
    return calls_line(run.judge_calls, run.judge_cost_usd, run.judge_unknown_price) + again


def calls_line(calls: int, cost_usd: float, unknown: int) -> str:
    """Return a number of judge calls with their cost.

    Args:
        cost_usd: The sum of the known prices.
        unknown: Calls without a known price.
    """
    return f"{count(calls, 'judge call')}, {paid(cost_usd, calls, unknown)}" if calls else "no judge calls"


def paid(cost_usd: float, answered: int, unknown: int) -> str:
    """Return the cost of calls as a part of a sentence. See :func:`price`."""
    return "price unknown" if unknown >= answered else price(cost_usd, answered, unknown)


def price(cost_usd: float, answered: int, unknown: int) -> str:
    """Return the cost of calls, where the price of some or all of them may be unknown; never "$0" for that.

    Args:
        cost_usd: The sum of the known prices.
        answered: Calls with a reply.
        unknown: Those of them without a known price.
    """
    if not answered:
        return ABSENT
    if unknown >= answered:
        return "unknown"
    return money(cost_usd) + (f" and {count(unknown, 'call')} of unknown price" if unknown else "")


def _number(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"
