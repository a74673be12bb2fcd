"""The server of ``leadline service telemetry``: ``GET /metrics`` in Prometheus' format, ``GET /health``.

Figures are read at most every few seconds, however many ask. A source that cannot be read lacks its figures and has
``leadline_up`` 0; the others are exported.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.evaluators.judge_client.budget import team_budgets
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.families import CHUNK_BUCKETS, Buckets, Figures, MetricFamily, MetricKind
from leadline.plugins.ops.telemetry.figures import StoreFigures, api_figures, judge_figures, ledger_figures
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

PORT: Final = 8485

REST: Final = 10
"""How many times as long as a reading takes it is at least until the next, so that a large ledger costs little."""

_log = logging.getLogger("leadline.telemetry")


class MetricsExporter:
    """Reads figures when they are asked for and those known are too old.

    Args:
        api: URL of Prefect's API; ``None`` leaves its figures out.
        config: The file with the teams' budgets; by default ``leadline.toml`` here, if there is one.
        every: Seconds between two readings at least; 0 reads each time.
    """

    def __init__(self, store: Store, api: str | None, config: Path | None = None, every: float = 15.0) -> None:
        self._store, self._api, self._config, self._every = store, api, config, every
        self._runs = StoreFigures(store)
        self._lock = threading.Lock()
        self._figures, self._next = Figures(), 0.0
        self._said: set[str] = set()

    def figures(self) -> Figures:
        """Return the figures, those known if they are young enough."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next:
                self._figures = self._read()
                rest = max(self._every, REST * (time.monotonic() - began)) if self._every else 0.0
                self._next = began + rest
            return self._figures

    def text(self) -> bytes:
        """Return the figures in Prometheus' text format."""
        return text_of(m.EXPORTED, self.figures())

    def _read(self) -> Figures:
        figures = Figures()
        sources: dict[str, Callable[[], Figures]] = {
            "store": self._runs.read,
            "ledger": lambda: ledger_figures(read_ledger(self._store), team_budgets(self._config)),
            "judges": lambda: judge_figures(self._store),
        }
        if self._api is not None:
            sources["api"] = self._read_api
        for source, read in sources.items():
            try:
                figures.update(read())
                up = 1
                self._said.discard(source)
            except Exception as error:  # whatever is wrong with one source, the others are exported
                up = 0
                if source not in self._said:
                    self._said.add(source)
                    reason = str(error) if isinstance(error, LeadlineError) else type(error).__name__
                    _log.warning("%s cannot be read: %s", source, reason)
            figures.put(m.UP, up, source)
        return figures

    def _read_api(self) -> Figures:
        return api_figures(self._api or "")


def text_of(metrics: Sequence[MetricFamily], figures: Figures) -> bytes:
    """Return metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    class MetricValues:
        def collect(self) -> Iterator[Family]:
            for metric in metrics:
                yield _family(metric, figures.values.get(metric, {}))

    registry = CollectorRegistry()
    registry.register(MetricValues())
    return generate_latest(registry)


def _family(metric: MetricFamily, values: Mapping[tuple[str, ...], float | Buckets]) -> Family:
    """Return a metric with its values as Prometheus' library has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.about, labels=metric.labels)
        for labels, value in values.items():
            if isinstance(value, Buckets):
                bounds = zip((*map(str, CHUNK_BUCKETS), "+Inf"), (*value.counts, value.count), strict=True)
                histogram.add_metric(labels, buckets=list(bounds), sum_value=value.total)
        return histogram
    kind: Any = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    simple: Family = kind(metric.name, metric.about, labels=metric.labels)
    for labels, value in values.items():
        simple.add_metric(labels, value)  # type: ignore[attr-defined]  # both kinds have it
    return simple


def metrics_route(text: Callable[[], bytes]) -> Any:
    """Return the route ``/metrics`` of an application.

    Args:
        text: Returns the metrics in Prometheus' text format; it may take a while.
    """

    async def answer(request: Request) -> Response:
        del request
        return Response(await asyncio.to_thread(text), media_type="text/plain; version=0.0.4; charset=utf-8")

    return Route("/metrics", answer)


def app_of(exporter: MetricsExporter) -> Starlette:
    """Return the application."""

    async def health(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"ok": True})

    return Starlette(routes=[metrics_route(exporter.text), Route("/health", health)])


def require_client() -> None:
    """Refuse to export metrics where Prometheus' library is not installed.

    Raises:
        UsageError: It is not.
    """
    try:
        import prometheus_client  # noqa: F401 - whether it is there
    except ImportError as error:
        raise UsageError(
            "Metrics need prometheus-client.",
            hint="Install it: pip install -c constraints.txt -e '.[service]'",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from error
