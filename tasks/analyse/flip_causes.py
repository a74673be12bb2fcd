"""Whose flips they are: the model's, which answers otherwise, or the judge's, which reads the question otherwise.

Between an original and its perturbed copy two things change, the answer and the question. A third row has the copy's
answer under the original's question. With p, r and q the chances that the judge passes the original, the third row and
the copy, (p - r)² is the change that the answer makes, and (r - q)² the one that the question makes to the judge alone.
Each is estimated like (p - q)² of :mod:`leadline.tasks.statistics.judge_stability`, from at least two trials of every
row, and weighted like the net rate itself: a pair counts by the reciprocal of its chance to be judged again, which
follows from the first trial of its rows. So both are free of bias, whatever that trial said.

They add up to the net rate where no pair is changed by both: (p - q)² = (p - r)² + (r - q)² + 2(p - r)(r - q).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.tasks.analyse.flips import ALL_KINDS, RepeatedPairs, lay_out_pairs, pair_weights, repeated_pairs
from leadline.tasks.db import records, replace_lines, sql
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.plan.planner import segments
from leadline.tasks.statistics.judge_stability import NetRate, PairNoise, net_rate, pair_noise
from leadline.tasks.store.segments import METRIC_PREFIX
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Booleans, Floats, Ints

METHOD: Final = "two-phase"
"""How the causes are estimated: pairs that turned, and a part of the others."""


@dataclass(frozen=True, slots=True)
class ThirdTrials:
    """The trials of pairs and of the rows between them; arrays are by pair.

    Attributes:
        originals: Trials of the originals, pairs by trials: 1 passes, 0 fails, not a number is missing.
        thirds: The same of the rows between.
        copies: The same of the copies.
        answer_stayed: The row between has the original's score.
        question_stayed: The row between has the copy's score.
    """

    originals: Floats
    thirds: Floats
    copies: Floats
    answer_stayed: Booleans
    question_stayed: Booleans


@dataclass(frozen=True, slots=True)
class Causes:
    """The two parts of a net flip rate.

    Attributes:
        answer: The change that the answer makes.
        question: The change that the question makes to the judge, of the same answer.
    """

    answer: NetRate
    question: NetRate


def causes_of(trials: ThirdTrials, clusters: Ints, weights: Floats) -> Causes | None:
    """Return the parts of the net flip rate of pairs, ``None`` where too few are known.

    Args:
        weights: For how many pairs each stands; 0 where it was not judged again, or lacks a trial.
    """
    answer = _part(trials.originals, trials.thirds, trials.answer_stayed, clusters, weights)
    question = _part(trials.thirds, trials.copies, trials.question_stayed, clusters, weights)
    return None if answer is None or question is None else Causes(answer, question)


def _part(one: Floats, other: Floats, shared: Booleans, clusters: Ints, weights: Floats) -> NetRate | None:
    """Return the net change between rows of pairs; those that share a score do not differ."""
    measured = (weights > 0) & ~shared
    net, noise = np.zeros(len(weights)), np.zeros(len(weights))
    if measured.any():
        net[measured], noise[measured] = pair_noise(one[measured], other[measured])
    return net_rate(PairNoise(net, noise), clusters, weights)


def attribute_flips(connection: DuckDBPyConnection, store: Store, jobs: Sequence[EvaluatorJob]) -> int:
    """Fill the table ``flip_causes`` and return the number of its lines.

    Args:
        connection: The run, whose flips are found and whose third rows are scored.
    """
    lines: list[dict[str, Any]] = []
    pairs = lay_out_pairs(connection)
    if len(pairs["bucket"]):
        by_id = {job.evaluator_id: job for job in jobs}
        buckets = records(connection, sql("flips/buckets"))
        store.sync(store.scores(job.evaluator, job.config) for job in jobs)
        for metric in records(connection, sql("flips/metrics")):
            job = by_id.get(metric["evaluator_id"])
            found = repeated_pairs(connection, metric, pairs) if job else None
            if job and found:
                lines += _lines(connection, store, job, metric, found, pairs["bucket"], buckets)
    return replace_lines(connection, "flip_causes", lines)


def _lines(
    connection: DuckDBPyConnection,
    store: Store,
    job: EvaluatorJob,
    metric: Mapping[str, Any],
    found: RepeatedPairs,
    bucket: Ints,
    buckets: Sequence[Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a metric by model and perturbation."""
    trials = _third_trials(connection, store, job, metric, found)
    known = (~np.isnan(trials.thirds)).sum(axis=1) > 1
    found = replace(found, told=found.told & known)
    for model in sorted({line["model_id"] for line in buckets}):
        mine = [line for line in buckets if line["model_id"] == model]
        of_model = np.isin(bucket, [line["bucket"] for line in mine])
        weights = pair_weights(found, of_model)
        if weights is None:
            continue
        kinds = {line["kind"]: bucket == line["bucket"] for line in mine if line["kind"]}
        for kind, chosen in ({ALL_KINDS: of_model} | kinds).items():
            at = np.flatnonzero(chosen & found.compared)
            line = _line(_at(trials, at), found.cluster[at], weights[at])
            if line:
                n_pairs = int((found.told & found.drawn & chosen & found.compared).sum())
                names = {"metric_id": metric["metric_id"], "model_id": model, "perturbation": kind}
                yield names | {"n_pairs": n_pairs} | line


def _at(trials: ThirdTrials, places: Ints) -> ThirdTrials:
    return ThirdTrials(
        trials.originals[places],
        trials.thirds[places],
        trials.copies[places],
        trials.answer_stayed[places],
        trials.question_stayed[places],
    )


def _line(trials: ThirdTrials, clusters: Ints, weights: Floats) -> dict[str, Any]:
    """Return the columns of a line about the pairs; none where nothing is known."""
    found = causes_of(trials, clusters, weights) if weights.any() else None
    if found is None:
        return {}
    answer, judge = found.answer, found.question
    return {
        "answer": answer.net,
        "answer_low": answer.low,
        "answer_high": answer.high,
        "judge": judge.net,
        "judge_low": judge.low,
        "judge_high": judge.high,
        "method": METHOD,
    }


def _third_trials(
    connection: DuckDBPyConnection, store: Store, job: EvaluatorJob, metric: Mapping[str, Any], found: RepeatedPairs
) -> ThirdTrials:
    """Return the trials of all pairs; those without a row between have none of it, or share one score."""
    n = len(found.original)
    thirds = np.full((n, job.trials), np.nan)
    files = segments(store.scores(job.evaluator, job.config))
    if files:
        name = METRIC_PREFIX + str(metric["metric"])
        statement = sql("flips/third_trials").format(
            segments=files, column=f'"{name}"', evaluator_id=job.evaluator_id, trials=job.trials
        )
        held = connection.execute(statement).fetchnumpy()
        place = np.asarray(held["pair_id"], np.intp), np.asarray(held["trial"], np.intp)
        thirds[place] = (np.asarray(held["value"], float) >= metric["above"]) == metric["upper_is_good"]
    keys = connection.execute(sql("flips/third_keys"), [job.evaluator_id]).fetchnumpy()
    at = np.asarray(keys["pair_id"], np.intp)
    answer_stayed, question_stayed = found.shared.copy(), found.shared.copy()
    answer_stayed[at] |= np.asarray(keys["as_original"], bool)
    question_stayed[at] |= np.asarray(keys["as_copy"], bool)
    return ThirdTrials(found.trials[found.original], thirds, found.trials[found.copy], answer_stayed, question_stayed)
