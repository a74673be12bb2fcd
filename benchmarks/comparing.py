"""Comparing two runs of 1,000,000 cases: seconds and peak memory.

    python benchmarks/comparing.py [--cases 1000000] [--metrics 5]

Two runs of one model over the same cases, a tenth of them perturbed copies, a twentieth of the scores missing. The
comparison is timed as a command is: from the references to the published report.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import duckdb

from benchmarks.aggregation import DATASET, RUN
from leadline.tasks.compare import Options, compare
from leadline.tasks.db import DATASET_TABLES, attach_dataset, literal, run_definitions, sql
from leadline.tasks.store.store import Store

DIGESTS = "UPDATE digests SET question = md5(row_id::VARCHAR)::BLOB"


def build(store: Store, **sizes: int) -> tuple[str, str]:
    """Write a dataset and two completed runs of it; returns their ids."""
    folder = store.dataset("large")
    folder.mkdir(parents=True)
    with duckdb.connect() as dataset:
        dataset.execute(sql("dataset"))
        dataset.execute(DATASET.format(**sizes) + DIGESTS)
        for table in DATASET_TABLES:
            dataset.execute(f"COPY {table} TO {literal(folder / f'{table}.parquet')}")
    (folder / "manifest.json").write_text("{}")
    for run in (store.run("before"), store.run("after")):
        run.path.mkdir(parents=True)
        with duckdb.connect(str(run.database)) as connection:
            connection.execute(run_definitions())
            attach_dataset(connection, folder)
            # A constant in the hash makes the second run's scores others.
            connection.execute(RUN.format(**sizes).replace("metric_id, 7)", f"metric_id, {len(run.id)})"))
            if run.id == "after":
                connection.execute(
                    "UPDATE scores SET value = least(1, value + 0.01 * random()) WHERE metric_id % 5 > 0"
                )
        run.update({"status": "completed", "dataset": "large"})
    return "before", "after"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("cases", 1_000_000), ("metrics", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(folder)
        with ProcessPoolExecutor(1) as apart:  # so that its memory is not in the peak
            sides = apart.submit(build, store, cases=args.cases, models=1, metrics=args.metrics).result()
        start = time.perf_counter()
        found = compare(store, *sides, Options(all_metrics=True))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{args.cases:,} cases, {len(found.metrics)} metrics: {seconds:.1f} s")
    print(f"peak memory {peak / 1024:,.0f} MB; {seconds / len(found.metrics):.2f} s for each metric")


if __name__ == "__main__":
    main()
