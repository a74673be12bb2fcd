"""``leadline export``: a run's published results, copied to where somebody wants them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.flows.cli.session import Session, say, session_options

if TYPE_CHECKING:
    from leadline.tasks.store.store import Run, Store

TABLES: Final = ("scores", "aggregates", "problems", "flips")


@click.command()
@click.argument("name", metavar="RUN")
@click.option(
    "--as",
    "--format",
    "form",
    metavar="FORMAT",
    help="What to write: html, markdown, json, junit, csv, parquet, databricks, tree, all, or a format of another "
    "package.  [default: by PATH's name]",
)
@click.option("--table", type=click.Choice(TABLES), default="scores", show_default=True, help="The table, for csv.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    required=True,
    help="A file, a folder to put it into, or - for standard output.",
)
@click.option("--again", is_flag=True, help="Make the files anew from the run's database, as this version makes them.")
@session_options
@click.pass_obj
def export(session: Session, /, name: str, form: str | None, table: str, output: Path, again: bool) -> None:
    """Write a run's results to PATH.

    RUN is its id, the beginning of it, or `latest`. The format `all` copies the whole folder of results, `tree` makes a
    folder for each evaluator; `databricks` writes the rows and the metrics in the columns of its agent evaluation, as
    .parquet, .csv or .json. Any other table or selection: leadline sql. A file that is missing is made from the run's
    database.
    """
    from leadline.tasks.publish.exports.exporter import EXPORTERS
    from leadline.tasks.runs.lookup import find_run

    store = session.open_store()
    run = find_run(store, name)
    store.fetch_results(run)
    form = form or _form_of(output)
    exporter = None if form == "all" else EXPORTERS.get(form)()
    file = f"{table}.csv" if form == "csv" else ""
    if exporter and exporter.published and exporter.files:
        file = file or exporter.files[0]
    try:
        if again or (file and not (run.results / file).exists()):
            _publish_again(store, run)
        if exporter is None:
            written = [_copy_all(run, output)]
        elif file:
            written = _copy(_published(run, file), output)
        else:
            written = _export(store, run, form, output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code=ErrorCode.CONFIG_OUTPUT) from error
    for path in written:
        say(f"Wrote {path}")


def _form_of(output: Path) -> str:
    """Return the format that the name of a file says; published formats are preferred."""
    from leadline.tasks.publish.exports.exporter import EXPORTERS

    exporters = sorted(EXPORTERS.all(), key=lambda exporter: not exporter.published)
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


def _export(store: Store, run: Run, form: str, output: Path) -> list[Path]:
    """Write a format that is not published."""
    from tempfile import TemporaryDirectory

    from leadline.tasks.publish.exports.export_run import export_run

    if str(output) != "-":
        return export_run(store, run, form, output)
    with TemporaryDirectory(prefix="leadline-export-") as folder:
        return _copy(export_run(store, run, form, Path(folder))[0], output)


def _publish_again(store: Store, run: Run) -> None:
    """Make the results of a completed run from its database."""
    from leadline.tasks.pipeline import publish_results
    from leadline.tasks.runs.lookup import status

    if status(run.read()) == "completed":
        publish_results(store, run, None)


def _published(run: Run, file: str) -> Path:
    path = run.results / file
    if not path.exists():
        raise UsageError(
            f"Run {run.id} has no {file}: it was not completed.",
            hint="Look at: leadline runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    return path


def _copy(source: Path, output: Path) -> list[Path]:
    """Copy a file to a file, into a folder or to standard output, and return what was written."""
    if str(output) == "-":
        with source.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return []
    from leadline.tasks.store.files import replacing

    target = output / source.name if output.is_dir() else output
    with replacing(target) as draft:
        shutil.copyfile(source, draft)
    return [target.absolute()]


def _copy_all(run: Run, output: Path) -> Path:
    """Copy the folder of results to a new folder."""
    from leadline.tasks.publish.exports.export_run import empty_folder

    if not run.results.is_dir():
        raise UsageError(
            f"Run {run.id} has no results: it was not completed.",
            hint="Look at: leadline runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    empty_folder(output)
    shutil.copytree(run.results, output, dirs_exist_ok=True)
    return output.absolute()
