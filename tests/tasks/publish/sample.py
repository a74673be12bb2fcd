"""A completed run of any size, made in SQL: every table filled, every kind of finding present, hostile texts too."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import duckdb

from leadline.tasks.db import DATASET_TABLES, connect, literal, run_definitions, sql
from leadline.tasks.ground.files import publish_folder
from leadline.tasks.store.store import Run, Store
from tests.support.stores.filling import files_of, write_files

HERE: Final = Path(__file__).parent
LONG: Final = "An answer that does not end. " * 40_000
HOSTILE: Final = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>",
    "{{ 7 * 7 }} {% raw %} ${window.hacked = 3}",
    "before \u202eesrever\u202c after, \x00 NUL, \x1b[31mred, \u2028 separator, \u2066isolate",
    "😀 emoji first. Then a grounded sentence. 👩‍👩‍👧 family last.",
    "",
    LONG,
)
SUBJECTS: Final = (
    "the refund policy", "the boiling point of water at altitude", "the notice period of a tenant", "overdraft fees",
    "the half-life of caesium-137",
    "the capital of Australia", "vaccination of travellers",
    "the speed of light in glass",
)  # fmt: skip
METRICS: Final = (
    # metric_id, evaluator_id, key, name, higher, low, high, threshold, primary, share
    (0, 0, "groundedness", "Groundedness", True, 0.0, 1.0, 0.75, True, False),
    (1, 1, "bleu_1", "BLEU-1", True, 0.0, 1.0, 0.5, False, False),
    (2, 1, "bleu_4", "BLEU-4", True, 0.0, 1.0, 0.5, True, False),
    (3, 2, "pii_passes", "PII leakage (passes)", True, 0.0, 1.0, 0.5, True, True),
    (4, 2, "pii_failures", "PII leakage (failures)", False, 0.0, 1.0, 0.5, False, True),
    (5, 3, "model_passes", "Model passes", True, 0.0, 1.0, 0.5, True, True),
    (6, 3, "model_failures", "Model failures", False, 0.0, 1.0, 0.5, False, True),
    (7, 4, "perplexity", "Perplexity", False, 1.0, float("inf"), 0.5, True, False),
    (8, 5, "judged", "Judged correctness", True, 0.0, 1.0, 0.75, True, False),
)
EVALUATORS: Final = (
    (0, "groundedness", "Groundedness", "retrieval", "gpu", "heatmap"),
    (1, "bleu", "BLEU", "summarization", "cpu", "heatmap"),
    (2, "pii_leakage", "PII leakage", "privacy", "cpu", "bool"),
    (3, "text_matching", "Text matching", "generation", "cpu", "bool"),
    (4, "perplexity", "Perplexity", "generation", "gpu", "heatmap"),
    (5, "valor.judged", "Judged correctness", "generation", "judge", "heatmap"),
)


def make_sample(root: Path, *, cases: int = 40, models: int = 3, save_rows: bool = True) -> tuple[Store, Run]:
    """Make a store with one completed run; every fifth case is a perturbed copy of the one before it."""
    store = Store.open(root)
    name = f"{cases:016x}{models:016x}"
    files = dict(_files(cases, models, save_rows))
    database = files.pop("run.duckdb")
    publish_folder(store.dataset(name), lambda folder: write_files(folder, files))
    run = store.run("20260102-030405-abcdef")
    run.path.mkdir(parents=True)
    run.update(_record(name, cases, models))
    run.database.write_bytes(database)
    return store, run


@lru_cache(8)
def _files(cases: int, models: int, save_rows: bool) -> dict[str, bytes]:
    """Return the files of the dataset, and the run's database."""

    def write(folder: Path) -> None:
        _dataset(folder, cases, models)
        with connect(folder / "run.duckdb", block_size=1 << 14) as connection:
            connection.execute(run_definitions())
            for table in DATASET_TABLES:
                file = literal(folder / f"{table}.parquet")
                connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM read_parquet({file})")
            _scores(connection, save_rows)

    return files_of(write)


def _dataset(folder: Path, cases: int, models: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(sql("dataset"))
        given = {"cases": cases, "models": models, "subjects": list(SUBJECTS), "hostile": list(HOSTILE)}
        for name, value in given.items():
            connection.execute(f"SET VARIABLE {name} = ?", [value])
        connection.execute(HERE.joinpath("sample_dataset.sql").read_text("utf-8"))
        for table in DATASET_TABLES:
            connection.execute(f"COPY {table} TO {literal(folder / f'{table}.parquet')} (FORMAT parquet)")


def _scores(connection: duckdb.DuckDBPyConnection, save_rows: bool) -> None:
    for number, key, title, family, lane, board in EVALUATORS:
        identity: dict[str, Any] = {"evaluator": key, "version": "1"}
        if lane == "gpu":
            identity["models"] = [{"id": "offline/all-MiniLM-L6-v2", "sha256": "53aa51172d142c89"}]
        connection.execute(
            "INSERT INTO evaluators VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 12, 108, NULL)",
            [number, key, title, family, lane, board, f"{number:032x}", json.dumps(identity),
             json.dumps({"save_llm_result": save_rows or number != 0, "metric_threshold": None})],
        )  # fmt: skip
    for number, evaluator, key, title, higher, low, high, threshold, primary, share in METRICS:
        connection.execute(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, false, false)",
            [number, evaluator, key, title, f"What {title} says of an answer.", higher, low, high, threshold, primary,
             share],
        )  # fmt: skip
    connection.execute("INSERT INTO rules (metric_id, role) SELECT metric_id, CASE metric_id WHEN 3 THEN 'must' WHEN 2 "
                       "THEN 'information' ELSE 'should' END FROM metrics")  # fmt: skip
    connection.execute(HERE.joinpath("sample_run.sql").read_text("utf-8"))


def _record(dataset: str, cases: int, models: int) -> dict[str, Any]:
    return {
        "status": "running",
        "started": "2026-01-02T03:04:05+00:00",
        "name": "Nightly <support bot>",
        "dataset": dataset,
        "dataset_name": "handbook questions",
        "dataset_source": "handbook.json",
        "dataset_format": "leadline",
        "dataset_warnings": ["2 rows have no context."],
        "rows": cases * models,
        "cases": cases,
        "config": {"dataset": "handbook.json"},
        "settings": {"language": "en", "splitter": "auto", "embedder": "offline"},
        "splitter": "punkt:en",
        "versions": {"leadline": "0.1.0", "python": "3.11.2", "duckdb": "2.0.0"},
        "gate": "fail",
        "gate_reason": "3 problems of high severity, the first: Groundedness of falcon-mini is below 0.75.",
        "counts": {},
    }
