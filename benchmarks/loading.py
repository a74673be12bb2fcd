"""Loading 100 MB of clean records: JSON Lines, CSV and Parquet, beside what the bare readers of Arrow and DuckDB need.

    python -m benchmarks.loading [--rows 74418] [--repeats 3]

The records are made by a seeded generator: a question, an expected answer, an answer, three chunks of context with
their documents, and numbers. Each load has a process and a store of its own; its imports are not counted. The bare
readers only parse the file, with the types of the columns given; nothing is checked, keyed or written.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, verdict

LIMIT = 10.0
"""Times that Arrow's reader takes; a load checks, keys and writes what is read."""
MOST_MB = 400
"""Memory for the rows that there are by default; of these it does not depend much."""
WORDS = (
    "the of harbour tide water level spring high low pier boat rope chart depth signal light storm wind crew deck "
    "engine hull anchor port cargo crane dock gate lock bridge"
).split()


def records(rows: int, *, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Yield records, the same for the same seed."""
    chance = random.Random(seed)
    pool = [" ".join(chance.choices(WORDS, k=chance.randint(8, 20))) + "." for _ in range(20_000)]
    for number in range(rows):
        yield {
            "case": f"case-{number}",
            "model": "rag-1",
            "question": f"{number}: {chance.choice(pool)}",
            "expected_answer": chance.choice(pool),
            "actual_answer": " ".join(chance.choices(pool, k=2)),
            "retrieved_context": [
                {"content": " ".join(chance.choices(pool, k=3)), "doc_uri": f"docs/{chance.randint(1, 999)}.md"}
                for _ in range(3)
            ],
            "duration_s": round(chance.random() * 3, 3),
            "cost_usd": 0.0004,
            "input_tokens": chance.randint(100, 400),
        }


def write(folder: Path, rows: int) -> dict[str, Path]:
    """Write the records in each container; return the files."""
    import pyarrow as pa
    from pyarrow import parquet

    files = {suffix: folder / f"answers.{suffix}" for suffix in ("jsonl", "csv", "parquet")}
    with files["jsonl"].open("w") as lines, files["csv"].open("w", newline="") as table:
        writer = csv.writer(table)
        for number, record in enumerate(records(rows)):
            lines.write(json.dumps(record) + "\n")
            if not number:
                writer.writerow(record)
            writer.writerow(json.dumps(value) if isinstance(value, list) else value for value in record.values())
    parquet.write_table(pa.Table.from_pylist(list(records(rows))), files["parquet"])
    return files


def load(path: Path) -> dict[str, float]:
    """Load a file in this process; return seconds, seconds of processor, and the peak of the memory in MB (Linux).

    ``getrusage`` would give the peak of the process that started this one, if that was higher.
    """
    # Imported before the clock starts.
    import leadline.evaluators.core.spec  # Pydantic, which every run has
    import leadline.tasks.load.columnwise
    import leadline.tasks.load.importing  # noqa: F401 - DuckDB and Arrow
    from leadline.tasks.load.dataset import load_dataset
    from leadline.tasks.store.store import Store

    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "store")
        begun, used = time.perf_counter(), time.process_time()
        load_dataset(store, path)
        seconds, processor = time.perf_counter() - begun, time.process_time() - used
    peak = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return {"s": seconds, "cpu": processor, "mb": int(peak) / 1024}


def loaded_apart(path: Path) -> dict[str, float]:
    """Load a file in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.loading", "--load", str(path)]
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # as the command line sets it
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def bare_readers(files: dict[str, Path]) -> dict[str, Callable[[], object]]:
    """Return what only parses the files."""
    import duckdb
    from pyarrow import csv as arrow_csv
    from pyarrow import json as arrow_json
    from pyarrow import parquet

    schema = parquet.read_schema(files["parquet"])
    connection = duckdb.connect()
    return {
        "jsonl, Arrow": lambda: arrow_json.read_json(
            files["jsonl"], parse_options=arrow_json.ParseOptions(explicit_schema=schema)
        ),
        "jsonl, DuckDB": lambda: connection.sql(f"FROM read_json('{files['jsonl']}')").to_arrow_table(),
        "csv, Arrow": lambda: arrow_csv.read_csv(
            files["csv"], parse_options=arrow_csv.ParseOptions(newlines_in_values=True)
        ),
        "csv, DuckDB": lambda: connection.sql(f"FROM read_csv('{files['csv']}')").to_arrow_table(),
        "parquet, Arrow": lambda: parquet.read_table(files["parquet"]),
        "parquet, DuckDB": lambda: connection.sql(f"FROM '{files['parquet']}'").to_arrow_table(),
    }


def main() -> None:
    """Write the files, load each, and read each barely."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=74_418)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        print(json.dumps(load(args.load)))
        return
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), args.rows)
        bare: dict[str, float] = {}
        for name, read in bare_readers(files).items():
            times = []
            for _ in range(args.repeats):
                used, begun = time.process_time(), time.perf_counter()
                read()
                times.append((time.perf_counter() - begun, time.process_time() - used))
            bare[name], cpu = (statistics.median(each) for each in zip(*times, strict=True))
            print(f"{name:16s} {bare[name]:.2f} s, {cpu:.2f} s of processor")
        for suffix, path in files.items():
            runs = [loaded_apart(path) for _ in range(args.repeats)]
            wall, cpu, peak = (statistics.median(run[name] for run in runs) for name in ("s", "cpu", "mb"))
            size = path.stat().st_size / 1e6
            used = f"{wall:.2f} s, {cpu:.2f} s of processor, {peak:.0f} MB of memory"
            print(f"{suffix:8s} {size:4.0f} MB, {args.rows:,} rows: {used}")
            print(verdict(f"{suffix}, times Arrow", wall / bare[f"{suffix}, Arrow"], LIMIT, at_least=False))
            print(verdict(f"{suffix}, MB of memory", peak, MOST_MB, at_least=False))


if __name__ == "__main__":
    main()
