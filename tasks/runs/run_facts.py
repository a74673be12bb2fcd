"""The facts of a run that every face tells, read once from its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from leadline.tasks.db import Sql, columns_of, table
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.runs.answers import Answer, answers_of
from leadline.tasks.runs.lookup import status
from leadline.tasks.runs.signs_of_life import LOST, is_lost
from leadline.tasks.runs.tally import Tally, what_counts
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from leadline.tasks.db import Verdict

Size: TypeAlias = Annotated[int, Sql("UBIGINT")]
Moment: TypeAlias = Annotated[datetime, Sql("TIMESTAMP")]


@table("runs")
class RunSummary:
    """A run of a store in one line, as ``leadline store sql`` and DataFrames have it; what is not known yet is NULL."""

    run: Annotated[str, Sql("VARCHAR PRIMARY KEY"), "its id, and the name that it was given"]
    name: str | None
    status: Annotated[str, "`running`, `completed`, `failed`, `interrupted`, `lost`, `dropped`"]
    started: Annotated[Moment | None, "in UTC"]
    seconds: Annotated[float | None, "from the command to the end"]
    dataset: Annotated[str | None, "digest of the dataset, its name and where it came from"]
    dataset_name: str | None
    dataset_source: str | None
    rows: Annotated[Size | None, "answers, and their cases"]
    cases: Size | None
    gate: Annotated[str | None, "`pass`, `fail`, `inconclusive`, and why"]
    gate_reason: str | None
    scored: Annotated[Size | None, "scores: metrics of rows, counted singly"]
    unscored: Size | None
    not_applicable: Size | None
    reused: Annotated[Size | None, "row scores"]
    computed: Size | None
    high: Annotated[Size | None, "problems by severity"]
    medium: Size | None
    low: Size | None
    report: Annotated[str | None, "where the report is"]
    error: Annotated[str | None, "what ended it"]
    record: Annotated[Mapping[str, Any], Sql("JSON"), "all of `run.json`"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run without its database.

    Attributes:
        record: Its record (``run.json``), every key optional.
    """

    run: str
    record: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Name of the run for people."""
        return str(self.record.get("name") or self.record.get("dataset_name") or self.run)

    @property
    def started(self) -> datetime | None:
        """When it was started, in UTC."""
        started = self.record.get("started")
        return datetime.fromisoformat(started).astimezone(UTC) if started else None

    @property
    def time(self) -> RunTime | None:
        """The time of the run as far as it is on record: a page that the run itself writes knows nothing of its end."""
        return RunTime.from_record(self.record)

    @property
    def gate(self) -> Verdict:
        """The gate's verdict; inconclusive when the record has none."""
        gate = self.record.get("gate")
        return gate if gate in ("pass", "fail") else "inconclusive"

    @property
    def gate_reason(self) -> str:
        """One sentence for the verdict."""
        return str(self.record.get("gate_reason") or "No gate was evaluated for this run.")

    @property
    def gate_counted(self) -> str:
        """The problems that the gate counted, in a few words, or ``""`` where that is not on record."""
        return what_counts(self.record)

    @property
    def questions(self) -> tuple[Answer, ...]:
        """The answers to the questions that a person asks of the run."""
        return answers_of(self.record)

    @property
    def stopping(self) -> str:
        """The outcome of stopping before all cases were judged, and what that saved; or ``""``."""
        return str(self.record.get("stopped_why") or "")

    @property
    def scored(self) -> int | None:
        """Scores with a value, metrics of rows counted singly."""
        return self._counted("scored")

    @property
    def unscored(self) -> int | None:
        """Scores that could not be measured."""
        return self._counted("unscored")

    @property
    def not_applicable(self) -> int | None:
        """Scores whose row lacks an input."""
        return self._counted("not_applicable")

    @property
    def coverage(self) -> float | None:
        """Share of the applicable scores that were measured, ``None`` without any."""
        scored, unscored = self.scored or 0, self.unscored or 0
        return scored / (scored + unscored) if scored + unscored else None

    @property
    def reused(self) -> int | None:
        """Row scores taken from the store."""
        return self.record.get("reused")

    @property
    def computed(self) -> int | None:
        """Row scores computed in this run."""
        return self.record.get("computed")

    @property
    def problems_by_fault(self) -> Tally:
        """Number of problems by severity, those of models apart; empty before they were found."""
        return self.record.get("problems_by_fault") or {}

    @property
    def judge_calls(self) -> int:
        """Judge calls made in this run."""
        return int(self._judged("answered"))

    @property
    def judge_cost_usd(self) -> float:
        """Their cost, as far as their price is known."""
        return float(self._judged("cost_usd"))

    @property
    def judge_unknown_price(self) -> int:
        """Judge calls whose price is not known."""
        return int(self._judged("unknown_price"))

    @property
    def judge_made_again(self) -> int:
        """Judge calls made again because an earlier process was killed before their replies came."""
        return int(self._judged("made_again"))

    def _counted(self, status: str) -> int | None:
        return (self.record.get("counts") or {}).get(status)

    def _judged(self, what: str) -> Any:
        return (self.record.get("judge_calls") or {}).get(what) or 0


def status_of(run: Run, record: Mapping[str, Any]) -> str:
    """Return the status of a run by its record and by its signs of life."""
    return LOST if is_lost(run, record) else status(record)


def summary(run: Run) -> dict[str, Any]:
    """Return the columns of :class:`RunSummary`, ``None`` where they are not known (yet)."""
    record = run.read()
    facts = RunFacts(run.id, record)
    known = {
        "run": run.id,
        "status": status_of(run, record),
        "started": facts.started and facts.started.replace(tzinfo=None),
        "seconds": facts.time and facts.time.total,
        "record": record,
    }
    told = {**(record.get("counts") or {}), **(record.get("problems") or {}), **record, **known}
    return {column.name: told.get(column.name) for column in columns_of(RunSummary)}
