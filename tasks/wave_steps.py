"""The steps of a run that is judged in waves: a look after each, and the end.

Nothing of a look is kept for the next: each begins anew from the store's segments, so that a run that was killed and is
started again decides the same, and pays nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.analyse.gather import gather
from leadline.tasks.compare.run_changes import CHANGE_LEVEL, look_at_changes, read_change_questions
from leadline.tasks.db import open_run, sql
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.ledger.ledger_report import Totals, add_up
from leadline.tasks.plan.cost import Estimate, estimate
from leadline.tasks.plan.jobs import EvaluatorJob, read_jobs
from leadline.tasks.policy.policy import Policy
from leadline.tasks.stopping.looks import (
    Look,
    QuestionEvidence,
    certain_failures,
    gate_questions,
    look_at,
    open_ends,
)
from leadline.tasks.stopping.waves import LEVEL, WaveOutcome
from leadline.tasks.store.store import JOBS, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger("leadline.run")


@dataclass(frozen=True, slots=True)
class StopQuestions:
    """The questions that must be decided before judging may stop.

    Attributes:
        fail_on: Least severity of a problem that fails the gate; ``never``: the gate is not asked.
        min_coverage: Least share of rows to be scored, instead of the policy's.
        against: Id of the run to compare with, or ``None``.
        no_baseline: Why there is none although one was asked for, or ``""``.
    """

    fail_on: str
    min_coverage: float | None = None
    against: str | None = None
    no_baseline: str = ""

    @property
    def gate_level(self) -> float:
        """Chance of a wrong decision of the gate, so that both questions together have the usual one."""
        return LEVEL - CHANGE_LEVEL if self.against else LEVEL


def look_after(store: Store, run: Run, wave: int, asked: StopQuestions) -> Look:
    """Gather what judges said so far, and return what that decides; the table ``stopping`` gets a line per question.

    Args:
        wave: The wave that ended.
        asked: What must be decided.
    """
    _, jobs = read_jobs(run.plan / JOBS)
    store.fetch_unscored(run)
    policy = Policy.from_json(run.read()["policy"])
    looks: dict[str, Look] = {}
    with open_run(store, run) as connection:
        failed: tuple[str, ...] = ()
        if wave == 0 and asked.fail_on != "never":
            gather(connection, store, run, jobs)
            failed = certain_failures(connection, policy, asked.fail_on)
        else:
            gather(connection, store, run, jobs, lane="judge")
        connection.execute("DELETE FROM stopping WHERE wave >= ?", [wave])
        if asked.fail_on != "never":
            questions = gate_questions(connection, policy, asked.fail_on, asked.min_coverage)
            may_pass = not open_ends(connection, policy, asked.fail_on)
            looks["gate"] = look_at(connection, questions, wave, may_pass=may_pass, level=asked.gate_level)
            _note(connection, wave, looks["gate"].evidence)
            if failed:
                looks["gate"] = replace(looks["gate"], decision="fail", certain=failed)
    if asked.against:
        try:
            changes = read_change_questions(store, store.run(asked.against), run, wave)
        except LeadlineError as error:  # the run says at its end what is wrong with its baseline
            log.warning("Nothing is decided against run %s: %s", asked.against, error)
            changes = []
        looks["changes"] = look_at_changes(changes)
        with open_run(store, run) as connection:
            _note(connection, wave, looks["changes"].evidence, "change")
    return together(list(looks.values()))


def together(looks: Sequence[Look]) -> Look:
    """Return the look of several questions: all must pass, and any may fail.

    Args:
        looks: Looks after the same wave.
    """
    evidence = tuple(each for look in looks for each in look.evidence)
    decisions = {look.decision for look in looks}
    if "fail" in decisions:
        return Look("fail", evidence, certain=tuple(name for look in looks for name in look.certain))
    return Look("pass" if decisions == {"pass"} else "open", evidence)


def _note(connection: DuckDBPyConnection, wave: int, evidence: Iterable[QuestionEvidence], what: str = "") -> None:
    for each in evidence:
        question = each.question
        connection.execute(
            "INSERT INTO stopping VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                wave,
                question.metric_id,
                question.model_id,
                what or ("passes" if question.passes else "value"),
                each.clusters,
                each.rows,
                each.log_pass,
                each.log_fail,
                each.decision,
            ],
        )


def end_waves(store: Store, run: Run, wave: int, waves: int, look: Look | None, asked: StopQuestions) -> WaveOutcome:
    """Leave the rows of later waves unjudged, record what was decided, and return it.

    Args:
        wave: The last wave that was judged.
        waves: Number of waves.
        look: The last look, if there was one.
        asked: What had to be decided.
    """
    settings, jobs = read_jobs(run.plan / JOBS)
    policy = Policy.from_json(run.read()["policy"])
    with open_run(store, run) as connection:
        (everything,) = connection.execute("SELECT coalesce(max(place) + 1, 0) FROM waves").fetchall()[0]
        (judged,) = connection.execute(
            "SELECT coalesce(max(place) + 1, 0) FROM waves WHERE wave <= ?", [wave]
        ).fetchall()[0]
        connection.execute("DELETE FROM stopping WHERE wave > ?", [wave])
        ends = open_ends(connection, policy, asked.fail_on) if asked.fail_on != "never" else ""
        connection.execute(sql("stopping/leave_rest"), {"wave": wave})
        connection.execute(sql("stopping/forget_judged"), {"wave": wave})
        rest = [found for job in _judged(jobs) if (found := estimate(connection, job, settings))]
    outcome = WaveOutcome(
        decision=look.decision if look is not None and judged < everything else "open",
        wave=wave,
        waves=waves,
        clusters=judged,
        all_clusters=everything,
        failed=_failed(look),
        certain=bool(look and look.certain),
        open=look.open if look else (),
        open_ends=ends or asked.no_baseline,
        level=CHANGE_LEVEL * 2 if asked.fail_on == "never" else LEVEL,
        against=asked.against or "",
        gate_asked=asked.fail_on != "never",
        saved_usd=_usd(rest, add_up(run.id, read_ledger(store).totals(run.id))),
    )
    run.update({"stopping": asdict(outcome)})
    return outcome


def _failed(look: Look | None) -> tuple[str, ...]:
    """Return the names of what decided a failure."""
    if look is None:
        return ()
    return look.certain or tuple(each.question.name for each in look.evidence if each.decision == "fail")


def _judged(jobs: Iterable[EvaluatorJob]) -> list[EvaluatorJob]:
    return [job for job in jobs if job.lane == "judge" and not job.error]


def _usd(rest: Sequence[Estimate], spent: Totals) -> float | None:
    """Return what the calls that were saved would have cost: as much each as this run's, if it paid for any."""
    if spent.answered and not spent.unknown_price:
        return spent.cost_usd / spent.answered * sum(each.calls for each in rest)
    costs = [each.cost_usd for each in rest]
    return None if not costs or None in costs else sum(cost for cost in costs if cost is not None)
