"""The comparison itself: from two references to a judged, published :class:`Comparison`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.text import count, listing
from leadline.tasks.compare.measure import Draft, measure_models
from leadline.tasks.compare.metric_choice import Pairing, pair_metrics
from leadline.tasks.compare.options import Options
from leadline.tasks.compare.report import publish
from leadline.tasks.compare.results import Comparison, MetricComparison, Side
from leadline.tasks.compare.run_flips import start_flips
from leadline.tasks.compare.run_pair import models_of, open_sides
from leadline.tasks.compare.sides import Matched, Reference, find, match_models
from leadline.tasks.compare.verdicts import judge, overall, sentence
from leadline.tasks.store.files import digest
from leadline.tasks.store.store import Run, Store

_ORDER: Final = ("fail", "incomparable", "inconclusive", "pass", "one_sided", "not_applicable")


def compare(
    store: Store, baseline: Reference | str, candidate: Reference | str, options: Options | None = None
) -> Comparison:
    """Compare a candidate with a baseline, and publish the result below ``comparisons/`` in the store.

    Args:
        store: The store that contains both runs.
        baseline: A run, or a model of it, as a reference or as users write it (``RUN``, ``RUN:MODEL``, ``latest~1``,
            ``tag:NAME``).
        candidate: The same; ``:MODEL`` is a model of the baseline's run.
        options: Margins, metrics and the like.

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
        models = {side: models_of(connection, side) for side in ("baseline", "candidate")}
        matched = match_models(
            models["baseline"], models["candidate"], chosen=(ours.model, theirs.model), mapping=options.mapping
        )
        if ours.run.id == theirs.run.id:
            matched = _match_within_run(matched, ours.run)
        ours_by_key, theirs_by_key = (
            {line["model_key"]: int(line["model_id"]) for line in lines} for lines in models.values()
        )
        pairings = pair_metrics(connection, options)
        options.margins.check([pairing.metric for pairing in pairings])
        start_flips(connection)
        drafts: list[Draft] = []
        for pair in matched.pairs:
            ids = ours_by_key[pair.baseline], theirs_by_key[pair.candidate]
            drafts += measure_models(connection, pair, ids, pairings, options)
        metrics = _judged(drafts, options.alpha)
        verdict, reason = overall(metrics)
        comparison = Comparison(
            id=_id(ours.run, theirs.run, matched, options),
            baseline=_side(ours.run),
            candidate=_side(theirs.run),
            verdict=verdict,
            reason=reason,
            alpha=options.alpha,
            tested=sum(found.p is not None for found in metrics),
            metrics=metrics,
            notes=tuple(_notes(ours.run, theirs.run, matched, pairings, metrics)),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return publish(connection, store, comparison, output=options.output)


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
    asked = dataclasses.asdict(options) | {"output": None, "mapping": None}
    pairs = [[pair.baseline, pair.candidate] for pair in matched.pairs]
    return digest({"baseline": baseline.id, "candidate": candidate.id, "models": pairs, "asked": asked})[:16]


def _side(run: Run) -> Side:
    record = run.read()
    keys = ("name", "dataset", "dataset_name", "started")
    return Side(run.id, *(str(record.get(key) or "") for key in keys))


def _judged(drafts: Sequence[Draft], alpha: float) -> tuple[MetricComparison, ...]:
    """Judge all metrics together; those that need attention come first."""
    answers = iter(judge([draft.question for draft in drafts if draft.question is not None], alpha))
    out = []
    for draft in drafts:
        found, question = draft.found, draft.question
        if question is None:
            out.append(found)
            continue
        answer, measured, interval = next(answers), question.measured, question.measured.interval
        out.append(
            dataclasses.replace(
                found,
                verdict=answer.verdict,
                reason=sentence(question, answer, share=found.metric.share),
                effect=measured.effect,
                ci_low=interval.low if interval else None,
                ci_high=interval.high if interval else None,
                ci_method=interval.method if interval else "",
                test=measured.test,
                p=measured.p,
                p_adjusted=answer.p_adjusted,
                change=answer.change,
                detectable=answer.detectable,
                rows_needed=answer.rows_needed,
            )
        )
    return tuple(sorted(out, key=lambda found: _ORDER.index(found.verdict)))


def _notes(
    baseline: Run,
    candidate: Run,
    matched: Matched,
    pairings: Sequence[Pairing],
    metrics: Sequence[MetricComparison],
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
    for pairing in pairings:
        yield from pairing.notes
