"""The checks of a run's rows: for each answer, the metrics that must or should hold, and whether each does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records, show_row_scores
from leadline.tasks.store.store import Run, Store


@dataclass(frozen=True, slots=True)
class RowCheck:
    """One metric of one answer, held against its threshold.

    Attributes:
        case: Key of the case.
        model: Key of the model.
        question: The case's question, ``None`` where it has none.
        evaluator: Id of the evaluator.
        metric: Key of the metric.
        name: What people call it.
        role: ``must`` or ``should``.
        share: Whether the value is 0 or 1.
        higher_is_better: Direction of the metric.
        threshold: Value that separates good from bad; it is good itself.
        status: ``scored`` or ``unscored``.
        reason: Why it is unscored.
        value: The value, the mean of the trials; ``None`` where it is unscored.
        rejudged: Whether it passed in the baseline with the same answer, so that the instrument changed its mind.
    """

    case: str
    model: str
    question: str | None
    evaluator: str
    metric: str
    name: str
    role: str
    share: bool
    higher_is_better: bool
    threshold: float
    status: str
    reason: str | None
    value: float | None
    rejudged: bool

    @property
    def key(self) -> str:
        """The metric among all: ``evaluator.metric``."""
        return f"{self.evaluator}.{self.metric}"

    def passes(self, value: float) -> bool:
        """Return whether a value satisfies the threshold."""
        return value >= self.threshold if self.higher_is_better else value <= self.threshold

    @property
    def failed(self) -> bool:
        """True if it was measured and misses its threshold."""
        return self.value is not None and not self.passes(self.value)


def row_checks(store: Store, run: Run) -> Mapping[tuple[str, str], tuple[RowCheck, ...]]:
    """Return the checks of each answer of a completed run, by the keys of its case and its model.

    What a row lacks the inputs for is no check of it, nor is a metric without a threshold, of the whole dataset, or
    one that is information by the run's policy.

    Raises:
        UsageError: The run has no results, or another version made it.
    """
    with open_run(store, run, read_only=True) as connection:
        show_row_scores(connection)
        answers = connection.execute(sql("checks/answers")).fetchall()
        checks = [RowCheck(**line) for line in records(connection, sql("checks/rows"))]
    found: defaultdict[tuple[str, str], list[RowCheck]] = defaultdict(list)
    for check in checks:
        found[check.case, check.model].append(check)
    return {(case, model): tuple(found[case, model]) for case, model in answers}
