"""The facts of a run that every face tells, read once from its record: its gate, its answers, its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from leadline.evaluators.data import Severity
from leadline.tasks.db import Sql, Verdict, columns_of, table
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.policy.questions import IN_WORDS, Question
from leadline.tasks.runs.heartbeats import LOST, is_lost
from leadline.tasks.runs.lookup import status
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Tally: TypeAlias = dict[str, dict[str, int]]
"""``{"model": {"high": 1, …}, "instrument": {"high": 0, …}}``: problems by severity, worst first."""

_FAILING: Final[dict[str, tuple[str, ...]]] = {"never": ("high",), "high": ("high",), "medium": ("high", "medium")}


def failing_severities(fail_on: str) -> tuple[str, ...]:
    """Return the severities of models' problems that fail the gate; ``never`` decides as ``high`` does."""
    return _FAILING[fail_on]


def tally(problems: Iterable[tuple[str, bool]]) -> Tally:
    """Count problems, each given as its severity and whether the instrument or the data is at fault."""
    counted = Counter(problems)
    return {
        whose: {severity.value: counted[severity.value, instrument] for severity in Severity}
        for whose, instrument in (("model", False), ("instrument", True))
    }


def tally_run(connection: DuckDBPyConnection) -> Tally:
    """Count the problems in a run's table."""
    return tally(connection.execute("SELECT severity, instrument FROM problems").fetchall())


def _counted_in_words(counts: Mapping[str, int]) -> str:
    """Return counts by severity as "1 high, 2 low", or "none"."""
    return ", ".join(f"{count:,} {severity}" for severity, count in counts.items() if count) or "none"


def tally_in_words(found: Mapping[str, Mapping[str, int]]) -> str:
    """Return a line for people: the problems of models, and those of the instrument, which do not count."""
    instrument = _counted_in_words(found["instrument"])
    never = " (these never fail the gate)" if instrument != "none" else ""
    return f"of models: {_counted_in_words(found['model'])}; of the instrument or the data: {instrument}{never}"


def what_counts(record: Mapping[str, Any]) -> str:
    """Return in a few words the problems that a run's gate counts, or ``""`` if that is not on record."""
    config = record.get("config")
    fail_on = str(config.get("fail_on")) if isinstance(config, Mapping) else ""
    if fail_on not in _FAILING:
        return ""
    return f"counted: model problems of {' and '.join(_FAILING[fail_on])} severity"


Outcome: TypeAlias = Literal["pass", "fail", "inconclusive", "not looked at"]

SYMBOLS: Final[Mapping[str, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "≈", "not looked at": "?"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's answer to one question.

    Attributes:
        asked: Whether it must be decided for the gate to pass.
        remedy: What would decide it: options of ``leadline evaluate``, or a command; ``""`` where it is decided.
    """

    question: Question
    asked: bool
    outcome: Outcome
    reason: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """The question as a person asks it."""
        return IN_WORDS[self.question]

    @property
    def shown(self) -> str:
        """The outcome as it stands on screens."""
        return self.outcome if self.outcome == "not looked at" else self.outcome.upper()

    @property
    def line(self) -> str:
        """Outcome, reason and remedy in one line; a question that could have kept the gate open says if it need not."""
        aside = " (not asked)" if self.outcome == "inconclusive" and not self.asked else ""
        return f"{self.shown}{aside}: {self.reason}{f' To decide it: {self.remedy}.' if self.remedy else ''}"


def answers_of(record: Mapping[str, Any]) -> tuple[Answer, ...]:
    """Return what a run's record answers to the questions; nothing for a run that was judged as H2O Sonar does.

    Args:
        record: The record; of one that an earlier version wrote, it may lack the questions.
    """
    lines = record.get("questions") or ()
    return tuple(Answer(**{**line, "question": Question(line["question"])}) for line in lines)


def says_all(answers: tuple[Answer, ...]) -> bool:
    """Return whether the answers say why the gate decided, so that its reason need not be repeated beside them."""
    return any(answer.asked for answer in answers)


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
    rescored: Annotated[str | None, "the earlier run whose answers it scored again: it is no later measurement"]
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
