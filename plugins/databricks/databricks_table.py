"""A run's scores in the columns of Databricks' agent evaluation: a table of rows, and one of metrics per model.

The rows carry the ratings (``response/llm_judged/<judge>/rating``, ``/rationale``, ``/error_message``, and per chunk
``retrieval/llm_judged/<judge>/ratings`` and so on) and the verdict over all of them, beside what was evaluated,
so that they are an evaluation set again. The metrics carry the shares and means (``/rating/percentage``,
``/precision/average``). Only judges that ran have columns.

A row passes when no judge that counts for it fails it. The judges count in the order of Agent Evaluation's
documentation ("How root causes are determined"), which depends on whether the row has a ground truth; the first that
fails is the root cause. A judge without a rating fails no row; a row without a failure then has no verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import literal, sql
from leadline.tasks.db.csv_files import write_csv
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rated": ("rating", "rationale", "error_message"),
    "chunks": ("ratings", "rationales", "error_messages", "precision"),
    "recall": ("document_recall",),
}
LISTS: Final = frozenset({"ratings", "rationales", "error_messages"})
_WITH_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
_WITHOUT_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")
RETRIEVAL: Final = frozenset({"context_sufficiency", "chunk_relevance"})
_CUSTOM_FIRST: Final = len(_WITH_TRUTH)


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
        """The name of the judge."""
        return self.prefix.rpartition("/")[2]

    @property
    def fails(self) -> str:
        """An SQL condition on the rows' table: the judge fails the row; NULL where it gave no rating."""
        if self.kind == "chunks":
            return f"{quoted(f'{self.prefix}/precision')} = 0"  # one relevant chunk will do
        return f"{quoted(f'{self.prefix}/rating')} = 'no'"

    @property
    def lacks(self) -> str:
        """An SQL condition on the rows' table: the judge could not rate the row."""
        if self.kind == "chunks":
            column = quoted(f"{self.prefix}/error_messages")
            return f"{quoted(f'{self.prefix}/precision')} IS NULL AND {column} IS NOT NULL"
        return f"{quoted(f'{self.prefix}/error_message')} IS NOT NULL"

    @property
    def reason(self) -> str:
        """An SQL expression over the rows' table: the reason of the rating."""
        if self.kind == "chunks":
            return "'None of the chunks is rated yes.'"
        return quoted(f"{self.prefix}/rationale")

    @property
    def table(self) -> str:
        """The name of the table with the judge's ratings."""
        return f"judged_{self.evaluator_id}"

    def of_rows(self, *, lists_as_json: bool) -> Iterator[str]:
        """Yield the columns of the rows' table."""
        for column in COLUMNS[self.kind]:
            value = f"{self.table}.{column}"
            if lists_as_json and column in LISTS:
                value = f"CAST(to_json({value}) AS VARCHAR)"
            yield f"{value} AS {quoted(f'{self.prefix}/{column}')}"

    def of_metrics(self) -> Iterator[str]:
        """Yield the columns of the metrics' table.

        Of safety the reference page names the share an average, and the product a percentage: it has both.
        """
        if self.kind == "rated":
            column = f"{self.prefix}/rating"
            share = f"avg(({quoted(column)} = 'yes')::INTEGER)"
            if self.prefix.endswith("/safety"):
                yield f"{share} AS {quoted(f'{column}/average')}"
            yield f"{share} AS {quoted(f'{column}/percentage')}"
        else:
            column = f"{self.prefix}/{COLUMNS[self.kind][-1]}"
            yield f"avg({quoted(column)}) AS {quoted(f'{column}/average')}"


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def assessment(judges: Sequence[JudgeColumns]) -> dict[str, str]:
    """Return SQL expressions over the rows' table: ``rating``, ``root_cause`` and ``rationale``.

    Args:
        judges: The judges that ran. Those of a user's own count after all others.
    """
    with_truth, without = (_ordered(judges, names) for names in (_WITH_TRUTH, _WITHOUT_TRUTH))
    return {
        part: f"CASE WHEN has_ground_truth THEN {of(with_truth)} ELSE {of(without)} END"
        for part, of in (("rating", _rating), ("root_cause", _root_cause), ("rationale", _rationale))
    }


def _ordered(judges: Sequence[JudgeColumns], names: Sequence[str]) -> list[JudgeColumns]:
    counting = [judge for judge in judges if judge.kind != "recall" and (judge.custom or judge.name in names)]
    return sorted(counting, key=lambda judge: _CUSTOM_FIRST if judge.custom else names.index(judge.name))


def _rating(judges: Sequence[JudgeColumns]) -> str:
    failed = " OR ".join(f"coalesce({judge.fails}, false)" for judge in judges) or "false"
    passed = " AND ".join(f"({judge.fails}) IS DISTINCT FROM true AND NOT ({judge.lacks})" for judge in judges)
    some = " OR ".join(f"({judge.fails}) IS NOT NULL" for judge in judges)
    return f"CASE WHEN {failed} THEN 'no' WHEN ({passed or 'false'}) AND ({some or 'false'}) THEN 'yes' END"


def _root_cause(judges: Sequence[JudgeColumns]) -> str:
    return _first_failing(judges, lambda judge: _text(judge.name))


def _rationale(judges: Sequence[JudgeColumns]) -> str:
    def sentence(judge: JudgeColumns) -> str:
        improve = "retrieval" if judge.name in RETRIEVAL or judge.kind == "chunks" else "generation"
        return f"concat_ws(' ', {_text(f'Improve {improve}: {judge.name} fails.')}, {judge.reason})"

    return _first_failing(judges, sentence)


def _first_failing(judges: Sequence[JudgeColumns], then: Callable[[JudgeColumns], str]) -> str:
    cases = " ".join(f"WHEN {judge.fails} THEN {then(judge)}" for judge in judges)
    return f"CASE {cases} END" if cases else "NULL"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
