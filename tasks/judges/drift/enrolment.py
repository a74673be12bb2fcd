"""Enrolments: the rows that a judge is asked about time and again, and what it said of them at first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.core import Evaluator, Metric, get
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.judges.drift.epochs import judge_files, keep
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    import numpy.typing as npt

ENROLLED_REPLIES: Final = 4
"""Replies to each probe at enrolment, and where a check is suspicious. More probes tell more than more replies."""

_ALWAYS: Final = ("case", "model")
_TUPLES: Final = ("expected_answers", "categories", "expected_documents")


@dataclass(frozen=True, slots=True)
class ProbedMetric:
    """A metric of an evaluator, for which a judge is probed.

    Attributes:
        evaluator: Id of the evaluator.
        params: Its parameters.
        metric: Key of the metric.
        threshold: From where a value passes.
        higher_is_better: Its direction.
        low: Least value of its range.
        high: Greatest value of its range.
        is_share: Whether values are 0 or 1.
    """

    evaluator: str
    params: Mapping[str, Any]
    metric: str
    threshold: float | None
    higher_is_better: bool
    low: float
    high: float
    is_share: bool

    def build(self) -> Evaluator:
        """Return the evaluator."""
        kind = get(self.evaluator)
        return kind(kind.parameters.build(self.evaluator, dict(self.params)))

    @property
    def limit(self) -> float:
        """The threshold, or else the middle of the range."""
        if self.threshold is not None:
            return self.threshold
        return (self.low + self.high) / 2 if abs(self.high - self.low) < float("inf") else 0.5

    def passes(self, value: float | None) -> bool:
        """Say if a value is on the good side of the limit; a reply without one never is."""
        if value is None:
            return False
        return value >= self.limit if self.higher_is_better else value <= self.limit

    def placed(self, value: float | None) -> float:
        """Return where a value lies between the ends of its range, 0 to 1; the worst end for a reply without one."""
        if value is None:
            return 0.0 if self.higher_is_better else 1.0
        width = self.high - self.low
        return (value - self.low) / width if abs(width) < float("inf") else value


@dataclass(frozen=True, slots=True)
class Probe:
    """A row that a judge is asked about.

    Attributes:
        metric: Place of its metric in the enrolment.
        row: The row, with the fields that the evaluator reads.
    """

    metric: int
    row: Row


@dataclass(frozen=True, slots=True)
class Replies:
    """Replies of a judge to probes on one occasion.

    Attributes:
        values: Values, probes by replies; ``None`` for a reply that could not be read.
        tokens: Tokens of the replies, probes by replies; 0 where the provider does not say.
        served_models: Models that the provider said have answered.
        fingerprints: Fingerprints of the systems that answered.
    """

    values: tuple[tuple[float | None, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    served_models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Replies:
        """Return replies as ``dataclasses.asdict`` and JSON keep them."""
        return cls(
            values=tuple(tuple(line) for line in record["values"]),
            tokens=tuple(tuple(line) for line in record["tokens"]),
            served_models=tuple(record["served_models"]),
            fingerprints=tuple(record["fingerprints"]),
        )


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A judge as it was enrolled.

    Attributes:
        name: The judge's name.
        model: The judge's model.
        epoch: The judge's epoch.
        number: Which enrolment of the epoch.
        at: When, as an ISO time in UTC.
        metrics: The metrics that it is probed for.
        configs: What each of them asked with: digests of prompts, code and parameters, whatever the epoch.
        replies: What it replied to them.
    """

    name: str
    model: str
    epoch: int
    number: int
    at: str
    metrics: tuple[ProbedMetric, ...]
    configs: tuple[str, ...]
    probes: tuple[Probe, ...]
    replies: Replies

    def verdicts(self, replies: Replies) -> npt.NDArray[np.int64]:
        """Return replies as verdicts of 0 and 1, probes by replies."""
        lines = zip(self.probes, replies.values, strict=True)
        return np.array([[int(self.metrics[probe.metric].passes(value)) for value in line] for probe, line in lines])

    def numbers(self, replies: Replies) -> npt.NDArray[np.float64] | None:
        """Return the values of probes for metrics that are no verdicts, placed in their ranges; ``None`` if none."""
        lines = [
            [self.metrics[probe.metric].placed(value) for value in line]
            for probe, line in zip(self.probes, replies.values, strict=True)
            if not self.metrics[probe.metric].is_share
        ]
        return np.array(lines, float) if lines else None


def metric_of(evaluator: Evaluator) -> ProbedMetric | None:
    """Return the metric for which a judge is probed with an evaluator: its primary one, unless rows have none of it."""
    found: Metric | None = next((m for m in evaluator.metrics if m.primary and not m.dataset_level), None)
    if found is None:
        return None
    return ProbedMetric(
        evaluator=evaluator.spec.id,
        params=evaluator.params.model_dump(mode="json"),
        metric=found.key,
        threshold=found.threshold,
        higher_is_better=found.higher_is_better,
        low=found.range[0],
        high=found.range[1],
        is_share=found.share,
    )


def save_enrolment(store: Store, key: str, enrolment: Enrolment) -> None:
    """Write an enrolment.

    Args:
        key: The judge.
    """
    record = asdict(enrolment) | {
        "metrics": [asdict(metric) | _bounds(metric) for metric in enrolment.metrics],
        "probes": [{"metric": probe.metric, "row": _row_record(probe.row)} for probe in enrolment.probes],
    }
    keep(store, key, "enrolments", f"{enrolment.epoch:04d}-{enrolment.number:04d}", record)


def find_enrolment(store: Store, key: str, epoch: int) -> Enrolment | None:
    """Return the youngest enrolment of a judge in an epoch.

    Args:
        key: The judge.

    Raises:
        StoreError: Its file is damaged.
    """
    found = [(name, record) for name, record in judge_files(store, key, "enrolments") if record.get("epoch") == epoch]
    if not found:
        return None
    name, record = found[-1]
    try:
        return _read(record)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"The enrolment {name} of a judge cannot be read: {type(error).__name__} {error}.",
            hint="Enrol the judge anew: leadline judges enrol JUDGE --probes FILE",
            code=ErrorCode.STORE_FAILED,
        ) from error


def _bounds(metric: ProbedMetric) -> dict[str, str | float]:
    """Return the ends of a range as JSON can hold them."""
    return {name: value if abs(value := getattr(metric, name)) < float("inf") else str(value) for name in _ENDS}


_ENDS: Final = ("low", "high")


def _row_record(row: Row) -> dict[str, Any]:
    empty = Row(row.case, row.model)
    named = {field.name: getattr(row, field.name) for field in fields(Row)}
    return {name: value for name, value in named.items() if name in _ALWAYS or value != getattr(empty, name)}


def _read(record: dict[str, Any]) -> Enrolment:
    metrics = tuple(
        ProbedMetric(**metric | {name: float(metric[name]) for name in _ENDS}) for metric in record["metrics"]
    )
    probes = tuple(Probe(probe["metric"], _read_row(probe["row"])) for probe in record["probes"])
    replies = Replies.from_json(record["replies"])
    read = {"metrics": metrics, "configs": tuple(record["configs"]), "probes": probes, "replies": replies}
    return Enrolment(**record | read)


def _read_row(record: dict[str, Any]) -> Row:
    lists: dict[str, Any] = {name: tuple(record[name]) for name in _TUPLES if name in record}
    if "retrieved_context" in record:
        lists["retrieved_context"] = tuple(ContextChunk(*chunk) for chunk in record["retrieved_context"])
    return Row(**record | lists)
