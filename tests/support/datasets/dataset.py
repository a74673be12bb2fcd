"""A loaded dataset made in memory, for tests of the steps behind loading."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

from leadline.evaluators.data import RowField
from leadline.tasks.db import DATASET_TABLES, STORED, literal, sql
from leadline.tasks.ground.files import publish_folder
from leadline.tasks.store.store import Store
from tests.support.stores.filling import files_of, insert, write_files


def make_dataset(store: Store, answers: list[dict[str, Any]]) -> str:
    """Write the Parquet files of a dataset and return its digest.

    Each answer is a flat record: case, model, question, expected (list), context (list of strings or of pairs with a
    document), answer, condition, categories, metadata (of the case), row_metadata, error, duration_s, cost_usd,
    original (key of the original case), expected_annotations, predicted_annotations.
    """
    name = hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()[:32]
    publish_folder(store.dataset(name), lambda folder: write_files(folder, _files(json.dumps(answers))))
    return name


@lru_cache(64)
def _files(answers: str) -> dict[str, bytes]:
    """Return the files of a dataset, of which many tests have the same."""
    return files_of(lambda folder: _write(folder, json.loads(answers)))


def _dumped(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _write(folder: Path, answers: list[dict[str, Any]]) -> None:
    cases = {record["case"]: number for number, record in reversed(list(enumerate(answers)))}
    cases = {case: number for number, case in enumerate(sorted(cases, key=cases.__getitem__))}
    models = {model: n for n, model in enumerate(dict.fromkeys(record["model"] for record in answers))}
    with duckdb.connect() as connection:
        connection.execute(sql("dataset"))
        lines: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for model, number in models.items():
            rag = any(r.get("context") for r in answers if r["model"] == model)
            lines["models"].append((number, model, model, None, rag))
        seen = set()
        for row_id, record in enumerate(answers):
            case_id = cases[record["case"]]
            if case_id not in seen:
                seen.add(case_id)
                lines["cases"].append(
                    (case_id, record["case"], record.get("question"), record.get("expected", []),
                     record.get("documents", []), record.get("condition"), record.get("categories", []),
                     json.dumps(record.get("metadata", {})), _dumped(record.get("expected_annotations")))
                )  # fmt: skip
                if "original" in record:
                    original = cases[record["original"]]
                    lines["relationships"].append(
                        (case_id, original, "perturbation_source", record.get("perturbation", ""))
                    )
            context = [
                {"content": chunk, "doc_uri": None}
                if isinstance(chunk, str)
                else {"content": chunk[0], "doc_uri": chunk[1]}
                for chunk in record.get("context", [])
            ]
            lines["rows"].append(
                (row_id, case_id, models[record["model"]], record.get("answer"), context, record.get("error"),
                 record.get("duration_s"), record.get("cost_usd"), None, None,
                 json.dumps(record.get("row_metadata", {})), _dumped(record.get("predicted_annotations")))
            )  # fmt: skip
            values = {
                RowField.QUESTION: record.get("question"),
                RowField.EXPECTED_ANSWER: record.get("expected") or None,
                RowField.RETRIEVED_CONTEXT: context or None,
                RowField.ACTUAL_ANSWER: None if record.get("error") else record.get("answer"),
                RowField.CONDITION: record.get("condition"),
                RowField.CATEGORIES: record.get("categories", []),
                RowField.EXPECTED_DOCUMENTS: record.get("documents"),
                RowField.RETRIEVED_DOCUMENTS: [c["doc_uri"] for c in context if c["doc_uri"]] or None,
                RowField.METADATA: {},
                RowField.EXPECTED_ANNOTATIONS: record.get("expected_annotations"),
                RowField.PREDICTED_ANNOTATIONS: record.get("predicted_annotations"),
            }
            digests = (
                None if values[field] is None else hashlib.sha256(json.dumps(values[field]).encode()).digest()[:16]
                for field in STORED
            )
            lines["digests"].append((row_id, *digests))
        stored = ", ".join(("row_id", *(field.value for field in STORED)))
        for table, found in lines.items():
            insert(connection, table, found, stored if table == "digests" else "*")
        for table in DATASET_TABLES:
            connection.execute(f"COPY {table} TO {literal(folder / f'{table}.parquet')} (FORMAT parquet)")
