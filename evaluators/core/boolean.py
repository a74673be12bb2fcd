"""The values of one row of a pass/fail evaluator (see :func:`leadline.evaluators.core.metric.boolean_metrics`)."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.core.metric import Metric
from leadline.evaluators.data.row import Evidence, Flag, Reason, RowScore, Severity, Unscored


def verdict(
    metrics: Sequence[Metric],
    *,
    generation: bool | None,
    retrieval: bool | None = False,
    parsing: bool = False,
    unknown: str = "",
    why: Reason = Reason.UNSCORABLE,
) -> dict[str, float | Unscored]:
    """Return a row's 0/1 values by metric key.

    A row fails if its answer fails, its context fails, or both. What is not known is unscored: a row whose answer
    could not be read neither passes nor fails, unless its context fails it.

    Args:
        metrics: The four or five metrics that ``boolean_metrics`` returned.
        generation: Whether the answer fails; ``None`` when that is not known.
        retrieval: Whether the retrieved context fails; ``None`` when that is not known.
        parsing: Whether something could not be parsed.
        unknown: Why something is not known.
        why: What kind of reason that is.
    """
    if generation or retrieval:
        failed: bool | None = True
    else:
        failed = None if generation is None or retrieval is None else False
    passed = None if failed is None else not failed
    reason = Unscored(why, unknown)
    return {
        metric.key: reason if value is None else float(value)
        for metric, value in zip(metrics, (passed, failed, retrieval, generation, parsing), strict=False)
    }


def unparseable(
    metrics: Sequence[Metric],
    message: str,
    *,
    why: Reason = Reason.UNSCORABLE,
    severity: Severity = Severity.MEDIUM,
) -> RowScore:
    """Return a row of which nothing could be checked: a parsing failure that neither passes nor fails.

    Args:
        metrics: The five metrics that ``boolean_metrics`` returned.
        message: What could not be parsed; also reported as a problem.
        why: What kind of failure it is.
        severity: How bad a problem it is.
    """
    return RowScore(
        verdict(metrics, generation=None, retrieval=None, parsing=True, unknown=message, why=why),
        Evidence(message),
        (Flag("evaluation", severity, message),),
    )
