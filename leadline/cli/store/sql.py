"""``leadline store sql``: a query over all runs together."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

import click

from leadline.evaluators.ground import ErrorCode, UsageError, count, plain
from leadline.flows.command.output import print_table
from leadline.flows.command.session import Session, on_terminal, say, session_options
from leadline.tasks.db import megabytes_here
from leadline.tasks.db.csv_files import guarded_cell, is_guarded
from leadline.tasks.ground.files import handed_out
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.runs.query import Archive


FORMATS: Final = ("table", "csv", "json", "jsonl", "parquet")
BATCH: Final = 2_000
_BESIDE_QUERY: Final = 1_000
"""Megabytes for what Python makes of a result, and for threads."""

TABLE_ROWS: Final = 200
"""Rows that a table shows on a terminal."""


@click.command()
@click.argument("query", metavar="SQL")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format.  [default: by FILE's name, or table]"
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--run", "names", multiple=True, metavar="RUN", help="Only this run; repeatable.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the N youngest runs.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Longest time of the query.",
)
@click.option(
    "--memory", type=click.FloatRange(0.5), metavar="GB", help="Memory of the query.  [default: half of the machine's]"
)
@session_options
@click.pass_obj
def sql(
    session: Session,
    /,
    query: str,
    form: str | None,
    output: Path | None,
    names: Sequence[str],
    last: int | None,
    timeout: float,
    memory: float | None,
) -> None:
    """Query all runs together, for reading only.

    SQL is one DuckDB query, or - to read it from standard input.

    The views, each with a column `run`: runs, models, cases, rows, relationships, evaluators, metrics, scores,
    repeats, evidence, aggregates, flips, flip_rates, flip_causes, baseline, model_changes, metric_changes, row_changes,
    problems, insights.
    `DESCRIBE scores` shows a view's columns.
    """
    from leadline.tasks.runs.query import archive, limited, memory_limit

    form = form or _form_of(output)
    if form == "parquet" and output is None and on_terminal():
        raise UsageError(
            "Parquet cannot be written to a terminal.", hint="Give a file: -o FILE", code=ErrorCode.CONFIG_OUTPUT
        )
    text = sys.stdin.read() if query == "-" else query
    store = session.open_store()
    megabytes = int(memory * 1000) if memory else megabytes_here() // 2
    with archive(store, _chosen(store, names, last), statement=text, memory_limit=f"{megabytes}MB") as opened:
        for line in opened.skipped:
            say(f"Not shown: {line}")
        with (
            memory_limit(megabytes + _BESIDE_QUERY),
            limited(opened.connection, seconds=timeout, memory=f"{megabytes / 1000:.2g} GB"),
        ):
            if output is None:
                _write(opened, text, form, sys.stdout)
            else:
                _write_file(opened, text, form, output)


def _form_of(output: Path | None) -> str:
    if output is None:
        return "table"
    suffix = output.suffix.removeprefix(".").lower()
    if suffix not in FORMATS[1:]:
        raise UsageError(
            f"{output} has no ending of a known format.",
            hint=f"Give --format {'|'.join(FORMATS[1:])}",
            code=ErrorCode.CONFIG_OUTPUT,
        )
    return suffix


def _write_file(opened: Archive, query: str, form: str, output: Path) -> None:

    if form == "table":
        raise UsageError(
            "A table can only be written to the terminal.",
            hint=f"Give --format {'|'.join(FORMATS[1:])}",
            code=ErrorCode.CONFIG_OUTPUT,
        )
    try:
        with handed_out(output) as draft:
            if form == "parquet":
                _write_parquet(opened, query, draft)
            else:
                with draft.open("w", encoding="utf-8", newline="") as file:
                    _write(opened, query, form, file)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code=ErrorCode.CONFIG_OUTPUT) from error


def _chosen(store: Store, names: Sequence[str], last: int | None) -> list[Run] | None:

    if not names and last is None:
        return None
    named = {run.id: run for run in (find_run(store, name) for name in names)}
    youngest = {run.id: run for run in store.runs()[-last:]} if last else {}
    return list((named | youngest).values())


def _write(opened: Archive, query: str, form: str, file: TextIO) -> None:
    if form == "parquet":
        _write_parquet(opened, query, file.buffer)
        return
    with opened.query(query) as result:
        columns = [column[0] for column in result.description or ()]
        lines = _lines(result)
        if form == "csv":
            writer = csv.writer(file, lineterminator="\n")
            shown = _guarded if is_guarded() else _cell
            writer.writerow(map(shown, columns))
            writer.writerows(map(shown, line) for line in lines)
        elif form == "jsonl":
            file.writelines(_record(columns, line) + "\n" for line in lines)
        elif form == "json":
            opening = "["
            for line in lines:
                file.write(f"{opening}\n{_record(columns, line)}")
                opening = ","
            file.write("[]\n" if opening == "[" else "\n]\n")
        else:
            _write_table(columns, lines, on_screen=on_terminal())


def _lines(result: DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while batch := result.fetchmany(BATCH):
        yield from batch


def _write_table(columns: Sequence[str], lines: Iterator[tuple[Any, ...]], *, on_screen: bool) -> None:
    shown = list(itertools.islice(lines, TABLE_ROWS) if on_screen else lines)
    numeric = [
        name
        for place, name in enumerate(columns)
        if any(isinstance(line[place], int | float) for line in shown[:BATCH])
    ]
    print_table(columns, [[_cell(value) for value in line] for line in shown], right=numeric)
    more = sum(1 for _ in lines)
    if more:
        say(f"and {count(more, 'more row')} (--format csv prints all)")


def _record(columns: Sequence[str], line: Sequence[Any]) -> str:
    return json.dumps(dict(zip(columns, map(plain, line), strict=True)), ensure_ascii=False)


def _cell(value: Any) -> Any:
    """Return a value as one cell: nested values as JSON, the others as they are."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(plain(value), ensure_ascii=False)
    return plain(value)


def _guarded(value: Any) -> Any:
    """Return a value as one cell of a CSV file that spreadsheets and terminals do not obey."""
    cell = _cell(value)
    return guarded_cell(cell) if isinstance(cell, str) and not isinstance(value, float) else cell  # -inf is a number


def _write_parquet(opened: Archive, query: str, target: Path | BinaryIO) -> None:
    import pyarrow.parquet as pq  # other formats do without Arrow

    with (
        opened.arrow(query, BATCH * 10) as reader,
        pq.ParquetWriter(target, reader.schema, compression="zstd") as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
