"""Asking a judge about its probes; what was asked on an occasion before is read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Evaluator, find
from leadline.evaluators.data import Reason, Unscored
from leadline.evaluators.ground import ErrorCode, LeadlineError, count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.drift.enrolment import Probe, ProbedMetric, Replies
from leadline.tasks.judges.drift.epochs import judge_key
from leadline.tasks.ledger.location import read_ledger
from leadline.tasks.score.chunk import scoring_context
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import StoredScore, calls_of
from leadline.tasks.store.store import Store

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
        judge: The judge, in its epoch.
        settings: Where the user's own evaluators are.
        metrics: The metrics of the probes.
        occasion: Equal occasions get the same replies, another one fresh ones.
        replies: Replies to each probe.
        limits: What calls count against.

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
    ctx = EvalContext(Settings(judges=(judge.model_copy(update={"epoch": 0}),)))
    return tuple(digest(dict(_asking(metric, judge).identity(ctx))) for metric in metrics)


def _asking(metric: ProbedMetric, judge: JudgeConfig) -> Evaluator:
    """Return the evaluator, which asks this judge whatever judge its parameters name.

    Raises:
        NotChecked: It is not known here.
    """
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
    """Refuse replies that say nothing of the judge.

    Raises:
        NotChecked: See :func:`ask_probes`.
    """
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
