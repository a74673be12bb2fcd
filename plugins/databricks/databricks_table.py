"""A run's scores in the columns of Databricks' agent evaluation: a table of rows, and one of metrics per model.

The rows carry the ratings (``response/llm_judged/<judge>/rating``, ``/rationale``, ``/error_message``, and per chunk
``retrieval/llm_judged/<judge>/ratings`` and so on) and the verdict over all of them, beside what was evaluated,
so that they are an evaluation set again. The metrics carry the shares and means (``/rating/percentage``,
``/precision/average``). Only judges that ran have columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.databricks.databricks_judges import JudgeColumns, assessment
from leadline.tasks.db import literal, sql
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CUSTOM: Final = "databricks.custom"
JUDGES: Final[Mapping[str, tuple[str, str]]] = {
    "databricks.correctness": ("rated", "response/llm_judged/correctness"),
    "databricks.relevance_to_query": ("rated", "response/llm_judged/relevance_to_query"),
    "databricks.groundedness": ("rated", "response/llm_judged/groundedness"),
    "databricks.safety": ("rated", "response/llm_judged/safety"),
    "databricks.chunk_relevance": ("chunks", "retrieval/llm_judged/chunk_relevance"),
    "databricks.document_recall": ("recall", "retrieval/ground_truth"),
    "databricks.context_sufficiency": ("rated", "retrieval/llm_judged/context_sufficiency"),
}
"""The statement that reads an evaluator's scores, and what its columns begin with."""

CSV: Final = ".csv"
COPIED: Final[Mapping[str, str]] = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".json": "FORMAT json, ARRAY true",
}
FORMATS: Final = (".parquet", CSV, ".json")


@register_exporter
class DatabricksTables(Exporter):
    """The table of rows and the table of metrics."""

    name = "databricks"

    def __init__(self, suffix: str = ".parquet") -> None:
        """Choose a file format by its suffix, ``.parquet``, ``.csv`` (lists are JSON) or ``.json``."""
        self.suffix = suffix
        self.files = (f"eval_results{suffix}", f"eval_results_metrics{suffix}")

    @classmethod
    def for_suffix(cls, suffix: str) -> DatabricksTables:
        """Return an exporter of this file format, of Parquet for a folder.

        Raises:
            UsageError: The tables cannot be written in this file format.
        """
        if suffix and suffix not in FORMATS:
            raise UsageError(
                f"The format databricks writes {', '.join(FORMATS)}, not {suffix}.", code=ErrorCode.CONFIG_OUTPUT
            )
        return cls(suffix or ".parquet")

    def write(self, results: RunResults, folder: Path) -> None:
        """Write both tables.

        Raises:
            UsageError: No Databricks judge ran.
        """
        judges = judges_of(results.connection)
        if not judges:
            raise UsageError(
                f"Run {results.facts.run} asked none of Databricks' judges.",
                hint="Score with: --suite databricks",
                code=ErrorCode.STORE_NO_RESULTS,
            )
        make_tables(results.connection, judges, lists_as_json=self.suffix == CSV)
        for table, file in zip(("eval_results", "eval_metrics"), self.files, strict=True):
            if self.suffix == CSV:
                write_csv(results.connection, f"FROM {table}", folder / file)
            else:
                results.connection.execute(f"COPY {table} TO {literal(folder / file)} ({COPIED[self.suffix]})")


def judges_of(connection: DuckDBPyConnection) -> list[JudgeColumns]:
    """Return the Databricks judges of a run, in the order of the reference, the custom one last."""
    found = {
        evaluator: (evaluator_id, metric_id, json.loads(params))
        for evaluator, evaluator_id, metric_id, params in connection.execute(
            "SELECT evaluator, evaluator_id, metric_id, params FROM evaluators JOIN metrics USING (evaluator_id) "
            "WHERE starts_with(evaluator, 'databricks.')"
        ).fetchall()
    }
    judges = [
        JudgeColumns(kind, prefix, *found[evaluator][:2])
        for evaluator, (kind, prefix) in JUDGES.items()
        if evaluator in found
    ]
    for evaluator_id, metric_id, params in (found[key] for key in found if key.partition("#")[0] == CUSTOM):
        by_chunk = params["assessment_type"] == "RETRIEVAL"
        prefix = f"{'retrieval' if by_chunk else 'response'}/llm_judged/{params['assessment_name']}"
        judges.append(JudgeColumns("chunks" if by_chunk else "rated", prefix, evaluator_id, metric_id, custom=True))
    return judges


def make_tables(connection: DuckDBPyConnection, judges: Sequence[JudgeColumns], *, lists_as_json: bool = False) -> None:
    """Create the temporary tables ``eval_results`` and ``eval_metrics``.

    Args:
        judges: The judges that ran.
        lists_as_json: Write lists as JSON text, for files without lists.
    """
    for judge in judges:
        connection.execute(
            sql(f"databricks/{judge.kind}").format(
                table=judge.table, evaluator_id=judge.evaluator_id, metric_id=judge.metric_id
            )
        )
    overall = assessment(judges)
    connection.execute(
        sql("databricks/rows").format(
            columns=", ".join(column for judge in judges for column in judge.of_rows(lists_as_json=lists_as_json)),
            metric_ids=", ".join(str(judge.metric_id) for judge in judges),
            joins=" ".join(f"LEFT JOIN {judge.table} USING (row_id, trial)" for judge in judges),
            lists=sql(f"databricks/{'lists_as_json' if lists_as_json else 'lists'}"),
            rating=overall["rating"],
            root_cause=overall["root_cause"],
            rationale=overall["rationale"],
        )
    )
    connection.execute(
        sql("databricks/runs").format(columns=", ".join(column for judge in judges for column in judge.of_metrics()))
    )
