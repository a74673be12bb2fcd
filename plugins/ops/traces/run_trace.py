"""The export of a run's spans, scores and numbers by OTLP over HTTP, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says so.

OpenTelemetry's exporter reads its own variables: endpoint, headers, certificates, the service's name. An export never
fails a run and never holds it up for more than :data:`DEADLINE_S`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.ground.timeline import Timeline
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from leadline.plugins.ops.traces.signals import Sender, Value

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
CALLS_VARIABLE: Final = "LEADLINE_TRACE_CALLS"
"""With ``1`` each judge call is a span of its own."""

DEADLINE_S: Final = 10.0
MOST_CALLS: Final = 2_000

_log = logging.getLogger("leadline.traces")


def trace_of(store: Store, run: Run, timeline: Timeline, error: BaseException | None) -> Mapping[str, str]:
    """Send the trace of a run that has ended, and return its id for the run's record; ``{}`` where none is wanted."""
    trace = export_run(store, run, timeline, error)
    return {"trace": trace} if trace else {}


def export_run(store: Store, run: Run, timeline: Timeline, error: BaseException | None = None) -> str:
    """Export what there is to tell of a run that has ended, if that is wanted.

    Args:
        error: What it failed with; its scores are not exported then.

    Returns:
        The id of its trace, ``""`` without one.
    """
    wanted = [signal for signal in ("TRACES", "METRICS", "LOGS") if _wanted(signal)]
    if not wanted:
        return ""
    try:
        from leadline.plugins.ops.traces.signals import SENDERS, spans_of, tree_of

        tree = tree_of(timeline.spans, timeline.lane_spans, *_told(store, run, error))
        spans = list(spans_of(tree, error))
        senders = {signal: SENDERS[signal] for signal in (wanted if error is None else wanted[:1])}
        thread = threading.Thread(target=_send, args=(store, run, spans, senders), name="leadline-traces", daemon=True)
        thread.start()
        thread.join(DEADLINE_S)
        if thread.is_alive():
            _log.warning("The trace of run %s did not reach its receiver in %g s.", run.id, DEADLINE_S)
        return f"{spans[0].context.trace_id:032x}" if "TRACES" in wanted else ""
    except ImportError:
        _log.warning("Traces need the extra otel: pip install -c constraints.txt -e '.[otel]'")
    except Exception as failure:  # whatever it is, the run has ended well
        _log.warning("The trace of run %s cannot be exported: %s", run.id, type(failure).__name__)
    return ""


def _wanted(signal: str) -> bool:
    """Return whether the environment names a receiver of traces, metrics or logs, and does not turn them off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "").lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(ENDPOINT))


def _told(
    store: Store, run: Run, error: BaseException | None
) -> tuple[dict[str, Value], list[dict[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return what is known of a run, the sums over its judge calls by evaluator, and the calls that become spans."""
    record = run.read()
    known: dict[str, Value] = {"leadline.run": run.id, "leadline.status": "failed" if error else "completed"}
    for name in ("gate", "rows", "cases", "reused", "computed"):
        if isinstance(record.get(name), str | int):
            known[f"leadline.{name}"] = record[name]
    known |= {f"leadline.{name}": count for name, count in (record.get("counts") or {}).items()}
    ledger = read_ledger(store)
    summed = ("evaluator", "asked", "answered", "failed", "lost", "input_tokens", "output_tokens", "cost_usd")
    lines = (record.get("judge_calls") or {}).get("by_evaluator", ())
    asked = [{name: line[name] for name in summed if name in line} for line in lines]
    calls = ledger.call_times(run.id, MOST_CALLS) if os.environ.get(CALLS_VARIABLE) == "1" else ()
    return known, asked, calls


def _send(store: Store, run: Run, spans: Sequence[Any], senders: Mapping[str, Sender]) -> None:
    """Send spans, then numbers, then scores; a receiver that takes one of them need not take the others."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would show what servers say as they say it
    for signal, send in senders.items():
        try:
            taken = send(store, run, spans, DEADLINE_S)
        except Exception as failure:
            _log.warning("The %s of run %s cannot be exported: %s", signal.lower(), run.id, type(failure).__name__)
            taken = False
        else:
            if not taken:
                _log.warning("The receiver of %s does not take them, or does not answer.", signal.lower())
        if not taken and signal == "TRACES":
            return  # nor will it take the others
