"""Changes since the baseline: newly broken and newly fixed rows, and what cannot be told. See ``docs/changes.md``.

:mod:`leadline.tasks.compare.run_changes` finds the baseline, compares, and fills the tables ``baseline``,
``model_changes``, ``metric_changes`` and ``row_changes``; this module reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import count, listing, nouns
from leadline.tasks.db import records, show_turn_means, sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OTHER_POLICY: Final = "The gates are not comparable: the baseline was judged by another policy."
"""Note on a baseline."""
MOST_ROWS: Final = 50
"""Changed rows of one model and direction that are read."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run that another was compared with: the columns of the table ``baseline``."""

    run: str | None
    name: str
    tag: str
    dataset_name: str
    started: str
    new_cases: int
    removed_cases: int
    note: str
    notes: tuple[str, ...]

    @property
    def label(self) -> str:
        """The run with its tag: "run 20261121-052249-b06c06 (production)"."""
        return f"run {self.run}{f' ({self.tag})' if self.tag else ''}"


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that passed a metric and now fails it, or the other way round, on one metric or several.

    Attributes:
        row_id: The row in this run.
        case: Key of its case.
        turn: The first turn that fails one of these metrics, where it is a conversation of several that broke.
        baseline_answer: The baseline's answer, cut; ``None`` where there was none.
    """

    row_id: int
    case: str
    metric_ids: tuple[int, ...]
    turn: int | None
    baseline_answer: str | None

    @property
    def where(self) -> str:
        """The case, and from which turn on it fails: "berth-15m from turn 3"."""
        return f"{self.case} from turn {self.turn}" if self.turn else self.case


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric of one model in both runs, over the cases that both scored: the table ``metric_changes``, and more.

    Attributes:
        key: ``evaluator.metric``.
        name: Its name for people.
        role: ``must`` or ``should``; what is information by the policy is not compared.
        weight: How harmful the policy holds a failing answer.
        share: Whether a row's value is 0 or 1, so that values read as percentages.
        n_broken: Rows that passed and now fail, with another answer.
        n_fixed: Rows that failed and now pass, with another answer.
    """

    metric_id: int
    model_id: int
    key: str
    name: str
    role: str
    weight: float
    share: bool
    verdict: str
    change: str
    reason: str
    baseline: float | None
    candidate: float | None
    effect: float | None
    ci_low: float | None
    ci_high: float | None
    n_pairs: int
    n_unscored: int
    n_broken: int
    n_fixed: int


@dataclass(frozen=True, slots=True)
class ModelChange:
    """The changes of one model: the columns of the table ``model_changes``, and more.

    Attributes:
        model: Its key.
        n_broken: Rows with another answer that passed some metric and now fail it.
        n_fixed: Rows with another answer that failed some metric and now pass it.
        n_rejudged: Rows with the same answer that changed sides: the instrument changed its mind, not the model.
        metrics: The metrics that were compared.
        broken: The first :data:`MOST_ROWS` broken rows.
        fixed: The first :data:`MOST_ROWS` fixed rows.
    """

    model_id: int
    model: str
    baseline_model: str
    verdict: str
    reason: str
    n_rows: int
    n_same_answers: int
    n_changed: int
    n_broken: int
    n_fixed: int
    n_rejudged: int
    metrics: tuple[MetricChange, ...]
    broken: tuple[RowChange, ...]
    fixed: tuple[RowChange, ...]

    @property
    def undecided(self) -> tuple[MetricChange, ...]:
        """The metrics of which nothing can be told: too few cases, or measured differently."""
        return tuple(metric for metric in self.metrics if metric.verdict in ("inconclusive", "incomparable"))

    @property
    def differently(self) -> tuple[MetricChange, ...]:
        """The metrics that the two runs measured differently, so that they are not compared."""
        return tuple(metric for metric in self.metrics if metric.verdict == "incomparable")

    @property
    def in_words(self) -> str:
        """Part of a sentence: "2 newly broken, 1 newly fixed"."""
        return _rows_in_words((self,))


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes since the baseline, by model.

    Attributes:
        baseline: The other run.
        models: The models that both runs have, in the order of this run.
    """

    baseline: Baseline
    models: tuple[ModelChange, ...]

    @property
    def n_broken(self) -> int:
        """Broken rows of all models."""
        return sum(model.n_broken for model in self.models)

    @property
    def n_fixed(self) -> int:
        """Fixed rows of all models."""
        return sum(model.n_fixed for model in self.models)

    @property
    def undecided(self) -> tuple[str, ...]:
        """The metrics of which nothing can be told of some model."""
        return tuple(dict.fromkeys(metric.key for model in self.models for metric in model.undecided))

    @property
    def summary(self) -> str:
        """One line: "since run X (production): 2 newly broken, 1 newly fixed; 3 metrics cannot be told"."""
        if self.baseline.note:
            return self.baseline.note
        worse = [model.model for model in self.models if model.verdict == "fail"]
        new, gone = self.baseline.new_cases, self.baseline.removed_cases
        parts = [
            f"{listing(worse, most=4)} {nouns(len(worse), 'is', 'are')} worse by more than is tolerated"
            if worse
            else "",
            _rows_in_words(self.models),
            f"{count(len(self.undecided), 'metric')} cannot be told" if self.undecided else "",
            count(new, "new case") if new else "",
            f"{count(gone, 'case')} gone" if gone else "",
            "judged by another policy" if OTHER_POLICY in self.baseline.notes else "",
        ]
        return f"since {self.baseline.label}: {'; '.join(filter(None, parts))}"


def _rows_in_words(models: Sequence[ModelChange]) -> str:
    """Return how many rows changed sides, and of which models."""
    answers = sum(model.n_rows - model.n_same_answers for model in models)
    broken = {model.model: model.n_broken for model in models if model.n_broken}
    fixed = {model.model: model.n_fixed for model in models if model.n_fixed}
    if broken or fixed:
        several = len(models) > 1
        return f"{_counted(broken, 'newly broken', several)}, {_counted(fixed, 'newly fixed', several)}"
    if rejudged := sum(model.n_rejudged for model in models):
        return f"{count(rejudged, 'row')} with the same answer {nouns(rejudged, 'was', 'were')} judged differently"
    return f"no row changed sides ({count(answers, 'answer')} changed)" if answers else "nothing changed"


def _counted(found: Mapping[str, int], what: str, several: bool) -> str:
    """Return a number of rows with its models: "8 newly broken (rag-v2)", "12 newly broken (rag-v1 4 and rag-v2 8)"."""
    whose = list(found) if len(found) == 1 else [f"{model} {n:,}" for model, n in found.items()]
    return f"{sum(found.values()):,} {what}{f' ({listing(whose, most=4)})' if several and found else ''}"


def read_changes(connection: DuckDBPyConnection) -> Changes | None:
    """Return what changed since the baseline; ``None`` where nothing was to be compared."""
    found = records(connection, "SELECT baseline_run AS run, * EXCLUDE (baseline_run) FROM baseline")
    if not found:
        return None
    line = found[0]
    baseline = Baseline(**line | {"notes": tuple(line["notes"])})
    ((moved,),) = connection.execute("SELECT EXISTS (FROM row_changes)").fetchall()
    counts = {line.pop("model_id"): line for line in records(connection, sql("changes/counts"))} if moved else {}
    metrics = [MetricChange(**line) for line in records(connection, sql("changes/metrics"))]
    rows = _rows(connection) if moved else {}
    models = tuple(
        ModelChange(
            **line,
            **{"n_broken": 0, "n_fixed": 0, "n_rejudged": 0} | counts.get(line["model_id"], {}),
            metrics=tuple(metric for metric in metrics if metric.model_id == line["model_id"]),
            broken=tuple(rows.get((line["model_id"], True), ())),
            fixed=tuple(rows.get((line["model_id"], False), ())),
        )
        for line in records(connection, sql("changes/models"))
    )
    return Changes(baseline, models)


def _rows(connection: DuckDBPyConnection) -> dict[tuple[int, bool], list[RowChange]]:
    show_turn_means(connection)
    found: dict[tuple[int, bool], list[RowChange]] = {}
    for line in records(connection, sql("changes/rows").format(most=MOST_ROWS)):
        key = line.pop("model_id"), line.pop("broken")
        found.setdefault(key, []).append(RowChange(**line | {"metric_ids": tuple(line["metric_ids"])}))
    return found
