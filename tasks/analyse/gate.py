"""The gate: whether a run passes, by what it answers to the questions that its policy asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from leadline.evaluators.ground import count
from leadline.tasks.analyse.doubts import doubts
from leadline.tasks.analyse.verdict import VerdictRequest, answer_questions
from leadline.tasks.db import records
from leadline.tasks.policy.policy import Policy
from leadline.tasks.runs.answers import Answer
from leadline.tasks.runs.tally import failing_severities

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's decision, its reason in one sentence, and what the run answers to each question."""

    gate: Outcome
    reason: str
    answers: tuple[Answer, ...] = ()


def decide(
    connection: DuckDBPyConnection,
    policy: Policy,
    *,
    fail_on: str = "never",
    min_coverage: float | None = None,
    chosen: bool = False,
    run: str = "latest",
) -> Decision:
    """Decide whether a run passes.

    It fails if a question does: if a model has a problem at least as severe as ``fail_on`` that bears on it; problems
    of the instrument or of the data never make it fail. Else it is inconclusive if a question that is asked was not
    looked at or cannot be told. Else it passes. ``never`` decides as ``high`` does, since a report must not present a
    bad run as good; it only keeps the command's exit code at 0. A policy with the problems of H2O Sonar asks no
    questions: all problems count, and enough of everything must have been measured.

    Args:
        connection: The run, after problems were found.
        policy: The run's policy.
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's for
            each metric if it is not given.
        chosen: Whether somebody chose the evaluators.
        run: The run's id, for the commands that would decide a question.
    """
    severities = failing_severities(str(fail_on))
    if policy.problems == "seed":
        return _by_all_problems(connection, policy, severities, min_coverage, run)
    answers = answer_questions(connection, policy, VerdictRequest(severities, chosen, run, min_coverage))
    outcome, reason = _decided(connection, answers, only=policy.only)
    return Decision(outcome, reason, tuple(answers))


def _decided(connection: DuckDBPyConnection, answers: Sequence[Answer], *, only: bool) -> tuple[Outcome, str]:
    failed = [answer for answer in answers if answer.outcome == "fail" and (answer.asked or not only)]
    if failed:
        return "fail", _because(failed)
    if not _scored(connection):
        return "inconclusive", "Nothing was scored."
    asked = [answer for answer in answers if answer.asked]
    if not asked:
        return "inconclusive", (
            "Scores only: what was measured has no threshold to be held against; give one with "
            "--param EVALUATOR.metric_threshold=NUMBER."
        )
    if open_ := [answer for answer in asked if answer.outcome != "pass"]:
        return "inconclusive", _because(open_)
    return "pass", _because(asked)


def _because(answers: Sequence[Answer]) -> str:
    return " ".join(f"{answer.question.capitalize()}: {answer.reason}" for answer in answers)


def _scored(connection: DuckDBPyConnection) -> bool:
    return bool(connection.execute("SELECT coalesce(sum(n_scored), 0) FROM aggregates").fetchall()[0][0])


def _by_all_problems(
    connection: DuckDBPyConnection, policy: Policy, severities: Sequence[str], min_coverage: float | None, run: str
) -> Decision:
    failing = records(
        connection,
        "SELECT description FROM problems WHERE NOT instrument AND list_contains(?, severity) ORDER BY problem_id",
        [list(severities)],
    )
    if failing:
        first = failing[0]["description"].split(". ")[0].rstrip(".")
        wanted = f"{severities[-1]} severity{' or worse' if len(severities) > 1 else ''}"
        return Decision("fail", f"{count(len(failing), 'problem')} of {wanted}, the first: {first}.")
    if not _scored(connection):
        return Decision("inconclusive", "Nothing was scored.")
    if doubt := next(doubts(connection, policy, min_coverage=min_coverage, run=run), ""):
        return Decision("inconclusive", doubt)
    return Decision("pass", f"No model has a problem of {severities[-1]} severity, and enough was scored.")
