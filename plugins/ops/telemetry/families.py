"""The metrics that Leadline exports: names, kinds and labels.

Every label has few values: names that people choose are cut to :data:`LONGEST` characters, and where there are more
than :data:`MOST` of them, the others are ``other``. No label and no value comes from a dataset's texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from leadline.evaluators.ground import MASK, masked, one_line

MOST: Final = 30
"""Different values of a label whose values people choose."""

LONGEST: Final = 80
OTHER: Final = "other"

_KEY: Final = re.compile(
    r"\b(?:(?:sk|pk|rk)[-_](?=[\w-]*\d)[\w-]{20,}|(?:(?:gsk|hf)_|AIza|Bearer )[\w-]{20,})|//[^/\s:@]+:[^/\s@]+@",
    re.ASCII,
)
"""What surely is a key, so that ``hf-mistral-7b`` and ``hf-llama-3`` stay two models."""

CHUNK_BUCKETS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Upper bounds of the histogram of chunks' times, in seconds."""


class MetricKind(StrEnum):
    """The kind of a metric, as Prometheus knows it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric.

    Attributes:
        name: Its name as queries have it, with ``_total`` for a counter; a histogram's without ``_bucket``.
    """

    name: str
    kind: MetricKind
    about: str
    labels: tuple[str, ...] = ()


def _gauge(name: str, about: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.GAUGE, about, labels)


def _counter(name: str, about: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.COUNTER, about, labels)


UP: Final = _gauge("leadline_up", "Whether a source of figures could be read: store, ledger, judges, api.", "source")
RUNS: Final = _gauge("leadline_runs", "Runs in the store by state.", "state")
RUNS_ENDED: Final = _counter(
    "leadline_runs_ended_total", "Runs that ended since the exporter started, by state.", "state"
)
GATES: Final = _counter("leadline_gates_total", "Gates of runs that were completed since the exporter started.", "gate")
SCORES: Final = _counter(
    "leadline_scores_total",
    "Row scores of runs that were completed since the exporter started: scored, unscored, not_applicable.",
    "status",
)
RUN_SECONDS: Final = _counter(
    "leadline_run_seconds_total",
    "Time of runs that were completed since the exporter started, by part of the run.",
    "part",
)
CHUNK_SECONDS: Final = MetricFamily(
    "leadline_chunk_seconds",
    MetricKind.HISTOGRAM,
    "Time of chunks of runs that were completed since the exporter started.",
    ("lane",),
)
LAST_COVERAGE: Final = _gauge(
    "leadline_last_run_coverage", "Share of rows scored in the last completed run of a name.", "name"
)
LAST_GATE: Final = _gauge(
    "leadline_last_run_gate",
    "Gate of the last completed run of a name: 1 for pass, 0 for fail, 0.5 for inconclusive.",
    "name",
)
LAST_PROBLEMS: Final = _gauge(
    "leadline_last_run_problems", "Problems of models in the last completed run of a name.", "name", "severity"
)
LAST_SECONDS: Final = _gauge("leadline_last_run_seconds", "Time that the last completed run of a name took.", "name")
LAST_START: Final = _gauge(
    "leadline_last_run_start_timestamp_seconds", "When the last completed run of a name began.", "name"
)
CALLS: Final = _counter(
    "leadline_calls_total", "Calls to judges and models that were answered or failed.", "model", "state"
)
CALL_RETRIES: Final = _counter("leadline_call_retries_total", "Attempts beyond the first of answered calls.", "model")
CALL_SECONDS: Final = _counter("leadline_call_seconds_total", "Time of the attempts that were answered.", "model")
CALL_TOKENS: Final = _counter(
    "leadline_call_tokens_total", "Tokens sent (input) and received (output).", "model", "direction"
)
CALL_COST: Final = _counter("leadline_call_cost_usd_total", "Price of calls, as far as it is known.", "model")
CALLS_UNPRICED: Final = _counter("leadline_calls_unpriced_total", "Answered calls whose price is not known.", "model")
REPLIES_UNREADABLE: Final = _gauge("leadline_replies_unreadable", "Replies in the ledger that hold no verdict.")
CALLS_IN_FLIGHT: Final = _gauge("leadline_calls_in_flight", "Calls that are being made.")
CALLS_LOST: Final = _gauge("leadline_calls_lost", "Calls whose process was gone before the reply came.")
JUDGE_STATE: Final = _gauge(
    "leadline_judge_state",
    "State of an enrolled judge: 1 for the one that it is in, 0 for the others.",
    "judge",
    "state",
)
JUDGE_CHECKED: Final = _gauge(
    "leadline_judge_last_check_timestamp_seconds", "When an enrolled judge was last checked.", "judge"
)
JUDGE_P: Final = _gauge(
    "leadline_judge_last_check_p",
    "Chance of what the last check of an enrolled judge found, had nothing changed.",
    "judge",
)
JUDGE_EPOCH: Final = _gauge("leadline_judge_epoch", "How often a change of an enrolled judge was accepted.", "judge")
TEAM_CALLS: Final = _gauge("leadline_team_calls", "Calls of a team in this month.", "team")
TEAM_USD: Final = _gauge("leadline_team_usd", "US dollars that a team spent or set aside in this month.", "team")
TEAM_CALLS_LIMIT: Final = _gauge("leadline_team_calls_limit", "Calls that a team may make in a month.", "team")
TEAM_USD_LIMIT: Final = _gauge("leadline_team_usd_limit", "US dollars that a team may spend in a month.", "team")
FLOW_RUNS: Final = _gauge("leadline_flow_runs", "Flow runs in a work pool: late, pending, running.", "pool", "state")
WORKERS: Final = _gauge("leadline_workers", "Workers online in a work pool.", "pool")

EXPORTED: Final = (
    UP, RUNS, RUNS_ENDED, GATES, SCORES, RUN_SECONDS, CHUNK_SECONDS, LAST_COVERAGE, LAST_GATE, LAST_PROBLEMS,
    LAST_SECONDS, LAST_START, CALLS, CALL_RETRIES, CALL_SECONDS, CALL_TOKENS, CALL_COST, CALLS_UNPRICED,
    REPLIES_UNREADABLE, CALLS_IN_FLIGHT, CALLS_LOST, JUDGE_STATE, JUDGE_CHECKED, JUDGE_P, JUDGE_EPOCH,
    TEAM_CALLS, TEAM_USD, TEAM_CALLS_LIMIT, TEAM_USD_LIMIT, FLOW_RUNS, WORKERS,
)  # fmt: skip
"""What ``leadline service telemetry`` exports."""

DELIVERIES: Final = _counter(
    "leadline_webhook_deliveries_total",
    "Deliveries by their registry and the status of the answer.",
    "registry",
    "status",
)
QUEUED: Final = _gauge("leadline_webhook_queued", "Deliveries whose event has not reached the server yet.")

OF_THE_WEBHOOK: Final = (DELIVERIES, QUEUED)
"""What the webhook's server exports."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: how many values were at most each of :data:`CHUNK_BUCKETS`, how many there were, and their sum."""

    counts: tuple[int, ...] = (0,) * len(CHUNK_BUCKETS)
    count: int = 0
    total: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Buckets:
        """Return the histogram of values."""
        known = list(values)
        counts = tuple(sum(value <= bound for value in known) for bound in CHUNK_BUCKETS)
        return cls(counts, len(known), sum(known))

    def __add__(self, other: Buckets) -> Buckets:
        """Return the histogram of the values of both."""
        counts = tuple(one + two for one, two in zip(self.counts, other.counts, strict=True))
        return Buckets(counts, self.count + other.count, self.total + other.total)


@dataclass(slots=True)
class Figures:
    """Values of metrics by their labels."""

    values: dict[MetricFamily, dict[tuple[str, ...], float | Buckets]] = field(default_factory=dict)

    def put(self, metric: MetricFamily, value: float | Buckets, *labels: str) -> None:
        """Note a value.

        Args:
            *labels: Values of its labels.
        """
        self.values.setdefault(metric, {})[labels] = value

    def update(self, other: Figures) -> None:
        """Take over the values of others."""
        for metric, values in other.values.items():
            self.values.setdefault(metric, {}).update(values)


def label(name: object) -> str:
    """Return a name that people chose as a label's value: one short line that holds no secret."""
    return _KEY.sub(MASK, masked(one_line(str(name))))[:LONGEST]


def few(names: Sequence[str]) -> Mapping[str, str]:
    """Return the label of each name, the most important first; beyond :data:`MOST` it is :data:`OTHER`."""
    kept = list(dict.fromkeys(label(name) for name in names))[:MOST]
    return {name: label(name) if label(name) in kept else OTHER for name in names}
