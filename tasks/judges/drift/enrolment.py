"""Enrolments: the rows that a judge is asked about time and again, what it said of them at first, and the asking.

What was asked on an occasion before is read from the ledger.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.core import EvalContext, Evaluator, Metric, find, get
from leadline.evaluators.data import ContextChunk, Reason, Row, Unscored
from leadline.evaluators.ground import ErrorCode, LeadlineError, StoreError, UsageError, count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, JuryConfig, Settings
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.drift.epochs import begin_epoch, epoch_of, judge_files, judge_key, keep
from leadline.tasks.judges.labels.judged_rows import HALF, RowMetric, row_metric
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.score.chunk import scoring_context
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import StoredScore, calls_of
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


ENROLLED_REPLIES: Final = 4
"""Replies to each probe at enrolment, and where a check is suspicious. More probes tell more than more replies."""

_ALWAYS: Final = ("case", "model")
_ENDS: Final = ("low", "high")
_TUPLES: Final = ("expected_answers", "categories", "expected_documents")


@dataclass(frozen=True, slots=True)
class ProbedMetric(RowMetric):
    """A metric of an evaluator with parameters, for which a judge is probed."""

    params: Mapping[str, Any]

    def build(self) -> Evaluator:
        """Return the evaluator."""
        kind = get(self.evaluator)
        return kind(kind.parameters.build(self.evaluator, dict(self.params)))

    @property
    def limit(self) -> float:
        """The threshold, or else the middle of the range."""
        if self.threshold is not None:
            return self.threshold
        return (self.low + self.high) / 2 if math.isfinite(self.high - self.low) else HALF

    def placed(self, values: Floats) -> Floats:
        """Return where values lie between the ends of the range, 0 to 1; not a number lies at the worst end."""
        width = self.high - self.low
        places = (values - self.low) / width if math.isfinite(width) else values
        return np.where(np.isnan(values), 0.0 if self.higher_is_better else 1.0, places)


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
        at: When, as an ISO time in UTC.
        configs: What each of them asked with: digests of prompts, code and parameters, whatever the epoch.
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

    def verdicts(self, replies: Replies) -> Ints:
        """Return replies as verdicts of 0 and 1, probes by replies; one that could not be read never passes."""
        return np.array([metric.passes(values) for metric, values in self._lines(replies)], np.int64)

    def numbers(self, replies: Replies) -> Floats | None:
        """Return the values of probes for metrics that are no verdicts, placed in their ranges; ``None`` if none."""
        lines = [metric.placed(values) for metric, values in self._lines(replies) if not metric.is_share]
        return np.array(lines, float) if lines else None

    def _lines(self, replies: Replies) -> Iterator[tuple[ProbedMetric, Floats]]:
        """Yield each probe's metric with its values; those that could not be read are not a number."""
        for probe, values in zip(self.probes, replies.values, strict=True):
            yield self.metrics[probe.metric], np.array(values, float)


def metric_of(evaluator: Evaluator) -> ProbedMetric | None:
    """Return the metric for which a judge is probed with an evaluator: its primary one, unless rows have none of it."""
    found: Metric | None = next((m for m in evaluator.metrics if m.primary and not m.dataset_level), None)
    if found is None:
        return None
    return ProbedMetric(**row_metric(evaluator, found), params=evaluator.params.model_dump(mode="json"))


def save_enrolment(store: Store, key: str, enrolment: Enrolment) -> None:
    """Write an enrolment."""
    record = asdict(enrolment) | {
        "metrics": [asdict(metric) | _bounds(metric) for metric in enrolment.metrics],
        "probes": [{"metric": probe.metric, "row": _row_record(probe.row)} for probe in enrolment.probes],
    }
    keep(store, key, "enrolments", f"{enrolment.epoch:04d}-{enrolment.number:04d}", record)


def find_enrolment(store: Store, key: str, epoch: int) -> Enrolment | None:
    """Return the youngest enrolment of a judge in an epoch.

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


_FAILS: Final = (Reason.JUDGE_UNPARSEABLE, Reason.JUDGE_TRUNCATED, Reason.JUDGE_REFUSED)
"""Reasons for which a reply counts as a fail: the judge was there, and its reply holds no verdict."""


class NotChecked(LeadlineError):
    """A judge could not be asked, which says nothing about whether it has changed."""

    code = ErrorCode.DRIFT_NOT_CHECKED


def ask_probes(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    metrics: Sequence[ProbedMetric],
    probes: Sequence[Probe],
    *,
    occasion: str,
    replies: int,
    limits: Limits | None = None,
) -> Replies:
    """Return a judge's replies to probes.

    Args:
        store: The store, with the ledger that has what was asked on this occasion before.
        occasion: Equal occasions get the same replies, another one fresh ones.

    Raises:
        NotChecked: The judge does not answer, refuses at least half of the probes, or may not be asked.
    """
    run = f"{occasion}/epoch {judge.epoch}/{judge_key(judge)[:12]}"
    ctx = scoring_context(store, replace(settings, judges=(judge,)), run, limits).with_cache_salt(occasion)
    numbers = {place: [n for n, probe in enumerate(probes) if probe.metric == place] for place in range(len(metrics))}
    work = [(place, trial) for place, mine in numbers.items() if mine for trial in range(replies)]
    evaluators = {place: _asking(metrics[place], judge) for place, _ in work}
    asks = [Ask(evaluators[place], [probes[n].row for n in numbers[place]], trial) for place, trial in work]
    scores: list[list[StoredScore]] = [[] for _ in probes]
    for (place, _), scored in zip(work, score_together(asks, ctx), strict=True):
        for number, score in zip(numbers[place], scored.scores, strict=True):
            scores[number].append(score)
    keys = [metrics[probe.metric].metric for probe in probes]
    _check_answered(judge, scores, keys)
    told = read_ledger(store).told(run)
    return Replies(
        values=tuple(tuple(_value(score, key) for score in line) for line, key in zip(scores, keys, strict=True)),
        tokens=tuple(tuple(_tokens(score, told) for score in line) for line in scores),
        served_models=_named(told, "served_model"),
        fingerprints=_named(told, "fingerprint"),
    )


def configs_of(metrics: Sequence[ProbedMetric], judge: JudgeConfig) -> tuple[str, ...]:
    """Return digests of all that the replies for metrics depend on but the probes and the judge's epoch.

    Raises:
        NotChecked: An evaluator is not known here.
    """
    ctx = EvalContext(Settings(judges=(judge.model_copy(update={"epoch": 0, "guidance": ()}),)))
    return tuple(digest(dict(_asking(metric, judge).identity(ctx))) for metric in metrics)


def _asking(metric: ProbedMetric, judge: JudgeConfig) -> Evaluator:
    """Return the evaluator, which asks this judge whatever judge its parameters name."""
    if find(metric.evaluator) is None:
        raise NotChecked(
            f"The judge {judge.key!r} was not checked: it is enrolled with the evaluator {metric.evaluator!r}, which "
            "is not known here.",
            hint="Say where yours are: --evaluators-dir DIR or --evaluators FILE",
        )
    params = dict(metric.params)
    if params.get("custom_eval_judge_config_key"):
        params["custom_eval_judge_config_key"] = judge.key
    return replace(metric, params=params).build()


def _check_answered(judge: JudgeConfig, scores: Sequence[Sequence[StoredScore]], keys: Sequence[str]) -> None:
    """Refuse replies that say nothing of the judge."""
    missing = [
        value
        for line, key in zip(scores, keys, strict=True)
        for score in line
        if isinstance(value := score.values[key], Unscored)
    ]
    refused = [value for value in missing if value.reason is Reason.JUDGE_REFUSED]
    unasked = [value for value in missing if value.reason not in _FAILS]
    asked = sum(map(len, scores))
    if 2 * len(refused) >= asked:
        unasked += refused
    if unasked:
        why, _ = Counter(value.message or value.reason for value in unasked).most_common(1)[0]
        raise NotChecked(
            f"The judge {judge.key!r} was not checked: {len(unasked):,} of {count(asked, 'question')} got no reply. "
            f"{why}",
            hint="Once it answers, run the command again: replies that came are not paid for again.",
        )


def _value(score: StoredScore, key: str) -> float | None:
    value = score.values[key]
    return value if isinstance(value, float) else None


def _tokens(score: StoredScore, told: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(int(told[call]["output_tokens"] or 0) for call in calls_of(score.evidence) if call in told)


def _named(told: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(sorted({line[name] for line in told.values() if line[name]}))


def enrol(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    metrics: Sequence[ProbedMetric],
    probes: Sequence[Probe],
    *,
    limits: Limits | None = None,
) -> Enrolment:
    """Ask a judge about probes as often as a check needs, and keep what it says.

    What it is compared with later is its youngest enrolment.

    Raises:
        UsageError: It is a jury, or it runs here, so that it cannot change by itself.
        NotChecked: It does not answer.
    """
    if isinstance(judge, JuryConfig):
        raise UsageError(
            f"{judge.key!r} is a jury: each of its judges is enrolled by itself.",
            hint=f"Its judges: {', '.join(member.key for member in judge.members)}.",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    if judge.kind == "local":
        raise UsageError(
            f"The judge {judge.key!r} runs on this machine: its weights are part of every score's key.",
            hint="Only judges on a server need to be enrolled.",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    return _enrol(store, judge, settings, metrics, probes, epoch_of(store, judge_key(judge)), limits)


def accept(store: Store, judge: JudgeConfig, settings: Settings, *, limits: Limits | None = None) -> Enrolment:
    """Begin the next epoch of a judge, and enrol it as it is now with the same probes.

    Scores of the epochs before stay, and none of them is taken for one of the new epoch.

    Raises:
        UsageError: It is not enrolled.
        NotChecked: It does not answer; the epoch is what it was.
    """
    key = judge_key(judge)
    epoch = epoch_of(store, key) + 1
    known = find_enrolment(store, key, epoch - 1)
    if known is None:
        raise UsageError(
            f"The judge {judge.key!r} is not enrolled as it is configured now, so there is no change to accept.",
            hint=f"Enrol it: leadline judges enrol {judge.key} --probes FILE",
            code=ErrorCode.DRIFT_ENROLMENT,
        )
    # The epoch begins when its enrolment is there: killed before that, nothing has changed and no reply is lost.
    enrolment = find_enrolment(store, key, epoch)
    if enrolment is None:
        enrolment = _enrol(store, judge, settings, known.metrics, known.probes, epoch, limits)
    begin_epoch(store, key, epoch, datetime.now(UTC))
    return enrolment


def _enrol(
    store: Store,
    judge: JudgeConfig,
    settings: Settings,
    metrics: Sequence[ProbedMetric],
    probes: Sequence[Probe],
    epoch: int,
    limits: Limits | None,
) -> Enrolment:
    key = judge_key(judge)
    number = sum(name.startswith(f"{epoch:04d}-") for name, _ in judge_files(store, key, "enrolments")) + 1
    in_epoch = judge.model_copy(update={"epoch": epoch})
    configs = configs_of(metrics, judge)
    replies = ask_probes(
        store, in_epoch, settings, metrics, probes, occasion=f"enrol/{number}", replies=ENROLLED_REPLIES, limits=limits
    )
    enrolment = Enrolment(
        name=judge.key,
        model=judge.model,
        epoch=epoch,
        number=number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        metrics=tuple(metrics),
        configs=configs,
        probes=tuple(probes),
        replies=replies,
    )
    save_enrolment(store, key, enrolment)
    return enrolment
