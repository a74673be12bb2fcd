"""Flips: an original and a perturbed row of the same model that stand on two sides of a metric's threshold.

The values of the rows that take part in a pair are laid out as one array per metric, so that comparing all pairs of a
metric is a few array operations; a join of the scores with themselves takes three times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.tasks.analyse.net_flips import NetRates, net_rates
from leadline.tasks.db import records, replace_lines, show_targets, sql
from leadline.tasks.statistics.statistics import clopper_pearson

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

_MOST_CELLS: Final = 8_000_000  # values in memory at a time: 64 MB


def lay_out_pairs(connection: DuckDBPyConnection) -> dict[str, Any]:
    """Create the tables ``targets``, ``slots`` and ``pairs``, and return of each pair its slots, bucket, same answer.

    Args:
        connection: The run, whose scores are gathered.
    """
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
        found = connection.sql(sql("flips/values"), params=params).to_arrow_table()
        values = np.full((last - first + 1) * slots, np.nan)
        for batch in found.to_batches():
            values[batch.column("cell").to_numpy()] = batch.column("value").to_numpy()
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
        flips = {
            "metric_id": ids.repeat([len(compared.pair) for compared in found]),
            "pair_id": np.concatenate([compared.pair for compared in found]),
            "original_value": np.concatenate([compared.original for compared in found]),
            "perturbed_value": np.concatenate([compared.perturbed for compared in found]),
            "told": np.concatenate([net.told(m, f.pair) for m, f in zip(ids, found, strict=True)]),
            "agreed": np.concatenate([net.agreed(m, f.pair) for m, f in zip(ids, found, strict=True)]),
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
