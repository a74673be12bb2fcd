"""``leadline store export``: a run's results, copied to where somebody wants them, or made where there are none."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.command.session import Session, say, session_options
from leadline.tasks.ground.files import copy_out, handed_out
from leadline.tasks.runs.lookup import find_run, status
from leadline.tasks.store.store import DROPPED, Run, Store

if TYPE_CHECKING:
    from leadline.tasks.publish.exports.exporter import Exporter

TABLES: Final = ("scores", "aggregates", "slices", "problems", "flips")
_STDOUT: Final = Path("-")


@click.command()
@click.argument("name", metavar="RUN")
@click.option(
    "--as",
    "--format",
    "form",
    metavar="FORMAT",
    help="What to write: html, markdown, json, junit, sarif, csv, parquet, databricks, sonar, all, or a format of your "
    "own.  [default: by PATH's name]",
)
@click.option("--table", type=click.Choice(TABLES), default="scores", show_default=True, help="The table, for csv.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file, a folder to put it into, or - for standard output.  [default: the run's results]",
)
@click.option("--again", is_flag=True, help="Make the files anew from the run's database, as this version makes them.")
@session_options
@click.pass_obj
def export(session: Session, /, name: str, form: str | None, table: str, output: Path | None, again: bool) -> None:
    """Write a run's results to PATH.

    RUN is its id, the beginning of it, or `latest`. The format `all` copies the whole folder of results; `sonar` makes
    a folder for each evaluator with all of its rows, in the layout of H2O Eval Studio, and csv has every score: a run
    of more than 2,000 row scores, or in a bucket, is published without these two. `databricks` writes the rows and the
    metrics in the columns of its agent evaluation, as .parquet, .csv or .json. Any other table or selection:
    leadline store sql.
    """
    from leadline.tasks.publish.exports.exporter import EXPORTERS

    store = session.open_store()
    run = find_run(store, name)
    store.fetch_results(run)
    if form is None and output is None and not again:
        raise UsageError(
            "There is nothing to export.", hint="Give --as FORMAT or -o PATH.", code=ErrorCode.CONFIG_OUTPUT
        )
    form = form or ("all" if output is None else _form_of(output, EXPORTERS.all()))
    file = f"{table}.csv" if form == "csv" else ""
    exporter = None if form == "all" else _exporter_of(file, EXPORTERS.all()) if file else EXPORTERS.get(form)()
    if exporter and exporter.published and len(exporter.files) == 1:
        (file,) = exporter.files
    try:
        if again:
            _publish_again(store, run)
        if exporter is None:
            written = [_copy_all(run, output)]
        elif file and (run.results / file).exists():
            written = _copy(run.results / file, output)
        else:
            if exporter.published:
                _require_completed(run, file or f"results as {form}")
            written = _make(store, run, exporter, file, output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code=ErrorCode.CONFIG_OUTPUT) from error
    for path in written:
        say(f"Wrote {path}")


def _form_of(output: Path, known: Sequence[type[Exporter]]) -> str:
    """Return the format that the name of a file says; published formats are preferred."""
    exporters = sorted(known, key=lambda exporter: (not exporter.published, -exporter.order))
    suffixes = {Path(exporter().files[0]).suffix: exporter.name for exporter in reversed(exporters) if exporter().files}
    suffix = output.suffix.lower()
    form = suffixes.get(".html" if suffix == ".htm" else suffix)
    if form is None:
        raise UsageError(
            f"{output} has no ending of a known format.",
            hint=f"Give --as {'|'.join(exporter.name for exporter in exporters)}.",
            code=ErrorCode.CONFIG_OUTPUT,
        )
    return form


def _exporter_of(file: str, known: Sequence[type[Exporter]]) -> Exporter:
    """Return the format that a published file belongs to."""
    return next(exporter() for exporter in known if exporter.published and file in exporter().files)


def _make(store: Store, run: Run, exporter: Exporter, file: str, output: Path | None) -> list[Path]:
    """Make what was not published, from the run's database.

    Args:
        file: The only file that is wanted, if not all of the format's.
        output: Where it goes; the run's own folder of results without it.
    """
    from leadline.tasks.publish.exports.exporter import add_to_results, export_run

    if output is None:
        return add_to_results(store, run, exporter.name)
    if not file and output != _STDOUT:
        return export_run(store, run, exporter.name, output)
    with TemporaryDirectory(prefix="leadline-export-") as folder:
        made = export_run(store, run, exporter.name, Path(folder))
        return _copy(Path(folder) / file if file else made[0], output)


def _publish_again(store: Store, run: Run) -> None:
    """Make the results of a completed run from its database."""
    from leadline.tasks.pipeline import publish_results

    if status(run.read()) == "completed":
        publish_results(store, run, None)


def _require_completed(run: Run, what: str) -> None:

    state = status(run.read())
    if state == DROPPED:
        raise run.without_results()
    if state != "completed":
        raise UsageError(
            f"Run {run.id} has no {what}: it was not completed.",
            hint="Look at: leadline store runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )


def _copy(source: Path, output: Path | None) -> list[Path]:
    """Copy a file to a file, into a folder or to standard output, and return what was written.

    Args:
        output: Where it goes; without it the file stays where it is.
    """
    if output is None:
        return [source]
    if output == _STDOUT:
        with source.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return []
    target = output / source.name if output.is_dir() else output
    with handed_out(target) as draft:
        shutil.copyfile(source, draft)
    return [target.absolute()]


def _copy_all(run: Run, output: Path | None) -> Path:
    """Copy the folder of results to a new folder."""
    from leadline.tasks.publish.exports.exporter import empty_folder

    if not run.results.is_dir():
        _require_completed(run, "results")
        raise UsageError(
            f"Run {run.id} has no results: it was not completed.",
            hint="Look at: leadline store runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    if output is None:
        return run.results
    empty_folder(output)
    copy_out(run.results, output)
    return output.absolute()
