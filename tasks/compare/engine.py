"""The comparison itself: from two references to a judged, published :class:`Comparison`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, UsageError, count, listing
from leadline.tasks.compare.corrected_differences import with_corrected_differences
from leadline.tasks.compare.measure import Draft, measure_models, start_flips
from leadline.tasks.compare.metric_choice import Pairing, across_changes, pair_metrics, without_relative
from leadline.tasks.compare.options import Matched, Options, RunReference, find, match_models
from leadline.tasks.compare.report import publish
from leadline.tasks.compare.results import Answers, Comparison, MetricComparison, Side
from leadline.tasks.compare.run_pair import count_answers, models_of, open_sides
from leadline.tasks.compare.slice_differences import judge_slices, require_slices, slice_notes
from leadline.tasks.compare.verdicts import (
    ChangeAnswer,
    VerdictQuestion,
    effect_in_words,
    importance,
    judge,
    overall,
    sentence,
)
from leadline.tasks.ground.files import digest
from leadline.tasks.statistics.early_stopping import ALWAYS_VALID
from leadline.tasks.statistics.paired import PairedResult, least_cases
from leadline.tasks.stopping.waves import WaveOutcome
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ORDER: Final = ("fail", "incomparable", "inconclusive", "pass", "information", "one_sided", "not_applicable")


def compare(
    store: Store, baseline: RunReference | str, candidate: RunReference | str, options: Options | None = None
) -> Comparison:
    """Compare a candidate with a baseline, and publish the result below ``comparisons/`` in the store.

    Args:
        baseline: A run, or a model of it, as a reference or as users write it (``RUN``, ``RUN:MODEL``, ``latest~1``,
            ``tag:NAME``).
        candidate: The same; ``:MODEL`` is a model of the baseline's run.

    Raises:
        UsageError: There is no such run, model or metric, or both sides are the same.
        StoreError: Another process writes one of the runs just now.
    """
    options = options or Options()
    if not 0 < options.alpha <= 0.5:
        raise UsageError(
            f"The level {options.alpha} makes no sense.",
            hint="Give a number over 0 and up to 0.5.",
            code=ErrorCode.COMPARE_LEVEL,
        )
    ours = find(store, baseline) if isinstance(baseline, str) else baseline
    theirs = find(store, candidate, beside=ours) if isinstance(candidate, str) else candidate
    with open_sides(store, ours.run, theirs.run) as connection:
        comparison = compare_sides(connection, ours, theirs, options)
        comparison = with_corrected_differences(store, comparison)
        return publish(connection, store, comparison, output=options.output)


def compare_sides(
    connection: DuckDBPyConnection, ours: RunReference, theirs: RunReference, options: Options
) -> Comparison:
    """Compare two runs that are open, and leave their flips in the table ``all_flips`` of the connection.

    Args:
        connection: Both runs, from :func:`.run_pair.open_sides`.

    Raises:
        UsageError: There is no such model, metric or column of slices, or no two models match.
    """
    models = {side: models_of(connection, side) for side in ("baseline", "candidate")}
    matched = match_models(
        models["baseline"], models["candidate"], chosen=(ours.model, theirs.model), mapping=options.mapping
    )
    if ours.run.id == theirs.run.id:
        matched = _match_within_run(matched, ours.run)
    ours_by_key, theirs_by_key = (
        {line["model_key"]: int(line["model_id"]) for line in lines} for lines in models.values()
    )
    pairings = across_changes(
        connection,
        pair_metrics(connection, options),
        ours.run,
        theirs.run,
        allowed=options.allow_different_configurations,
    )
    pairings = without_relative(pairings, one_run=ours.run.id == theirs.run.id)
    options.margins.check([pairing.metric for pairing in pairings])
    require_slices(connection, options.slices)
    start_flips(connection)
    drafts: list[Draft] = []
    answers: list[Answers] = []
    for pair in matched.pairs:
        ids = ours_by_key[pair.baseline], theirs_by_key[pair.candidate]
        drafts += measure_models(connection, pair, ids, pairings, options)
        answers.append(count_answers(connection, pair))
    metrics = tuple(_stopped(found, options) for found in _judged(drafts, options.alpha))
    slices = judge_slices(line for draft in drafts for line in draft.slices)
    verdict, reason = overall(metrics)
    return Comparison(
        id=_id(ours.run, theirs.run, matched, options),
        baseline=_side(ours.run),
        candidate=_side(theirs.run),
        verdict=verdict,
        reason=reason,
        alpha=options.alpha,
        tested=sum(found.p_adjusted is not None for found in metrics),
        metrics=metrics,
        answers=tuple(answers),
        slices=slices,
        notes=(
            *_notes(ours.run, theirs.run, matched, pairings, metrics),
            *slice_notes(connection, options.slices, slices),
        ),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _match_within_run(matched: Matched, run: Run) -> Matched:
    """Keep the pairs of two different models: a model of a run equals itself."""
    pairs = tuple(pair for pair in matched.pairs if pair.baseline != pair.candidate)
    if not pairs:
        raise UsageError(
            f"Both sides are run {run.id}.",
            hint="Name two models of it (RUN:MODEL RUN:MODEL), or another run.",
            code=ErrorCode.COMPARE_SIDES,
        )
    return dataclasses.replace(matched, pairs=pairs)


def _id(baseline: Run, candidate: Run, matched: Matched, options: Options) -> str:
    policy = options.policy.digest if options.policy else None
    asked = dataclasses.asdict(dataclasses.replace(options, policy=None))
    asked = {name: value for name, value in asked.items() if name not in ("confidence", "decided")}
    asked |= {"output": None, "mapping": None, "policy": policy}
    pairs = [[pair.baseline, pair.candidate] for pair in matched.pairs]
    return digest({"baseline": baseline.id, "candidate": candidate.id, "models": pairs, "asked": asked})[:16]


def _side(run: Run) -> Side:
    record = run.read()
    keys = ("name", "dataset", "dataset_name", "started")
    return Side(run.id, *(str(record.get(key) or "") for key in keys))


def _judged(drafts: Sequence[Draft], alpha: float) -> tuple[MetricComparison, ...]:
    """Judge all tested metrics together; those that need attention come first, the most important of them first."""
    drafts = [dataclasses.replace(draft, question=_bounded(draft)) for draft in drafts]
    tested = [draft.question for draft in drafts if draft.question is not None and not draft.found.untested]
    answers = iter(judge(tested, alpha))
    out = []
    for draft in drafts:
        found, question = draft.found, draft.question
        if question is None:
            out.append(found)
        elif found.untested:
            out.append(_shown(found, question))
        else:
            out.append(_decided(found, question, next(answers)))
    return tuple(sorted(out, key=lambda found: (_ORDER.index(found.verdict), *importance(found))))


def _bounded(draft: Draft) -> VerdictQuestion | None:
    """Return a draft's question with the least number of cases that could pass it; one that may fail has none."""
    question, margin, metric = draft.question, draft.found.margin, draft.found.metric
    if question is None or margin is None or question.measured.test == "label swap":
        return question
    if (question.measured.effect or 0.0) < -margin:
        return question
    least = least_cases(margin, metric.high - metric.low, binary=metric.share)
    return dataclasses.replace(question, least=least)


def _measured(found: MetricComparison, measured: PairedResult) -> MetricComparison:
    interval = measured.interval
    return dataclasses.replace(
        found,
        effect=measured.effect,
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        ci_method=interval.method if interval else "",
        test=measured.test,
        p=measured.p,
    )


def _stopped(found: MetricComparison, options: Options) -> MetricComparison:
    """Return a metric with the verdict and the interval that hold where judging stopped early."""
    decided = options.decided.get((found.metric.key, found.models.candidate))
    if decided is None or found.effect is None:
        return found
    words = {"pass": "not worse", "fail": "worse"}.get(decided.verdict)
    effect = f"{100 * found.effect:+.3g} points" if found.metric.share else f"{found.effect:+.3g}"
    limit = f"{words} by more than is tolerated, decided" if words else "undecided when judging stopped,"
    return dataclasses.replace(
        found,
        verdict=decided.verdict,
        change="better" if decided.low > 0 else "worse" if decided.high < 0 else "none shown",
        ci_low=decided.low,
        ci_high=decided.high,
        ci_method=ALWAYS_VALID,
        reason=f"{effect} on {count(found.coverage.pairs, 'case')}: {limit} before all cases were judged.",
    )


def _shown(found: MetricComparison, question: VerdictQuestion) -> MetricComparison:
    """Return a metric that is shown and not tested."""
    seen = effect_in_words(question.measured, found.metric.share)
    reason = f"{seen}. Not tested: {found.untested}."
    return dataclasses.replace(_measured(found, question.measured), verdict="information", reason=reason)


def _decided(found: MetricComparison, question: VerdictQuestion, answer: ChangeAnswer) -> MetricComparison:
    return dataclasses.replace(
        _measured(found, question.measured),
        verdict=answer.verdict,
        reason=sentence(question, answer, share=found.metric.share),
        p_adjusted=answer.p_adjusted,
        change=answer.change,
        detectable=answer.detectable,
        rows_needed=max(answer.rows_needed, question.least or 0) if answer.rows_needed else None,
        least_cases=question.least,
    )


def _notes(
    baseline: Run, candidate: Run, matched: Matched, pairings: Sequence[Pairing], metrics: Sequence[MetricComparison]
) -> Iterator[str]:
    """Yield sentences for the reader, beside the numbers."""
    datasets = {run.read().get("dataset") for run in (baseline, candidate)}
    apart = ("changed", "only_baseline", "only_candidate")
    if len(datasets) > 1 and any(getattr(found.coverage, word) for found in metrics for word in apart):
        yield "The two runs' datasets differ in more than their answers: cases are matched by their keys."
    if matched.only_baseline and baseline.id != candidate.id:
        yield f"Not in the candidate: {count(len(matched.only_baseline), 'model')}, {listing(matched.only_baseline)}."
    if matched.only_candidate and baseline.id != candidate.id:
        yield f"Not in the baseline: {count(len(matched.only_candidate), 'model')}, {listing(matched.only_candidate)}."
    for word, text in (
        ("changed", "Not compared, since their question or expectation changed"),
        ("only_baseline", "In the baseline only"),
        ("only_candidate", "In the candidate only"),
    ):
        most = max((getattr(found.coverage, word) for found in metrics), default=0)
        if most:
            yield f"{text}: {count(most, 'case')}."
    for run in dict.fromkeys((baseline.id, candidate.id)):
        stopped = WaveOutcome.of((baseline if run == baseline.id else candidate).read())
        if stopped and stopped.early:
            yield (
                f"Run {run} stopped judging after {stopped.clusters:,} of {stopped.all_clusters:,} cases: judged "
                "metrics are compared on the cases that both runs judged."
            )
    for pairing in pairings:
        yield from pairing.notes
