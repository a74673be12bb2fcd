"""A run's scores in the columns of Databricks' agent evaluation: a table of rows, and one of metrics per model.

The rows carry what the judges said (``response/llm_judged/<judge>/rating``, ``/rationale``, ``/error_message``, and per
chunk ``retrieval/llm_judged/<judge>/ratings`` and so on) and the verdict over all of them, beside what was evaluated,
so that they are an evaluation set again. The metrics carry the shares and means (``/rating/percentage``,
``/precision/average``). Only judges that ran have columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.tasks.db.connection import literal, open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.publish.exports.databricks_assessment import assessment
from leadline.tasks.store.files import replacing
from leadline.tasks.store.store import Run, Store

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

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rated": ("rating", "rationale", "error_message"),
    "chunks": ("ratings", "rationales", "error_messages", "precision"),
    "recall": ("document_recall",),
}
LISTS: Final = frozenset({"ratings", "rationales", "error_messages"})
FORMATS: Final[Mapping[str, str]] = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".csv": "FORMAT csv, HEADER",
    ".json": "FORMAT json, ARRAY true",
}
ROWS_FILE: Final = "eval_results.parquet"
METRICS: Final = "metrics"


@dataclass(frozen=True, slots=True)
class JudgeColumns:
    """The columns of one judge.

    Attributes:
        kind: ``rated``, ``chunks`` or ``recall``.
        prefix: What they begin with.
        evaluator_id: Number of the evaluator in the run.
        metric_id: Number of its metric.
        custom: Whether it is the user's own.
    """

    kind: str
    prefix: str
    evaluator_id: int
    metric_id: int
    custom: bool = False

    @property
    def name(self) -> str:
        """What the judge is called."""
        return self.prefix.rpartition("/")[2]

    @property
    def fails(self) -> str:
        """An expression over the rows' table: whether it fails a row, NULL where it said nothing."""
        if self.kind == "chunks":
            return f"{_quoted(f'{self.prefix}/precision')} = 0"  # one relevant chunk will do
        return f"{_quoted(f'{self.prefix}/rating')} = 'no'"

    @property
    def lacks(self) -> str:
        """An expression over the rows' table: whether it was to judge a row and could not."""
        if self.kind == "chunks":
            column = _quoted(f"{self.prefix}/error_messages")
            return f"{_quoted(f'{self.prefix}/precision')} IS NULL AND {column} IS NOT NULL"
        return f"{_quoted(f'{self.prefix}/error_message')} IS NOT NULL"

    @property
    def reason(self) -> str:
        """An expression over the rows' table: why it rated a row so."""
        if self.kind == "chunks":
            return "'None of the chunks is rated yes.'"
        return _quoted(f"{self.prefix}/rationale")

    @property
    def table(self) -> str:
        """Name of the table with what the judge said."""
        return f"judged_{self.evaluator_id}"

    def of_rows(self, *, lists_as_json: bool) -> Iterator[str]:
        """Yield the columns of the rows' table."""
        for column in COLUMNS[self.kind]:
            value = f"{self.table}.{column}"
            if lists_as_json and column in LISTS:
                value = f"CAST(to_json({value}) AS VARCHAR)"
            yield f"{value} AS {_quoted(f'{self.prefix}/{column}')}"

    def of_metrics(self) -> Iterator[str]:
        """Yield the columns of the metrics' table.

        Of safety the reference page names the share an average, and the product a percentage: it has both.
        """
        if self.kind == "rated":
            column = f"{self.prefix}/rating"
            share = f"avg(({_quoted(column)} = 'yes')::INTEGER)"
            if self.prefix.endswith("/safety"):
                yield f"{share} AS {_quoted(f'{column}/average')}"
            yield f"{share} AS {_quoted(f'{column}/percentage')}"
        else:
            column = f"{self.prefix}/{COLUMNS[self.kind][-1]}"
            yield f"avg({_quoted(column)}) AS {_quoted(f'{column}/average')}"


def export_databricks(store: Store, run: Run, output: Path) -> tuple[Path, Path]:
    """Write both tables of a run and return where they are.

    Args:
        store: The store.
        run: The run.
        output: The file of the rows' table, whose ending says the format (``.parquet``, ``.csv`` with lists as JSON, or
            ``.json``); the metrics are written beside it, with ``_metrics`` after its name. A folder gets
            ``eval_results.parquet`` and ``eval_results_metrics.parquet``.

    Raises:
        UsageError: No Databricks judge ran, the run has no results, or the ending is another.
    """
    target = output / ROWS_FILE if output.is_dir() else output
    how = FORMATS.get(target.suffix.lower())
    if how is None:
        raise UsageError(
            f"{output} is no folder and ends in none of {', '.join(FORMATS)}.", code=ErrorCode.CONFIG_OUTPUT
        )
    metrics = target.with_stem(f"{target.stem}_{METRICS}")
    with open_run(store, run, read_only=True) as connection:
        judges = judges_of(connection)
        if not judges:
            raise UsageError(
                f"Run {run.id} asked none of Databricks' judges.",
                hint="Score with: --suite databricks",
                code=ErrorCode.STORE_NO_RESULTS,
            )
        make_tables(connection, judges, lists_as_json=target.suffix.lower() == ".csv")
        for table, path in (("eval_results", target), ("eval_metrics", metrics)):
            with replacing(path) as draft:
                connection.execute(f"COPY {table} TO {literal(draft)} ({how})")
    return target.absolute(), metrics.absolute()


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
    """Create the temporary tables ``eval_results`` and ``eval_metrics``."""
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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
