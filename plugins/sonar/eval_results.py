"""The rows of one evaluator with their scores, as CSV, Parquet and JSON, written by DuckDB without passing Python."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import jsonio
from leadline.plugins.sonar import tree_layout
from leadline.tasks.db import literal, sql
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.publish.exports.report_json import descriptor
from leadline.tasks.publish.facts import EvaluatorView, Facts
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KIND: Final = "global-llm-eval-results"
TEXT_BUDGET: Final = 100_000_000
"""Characters that the texts of all rows may take, over all evaluators of a run and before they are written in three
formats; where they take more, the files name the rows and leave their texts in the dataset."""


def fits_texts(connection: DuckDBPyConnection, facts: Facts) -> bool:
    """Return whether every evaluator's files can repeat the texts of the rows.

    Args:
        facts: The run.
    """
    ((size,),) = connection.execute(sql("publish/text_size")).fetchall()
    return int(size) * max(1, sum(evaluator.keeps_rows for evaluator in facts.evaluators)) <= TEXT_BUDGET


def write_eval_results(results: RunResults, evaluator: EvaluatorView, folder: Path, *, texts: bool) -> None:
    """Write the three files of ``global-llm-eval-results``.

    Args:
        results: What the run found.
        evaluator: The evaluator whose rows are written.
        folder: The evaluator's folder.
        texts: Whether to repeat questions, answers and contexts.
    """
    connection, facts = results.connection, results.facts
    mimes = (tree_layout.CSV, tree_layout.PARQUET, tree_layout.JSON)
    csv, parquet, json = (tree_layout.explanation(folder, KIND, mime) for mime in mimes)
    frame = {**_frame(facts, evaluator), "texts": "included" if texts else "in the dataset"}
    splitter = str(facts.record.get("splitter") or "unknown")
    columns = _columns(evaluator)
    _make_rows(connection, evaluator, columns)
    _write_flat(connection, columns, csv, parquet, texts=texts)
    _write_json(connection, _json_query(evaluator, columns, splitter, texts=texts), json, frame)


def _columns(evaluator: EvaluatorView) -> dict[int, str]:
    """Return the column of each metric that rows have, quoted, by the metric's id."""
    metrics = [metric for metric in evaluator.metrics if not metric.dataset_level]
    names = _column_names([metric.key for metric in metrics])
    return {metric.id: _name(name) for metric, name in zip(metrics, names, strict=True)}


def _make_rows(connection: DuckDBPyConnection, evaluator: EvaluatorView, columns: Mapping[int, str]) -> None:
    """Create the table ``eval_rows``."""
    connection.execute(
        sql("publish/eval_rows").format(
            pivot="".join(
                f"max(value) FILTER (metric_id = {number} AND status = 'scored') AS {name},\n"
                for number, name in columns.items()
            ),
            metric_ids=", ".join(str(metric.id) for metric in evaluator.metrics) or "NULL",
            metrics="".join(f"measured.{name}, " for name in columns.values()),
            evaluator_id=evaluator.id,
        )
    )


def _write_flat(
    connection: DuckDBPyConnection, columns: Mapping[int, str], csv: Path, parquet: Path, *, texts: bool
) -> None:
    flat = sql("publish/eval_flat").format(
        texts=sql("publish/eval_flat_texts") if texts else "", metrics="".join(f"{name}, " for name in columns.values())
    )
    write_csv(connection, flat, csv)
    connection.execute(f"COPY ({flat}) TO {literal(parquet)} (FORMAT parquet, COMPRESSION zstd)")


def _json_query(evaluator: EvaluatorView, columns: Mapping[int, str], splitter: str, *, texts: bool) -> str:
    primary = evaluator.primary
    return sql("publish/eval_json").format(
        texts=sql("publish/eval_json_texts") if texts else "",
        metrics="".join(
            f"CASE WHEN isfinite({name}) THEN to_json({name}) WHEN {name} > 0 THEN to_json('Infinity')"
            f" WHEN {name} < 0 THEN to_json('-Infinity') END AS {name}, "
            for name in columns.values()
        ),
        tokenization=_text(splitter),
        primary=_text(primary.key if primary else "value"),
    )


def _write_json(connection: DuckDBPyConnection, query: str, path: Path, frame: dict[str, Any]) -> None:
    """Write ``{"results": [...], **frame}``: DuckDB writes the list, which is then wrapped."""
    rows = path.with_name(".rows.json")
    try:
        connection.execute(f"COPY ({query}) TO {literal(rows)} (FORMAT json, ARRAY true)")
        with rows.open("rb") as source, path.open("wb") as target:
            target.write(b'{"results": ')
            shutil.copyfileobj(source, target, 1 << 20)
            target.write(b"," + jsonio.dump(frame)[1:] + b"\n")
    finally:
        rows.unlink(missing_ok=True)


def _frame(facts: Facts, evaluator: EvaluatorView) -> dict[str, Any]:
    return {
        "models": [
            {"key": m.key, "name": m.name, "version": m.version, "model_type": "rag" if m.is_rag else "llm"}
            for m in facts.models
        ],
        "evaluator": descriptor(evaluator),
    }


_TAKEN: Final = frozenset(
    {
        "key", "test_case_key", "model_key", "trial", "question", "expected_answers", "expected_documents", "condition",
        "categories", "actual_answer", "retrieved_context", "duration_s", "cost_usd", "host_error", "unscored_reason",
        "result_error_message", "evidence", "row_id", "reason", "input", "corpus", "context", "expected_output",
        "actual_output", "output_condition", "actual_duration", "cost", "message", "actual_output_meta", "spans",
        "error",
    }
)  # fmt: skip


def _column_names(keys: list[str]) -> list[str]:
    """Return a column for each metric; one that would hide a field of the row gets the prefix ``metric_``."""
    taken = set(_TAKEN)
    names = []
    for key in keys:
        name = key
        while name.lower() in taken:
            name = f"metric_{name}"
        taken.add(name.lower())
        names.append(name)
    return names


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
