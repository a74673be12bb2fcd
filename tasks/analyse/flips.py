"""Flips: an original and a perturbed row of the same model that stand on two sides of a metric's threshold.

The values of the rows that take part in a pair are laid out as one array per metric, so that comparing all pairs of a
metric is a few array operations; a join of the scores with themselves takes three times as long.

The net rate of a metric that asks a judge is how much more a perturbation changes than asking the judge twice. Which
estimator of :mod:`leadline.tasks.statistics.judge_stability` a metric gets follows from the trials that its rows have:

* every row has several: ``trials``;
* the pairs that turned in the first trial have, and a part of the others: ``two-phase``;
* some rows, drawn at random, have: ``sub-sample``;
* no row has: nothing is told, apart from metrics that ask no judge and so have no noise: ``deterministic``.

Trials count one by one: a mean of several on the threshold would lie on its good side, and make flips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.statistics.judge_stability import NetRate, PairNoise, net_of_sample, net_rate, pair_noise
from leadline.tasks.statistics.statistics import clopper_pearson, effective_number

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Booleans, Floats


_MOST_CELLS: Final = 8_000_000  # values in memory at a time: 64 MB


def lay_out_pairs(connection: DuckDBPyConnection) -> dict[str, Any]:
    """Create the tables ``targets``, ``slots`` and ``pairs``, and return each pair's slots, bucket and same answer."""
    show_targets(connection)
    connection.execute(sql("flips/slots"))
    connection.execute(sql("flips/pairs"))
    columns = connection.execute("SELECT original_slot, perturbed_slot, bucket FROM pairs ORDER BY pair_id")
    # numpy indexes by its own kind of integer, and would convert any other at every use
    pairs = {name: column.astype(np.intp) for name, column in columns.fetchnumpy().items()}
    pairs |= connection.execute(sql("flips/same_answers")).fetchnumpy()
    return pairs


def find_flips(connection: DuckDBPyConnection) -> int:
    """Fill the tables ``flips`` and ``flip_rates`` and return the number of flips.

    Original and perturbed rows are compared within one model, in both directions, by the run's threshold, which is
    itself on the passing side. Pairs of which a row has no value are not compared. A copy of a copy is compared with
    the case that it was made from. Of a pass/fail board only the primary metric is compared: the others say the same.
    """
    pairs = lay_out_pairs(connection)
    metrics = records(connection, sql("flips/metrics"))
    found = [_compare(metric, values, pairs) for metric, values in _values(connection, metrics)]
    rates = net_rates(connection, metrics, pairs)
    return _store(connection, metrics, found, rates)


def _values(
    connection: DuckDBPyConnection, metrics: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], npt.NDArray[np.float64]]]:
    """Yield each metric with its values by slot, NaN where a row has none; as many metrics at a time as fit."""
    (slots,) = connection.execute("SELECT count(*) FROM slots").fetchall()[0]
    (pairs,) = connection.execute("SELECT count(*) FROM pairs").fetchall()[0]
    if not pairs:
        return
    for block in _blocks(metrics, max(1, _MOST_CELLS // slots)):
        first, last = block[0]["metric_id"], block[-1]["metric_id"]
        params = {"first": first, "last": last, "slots": slots}
        found = connection.execute(sql("flips/values"), params).fetchnumpy()
        values = np.full((last - first + 1) * slots, np.nan)
        values[found["cell"]] = found["value"]
        for metric in block:
            start = (metric["metric_id"] - first) * slots
            yield metric, values[start : start + slots]


def _blocks(metrics: Sequence[Mapping[str, Any]], size: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Cut metrics, in the order of their numbers, where a block would span more than ``size`` numbers."""
    start = 0
    for end in range(1, len(metrics) + 1):
        if end == len(metrics) or metrics[end]["metric_id"] - metrics[start]["metric_id"] >= size:
            yield metrics[start:end]
            start = end


class Compared(NamedTuple):
    """The flips of one metric.

    Attributes:
        pair: Numbers of the pairs that flipped.
        original: Values of their original rows.
        perturbed: Values of their perturbed rows.
        counts: By bucket and whether the answer is the same, the pairs where both rows fail, only the perturbed, only
            the original, or both pass.
    """

    pair: npt.NDArray[np.int64]
    original: npt.NDArray[np.float64]
    perturbed: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]


def _compare(metric: Mapping[str, Any], values: npt.NDArray[np.float64], pairs: Mapping[str, Any]) -> Compared:
    """Compare all pairs of one metric, whose ``values`` stand by slot."""
    passes = ((values >= metric["above"]) == metric["upper_is_good"]).view(np.uint8)
    passes[np.isnan(values)] = 4  # so that a pair has a sum under 4 only if both its rows have a value
    outcome = 2 * passes[pairs["original_slot"]] + passes[pairs["perturbed_slot"]]
    flipped = np.flatnonzero(outcome - np.uint8(1) < 2)  # 1 or 2: 0 wraps around to 255
    cells = (2 * pairs["bucket"] + pairs["same_answer"]) * 16 + outcome
    return Compared(
        pair=flipped,
        original=values[pairs["original_slot"][flipped]],
        perturbed=values[pairs["perturbed_slot"][flipped]],
        counts=np.bincount(cells, minlength=32 * (int(pairs["bucket"].max()) + 1)).reshape(-1, 2, 16)[:, :, :4].copy(),
    )


def _store(
    connection: DuckDBPyConnection, metrics: Sequence[Mapping[str, Any]], found: Sequence[Compared], net: NetRates
) -> int:
    rates: list[dict[str, Any]] = []
    number = sum(len(compared.pair) for compared in found)
    connection.execute("BEGIN; DELETE FROM flips")
    if found:
        ids = np.array([metric["metric_id"] for metric in metrics])
        confirmed = [net.confirmed(int(id_), each.pair) for id_, each in zip(ids, found, strict=True)]
        flips = {
            "metric_id": ids.repeat([len(compared.pair) for compared in found]),
            "pair_id": np.concatenate([compared.pair for compared in found]),
            "original_value": np.concatenate([compared.original for compared in found]),
            "perturbed_value": np.concatenate([compared.perturbed for compared in found]),
            "told": np.concatenate([told for told, _ in confirmed]),
            "agreed": np.concatenate([agreed for _, agreed in confirmed]),
        }
        connection.register("found", flips)
        connection.execute(sql("flips/flips"))
        connection.unregister("found")
        buckets = len(found[0].counts)
        counts = np.concatenate([compared.counts for compared in found])
        counted = {
            "metric_id": ids.repeat(buckets),
            "bucket": np.tile(np.arange(buckets), len(found)),
            "n_pairs": counts.sum(axis=(1, 2)),
            "n_passed_to_failed": counts[:, :, 2].sum(axis=1),
            "n_failed_to_passed": counts[:, :, 1].sum(axis=1),
            "n_same_answer": counts[:, 1].sum(axis=1),
            "n_flips_same_answer": counts[:, 1, 1:3].sum(axis=1),
        }
        connection.register("counted", counted)
        rates = records(connection, sql("flips/rates"))
        connection.unregister("counted")
    connection.execute("COMMIT")
    for line in rates:
        line["rate"] = (line["n_passed_to_failed"] + line["n_failed_to_passed"]) / line["n_pairs"]
        line["ci_low"], line["ci_high"] = clopper_pearson(line["rate"], line["n_pairs"])
        line |= net.columns(line)
    replace_lines(connection, "flip_rates", rates)
    return number


ALL_KINDS: Final = ""
"""Name of the line of all perturbations together."""

_NOTHING: Final[Mapping[str, Any]] = {
    "n_pairs_repeated": 0,
    "noise": None,
    "net": None,
    "net_low": None,
    "net_high": None,
    "net_method": None,
    "net_same_answer": None,
    "net_same_low": None,
    "net_same_high": None,
}


@dataclass(frozen=True, slots=True)
class MetricTrials:
    """The trials of one judged metric, pair by pair.

    Attributes:
        told: Pairs of which both rows have at least two trials.
        agreed: Of those, pairs of which all trials of each row are on one side of the threshold.
        lines: The columns of each line of ``flip_rates``, by model and perturbation.
    """

    told: Booleans
    agreed: Booleans
    lines: Mapping[tuple[int, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NetRates:
    """The net rates of all metrics.

    Attributes:
        judged: Numbers of the metrics that ask a judge.
        metrics: Those of them with trials.
    """

    judged: frozenset[int]
    metrics: Mapping[int, MetricTrials] = field(default_factory=dict)

    def columns(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a line of ``flip_rates`` says of the judge's noise.

        Args:
            line: The line as far as it is known without.
        """
        if line["metric_id"] not in self.judged:
            return _deterministic(line)
        known = self.metrics.get(line["metric_id"])
        return known.lines.get((line["model_id"], line["perturbation"]), _NOTHING) if known else _NOTHING

    def confirmed(self, metric_id: int, pairs: npt.NDArray[np.int64]) -> tuple[Booleans, Booleans]:
        """Return of which pairs both rows have several trials, and of which all trials of each row agree."""
        known = self.metrics.get(metric_id)
        none = np.zeros(len(pairs), bool)
        return (known.told[pairs], known.agreed[pairs]) if known else (none, none)


def _deterministic(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns for a metric that has no noise: its net rate is its rate."""
    same = line["n_flips_same_answer"] / line["n_same_answer"] if line["n_same_answer"] else None
    low, high = (None, None) if same is None else clopper_pearson(same, line["n_same_answer"])
    return {
        "n_pairs_repeated": 0,
        "noise": 0.0,
        "net": line["rate"],
        "net_low": line["ci_low"],
        "net_high": line["ci_high"],
        "net_method": "deterministic",
        "net_same_answer": same,
        "net_same_low": low,
        "net_same_high": high,
    }


def net_rates(
    connection: DuckDBPyConnection, metrics: Sequence[Mapping[str, Any]], pairs: Mapping[str, Any]
) -> NetRates:
    """Return the net rates of the metrics that ask a judge and have several trials.

    Args:
        connection: The run, with the tables ``slots`` and ``pairs``.
        pairs: By pair, the slots of both rows, the bucket (model and perturbation), and if the answer is the same.
    """
    judged = frozenset(int(metric["metric_id"]) for metric in metrics if metric["judged"])
    (again,) = connection.execute(sql("flips/has_trials")).fetchall()[0]
    if not judged or not again or not len(pairs["bucket"]):
        return NetRates(judged)
    buckets = records(connection, sql("flips/buckets"))
    out = {}
    for metric in metrics:
        if metric["judged"]:
            found = _metric(connection, metric, pairs, buckets)
            if found is not None:
                out[int(metric["metric_id"])] = found
    return NetRates(judged, out)


@dataclass(frozen=True, slots=True)
class RepeatedPairs:
    """The pairs of one metric; arrays are by pair if nothing else is said.

    Attributes:
        original: Slot of the original row.
        copy: Slot of the copy.
        cluster: Number of the original.
        compared: Both rows have a value.
        flipped: They are on two sides in the first trial.
        same_answer: Both rows have the same answer.
        shared: Both rows have one score.
        turned: They turned on some metric of the evaluator in the first trial, so that all of them were judged again.
        drawn: They were judged again.
        told: Both rows have at least two trials.
        trials: Passes (1) and fails (0) by slot and trial; not a number where there is none.
        two_phase: Which rows were judged again follows from the first trial.
        sampled: Only some rows were judged again.
    """

    original: npt.NDArray[np.int64]
    copy: npt.NDArray[np.int64]
    cluster: npt.NDArray[np.int64]
    compared: Booleans
    flipped: Booleans
    same_answer: Booleans
    shared: Booleans
    turned: Booleans
    drawn: Booleans
    told: Booleans
    trials: Floats
    two_phase: bool
    sampled: bool


def _metric(
    connection: DuckDBPyConnection,
    metric: Mapping[str, Any],
    pairs: Mapping[str, Any],
    buckets: Sequence[Mapping[str, Any]],
) -> MetricTrials | None:
    found = repeated_pairs(connection, metric, pairs)
    if found is None:
        return None
    lines: dict[tuple[int, str], Mapping[str, Any]] = {}
    for model in sorted({line["model_id"] for line in buckets}):
        mine = [line for line in buckets if line["model_id"] == model]
        of_model = np.isin(pairs["bucket"], [line["bucket"] for line in mine])
        weights = pair_weights(found, of_model)
        lines[model, ALL_KINDS] = _columns(found, of_model, weights)
        for line in mine:
            if line["kind"]:
                lines[model, line["kind"]] = _columns(found, pairs["bucket"] == line["bucket"], weights)
    spread = np.nanmax(found.trials, axis=1, initial=0.0) - np.nanmin(found.trials, axis=1, initial=1.0)
    agreed = (spread[found.original] <= 0) & (spread[found.copy] <= 0)
    return MetricTrials(found.told & ~found.shared, agreed, lines)


def repeated_pairs(
    connection: DuckDBPyConnection, metric: Mapping[str, Any], pairs: Mapping[str, Any]
) -> RepeatedPairs | None:
    """Return the pairs of a metric with their trials, ``None`` where no row was judged more than once.

    Args:
        connection: The run, with the tables ``slots`` and ``pairs``.
        pairs: By pair, the slots of both rows, the bucket (model and perturbation), and if the answer is the same.
    """
    trial, slot, value = _columns_of(connection, sql("flips/trials"), ("trial", "slot", "value"), metric["metric_id"])
    if not len(trial) or int(trial.max()) == 0:
        return None
    slots = 1 + max(int(pairs["original_slot"].max()), int(pairs["perturbed_slot"].max()))
    trials = np.full((slots, int(trial.max()) + 1), np.nan)
    trials[slot.astype(np.intp), trial.astype(np.intp)] = (value >= metric["above"]) == metric["upper_is_good"]
    count = (~np.isnan(trials)).sum(axis=1)
    original, copy = pairs["original_slot"], pairs["perturbed_slot"]
    first = trials[:, 0]
    cluster, turned, drawn = _columns_of(
        connection, sql("flips/pair_originals"), ("original_case_id", "turned", "drawn"), metric["evaluator_id"]
    )
    (repeats,) = connection.execute(
        "SELECT count(*) FROM repeats WHERE metric_id = ?", [metric["metric_id"]]
    ).fetchall()[0]
    both = first[original] + first[copy]
    return RepeatedPairs(
        original,
        copy,
        cluster.astype(np.int64),
        compared=(count[original] > 0) & (count[copy] > 0),
        flipped=both == 1,
        same_answer=pairs["same_answer"].astype(bool),
        shared=_shared(connection, metric, len(original)),
        turned=turned.astype(bool),
        drawn=drawn.astype(bool),
        told=(count[original] > 1) & (count[copy] > 1),
        trials=trials,
        two_phase=bool(repeats and drawn.any()),
        sampled=bool(repeats),
    )


def _columns_of(connection: DuckDBPyConnection, query: str, names: Sequence[str], about: int) -> list[npt.NDArray[Any]]:
    """Return columns of a query about one metric or evaluator as arrays."""
    found = connection.execute(query, [about]).fetchnumpy()
    return [np.asarray(found[name]) for name in names]


def _shared(connection: DuckDBPyConnection, metric: Mapping[str, Any], n: int) -> Booleans:
    """Return which pairs have one score for both rows; none where the plan is gone."""
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if {"keys", "reads"} <= tables:
        found = connection.execute(sql("flips/pair_keys"), [metric["evaluator_id"]]).fetchnumpy()["shared"]
        if len(found) == n:
            return np.asarray(found, bool)
    return np.zeros(n, bool)


def pair_weights(pairs: RepeatedPairs, of_model: Booleans) -> Floats | None:
    """Return for how many of a model's pairs each that was judged again stands, 0 for the others.

    Pairs of one score stand for themselves. ``None`` if some kind of pairs was never judged again.
    """
    weights = np.zeros(len(pairs.original))
    mine = of_model & pairs.compared
    weights[mine & pairs.shared] = 1.0
    groups = (pairs.turned, ~pairs.turned) if pairs.two_phase else (np.ones(len(weights), bool),)
    for group in groups:
        stratum = mine & group & ~pairs.shared
        measured = stratum & pairs.told & (pairs.drawn if pairs.two_phase else True)
        if stratum.any() and not measured.any():
            return None
        weights[measured] = stratum.sum() / max(1, measured.sum())
    return weights


def _columns(pairs: RepeatedPairs, chosen: Booleans, weights: Floats | None) -> Mapping[str, Any]:
    """Return the columns of one line, of the pairs that it is about."""
    chosen = chosen & pairs.compared
    whole, same = (_net(pairs, part, weights) for part in (chosen, chosen & pairs.same_answer))
    out = dict(_NOTHING) | {"n_pairs_repeated": int((chosen & pairs.told & ~pairs.shared).sum())}
    if whole is not None:
        out |= {"noise": whole.noise, "net": whole.net, "net_low": whole.low, "net_high": whole.high}
        out["net_method"] = whole.method
    if same is not None:
        out |= {"net_same_answer": same.net, "net_same_low": same.low, "net_same_high": same.high}
    return out


def _net(pairs: RepeatedPairs, chosen: Booleans, weights: Floats | None) -> NetRate | None:
    if not chosen.any():
        return None
    if pairs.sampled and not pairs.two_phase:
        return _of_sample(pairs, chosen)
    return None if weights is None else _of_pairs(pairs, chosen, weights)


def _of_pairs(pairs: RepeatedPairs, chosen: Booleans, weights: Floats) -> NetRate | None:
    """Return the net rate from pairs of which both rows were judged again."""
    places = np.flatnonzero(chosen)
    weight = weights[places]
    net, noise = np.zeros(len(places)), np.zeros(len(places))
    measured = (weight > 0) & ~pairs.shared[places]
    if not measured.any() and not pairs.shared[places].all():
        return None
    if measured.any():
        at = places[measured]
        net[measured], noise[measured] = pair_noise(pairs.trials[pairs.original[at]], pairs.trials[pairs.copy[at]])
    every = PairNoise(net, noise)
    if pairs.two_phase:
        return net_rate(every, pairs.cluster[places], weight)
    kept = weight > 0  # a pair that lacks a trial says nothing
    return net_rate(PairNoise(*(part[kept] for part in every)), pairs.cluster[places][kept])


def _of_sample(pairs: RepeatedPairs, chosen: Booleans) -> NetRate | None:
    """Return the net rate from the flips of the first trial and some rows that were judged once more.

    A row counts by the pairs it is in; the effective numbers of pairs and rows make the intervals.
    """
    count = (~np.isnan(pairs.trials)).sum(axis=1)
    unshared = chosen & ~pairs.shared
    uses = np.bincount(
        np.concatenate([pairs.original[unshared], pairs.copy[unshared]]), minlength=len(pairs.trials)
    ).astype(float)
    uses[count < 2] = 0.0
    if not uses.any():
        return None
    ones, n = np.nansum(pairs.trials, axis=1), np.maximum(count, 2)
    disagree = 2 * ones * (count - ones) / (n * (n - 1))
    noise = float(uses @ disagree / uses.sum()) * float(unshared.sum() / chosen.sum())
    repeated = float(uses.sum() ** 2 / (uses @ uses))
    flips = pairs.flipped[chosen].astype(float)
    independent = effective_number(flips, pairs.cluster[chosen])
    found = net_of_sample(float(flips.mean()) * independent, independent, noise * repeated, repeated)
    return NetRate(found.net, found.low, found.high, found.noise, found.method, int((uses > 0).sum()))
