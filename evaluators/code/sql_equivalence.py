"""SQL equivalence: does the answer's query return what the expected one returns? Both run in a process of their own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from leadline.evaluators.core import DataKind, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import need_packages, package_version

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

PROGRAM: Final = Path(__file__).with_name("_duckdb_process.py")
_GRACE: Final = 10.0
"""Seconds beyond those of both queries after which the process is killed: it starts, and makes tables."""


class SqlParams(Params):
    """Parameters of sql_equivalence."""

    dialect: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9]{0,20}$",
            description="Dialect of the queries, as sqlglot calls it (postgres, mysql, sqlite, bigquery, tsql …); "
            "empty for what most have in common.",
        ),
    ] = ""
    sql_schema: Annotated[
        str | dict[str, dict[str, str]],
        Field(description="Tables of all rows, as under the metadata's key sql_schema, which goes before it."),
    ] = ""
    sql_rows: Annotated[
        dict[str, list[Any]],
        Field(description="Rows of the tables, as under the metadata's key sql_rows, which goes before it."),
    ] = {}  # noqa: RUF012 - pydantic copies it
    timeout_s: Annotated[float, Field(gt=0, le=300, description="Seconds that a query may run.")] = 5.0
    memory_mb: Annotated[int, Field(ge=16, le=16_384, description="Memory that a query may take, in megabytes.")] = 256


@register
class SqlEquivalence(RowEvaluator):
    """Compares the answer's query with the expected one: by what they return, or by their normal forms.

    **Method.** Both are read by sqlglot, from a fence of Markdown too. Where the row has tables with rows (metadata
    ``sql_schema`` and ``sql_rows``, or the parameters of these names), both run on DuckDB, in memory, translated from
    the ``dialect``; they are equivalent if they return the same rows, each as often, in the same order where the
    expected query has an ORDER BY at its end: rows of equal keys may come in any. Names of columns do not count, their
    order does; numbers are compared to nine digits. Without rows they are equivalent if their normal forms are the same
    text: names qualified and in one case, aliases numbered, operands that may change places sorted, constants folded.
    ``sql_valid`` is the share of answers that are one query at all. Of several expected queries one suffices.

    ``sql_schema`` is DDL (``CREATE TABLE``, ``CREATE VIEW``, ``INSERT``) or an object ``{"table": {"column":
    "TYPE"}}``; ``sql_rows`` is ``{"table": [[1, "a"], …]}``, or with objects instead of lists.

    **Edge cases.**

    * Equal results on a few rows are no proof, and different normal forms are none of the contrary: give rows that tell
      wrong queries apart, and prefer running to comparing text.
    * An answer that is no query, changes something, fails, or takes too long is not equivalent: 0. Where the expected
      query or the tables fail, the row is unscored.
    * Queries run in a process of their own, without files, network, extensions and settings, on one thread, with
      limits of time, memory and 100,000 rows of result.
    * Queries of more than 20,000 characters are not read.

    **Source.** Execution accuracy as in Spider (Yu et al. 2018) and BIRD (Li et al. 2023), of bags of rows instead of
    sets.
    """

    spec = Spec(
        id="sql_equivalence",
        name="SQL Equivalence",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        also_reads=(RowField.METADATA,),
        packages=("sqlglot",),
        metrics=(
            Metric.higher(
                "sql_equivalence",
                "Share of answers whose query returns what an expected one returns.",
                name="SQL equivalence",
                primary=True,
                share=True,
            ),
            Metric.higher("sql_valid", "Share of answers that are one query in SQL.", name="Valid SQL", share=True),
        ),
        suits=(DataKind.SQL_REFERENCES,),
        version="2",
        keywords=("rule-based", "sql", "text-to-sql", "execution accuracy", "duckdb", "query"),
        source="Yu et al. 2018, https://arxiv.org/abs/1809.08887",
    )
    parameters = SqlParams
    params: SqlParams

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers: what queries return is for DuckDB to say."""
        return super().identity(ctx) | {"duckdb": package_version("duckdb")}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Compare the queries of rows; all run in one process.

        Raises:
            UsageError: The package sqlglot is not installed.
        """
        if not rows:
            return []
        need_packages(self.spec.id, self.spec.packages)
        with QueryRunner() as runner:
            return [self._guarded(row, ctx, lambda row, _: self._compared(row, runner)) for row in rows]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare the queries of one row."""
        with QueryRunner() as runner:
            return self._compared(row, runner)

    def _compared(self, row: Row, runner: QueryRunner) -> RowScore:
        from leadline.evaluators.code import _sql_queries as sql  # sqlglot is optional

        dialect = self.params.dialect
        schema = row.metadata.get(sql.SCHEMA) or self.params.sql_schema
        rows = row.metadata.get(sql.ROWS) or self.params.sql_rows
        try:
            wanted = [sql.query_of(text, dialect) for text in row.expected_answers]
            tables = sql.tables_of(schema, rows, dialect)
        except sql.SqlFault as fault:
            return self._unscored(f"The expected query or the tables cannot be used: {fault}.")
        try:
            answer = sql.query_of(row.actual_answer or "", dialect)
        except sql.SqlFault as fault:
            return RowScore({"sql_equivalence": 0.0, "sql_valid": 0.0}, Evidence(f"The answer is no query: {fault}."))
        why = ""
        for expected in wanted:
            if tables.filled:
                asked = sql.pair_of(expected, answer, tables) | {"memory": f"{self.params.memory_mb}MB"}
                found = runner.compare(asked, self.params.timeout_s)
                if found.get("fault") and found["side"] != "actual":
                    return self._unscored(f"The expected query or the tables fail: {found['message']}.")
                why = why or _difference(found)
                equal = bool(found.get("equal"))
            else:
                try:
                    ours, theirs = (sql.normal_form(query, dialect, tables.columns) for query in (answer, expected))
                except sql.SqlFault as fault:
                    return self._unscored(f"The queries cannot be compared: {fault}.")
                equal = ours == theirs
                why = why or f"The normal forms differ: {ours[:300]} instead of {theirs[:300]}."
            if equal:
                how: dict[str, Json] = {"by": "result" if tables.filled else "normal form"}
                return RowScore({"sql_equivalence": 1.0, "sql_valid": 1.0}, Evidence(data=how))
        return RowScore({"sql_equivalence": 0.0, "sql_valid": 1.0}, Evidence(why))

    def _unscored(self, message: str) -> RowScore:
        return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message[:500])


def _difference(found: Mapping[str, Any]) -> str:
    """Return in a sentence how two results differ, or why there is none."""
    if found.get("fault"):
        return f"The answer's query fails: {found['message']}."
    (wanted, given), (columns, others) = found["rows"], found["columns"]
    if columns != others:
        return f"The query returns {others} columns instead of {columns}."
    return (
        f"The query returns {given} rows instead of {wanted}." if wanted != given else "The query returns other rows."
    )


class QueryRunner:
    """Runs pairs of queries in a process of its own, for the length of a ``with``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    def __enter__(self) -> QueryRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def compare(self, asked: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return what the process says of a pair of queries; where it is stopped, or ends, during which of them.

        The next pair then gets another process.

        Args:
            asked: ``setup``, ``tables``, ``memory``, ``expected``, ``actual`` and ``ordered``.
            seconds: How long each query may take.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={}, cwd="/",
            )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        side = "setup"
        try:
            self._process.stdin.write(json.dumps({**asked, "seconds": seconds}).encode() + b"\n")
            self._process.stdin.flush()
            deadline = time.monotonic() + 2 * seconds + _GRACE
            while True:
                answer: dict[str, Any] = json.loads(self._line(deadline))
                if "begins" in answer:
                    side = answer["begins"]
                    continue
                if answer.get("fault") == "memory":  # DuckDB does not outlive an allocation that failed
                    self._stop()
                return answer
        except (OSError, ValueError, TimeoutError):
            self._stop()
            why = "the process that runs queries was stopped: one took too much time or memory"
            return {"fault": "stopped", "side": side, "message": why}

    def _line(self, deadline: float) -> bytes:
        assert self._process is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        out = self._process.stdout.fileno()
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise TimeoutError
            part = os.read(out, 65_536)
            if not part:
                raise ValueError("the process ended")
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        continue
            self._process.wait()
            self._process, self._said = None, b""
