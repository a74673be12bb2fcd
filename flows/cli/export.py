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

FILES: Final = {
    "html": "report.html",
    "markdown": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "csv": "scores.csv",
    "parquet": "scores.parquet",
}
SUFFIXES: Final = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".json": "json",
    ".xml": "junit",
    ".csv": "csv",
    ".parquet": "parquet",
}
TABLES: Final = ("scores", "aggregates", "problems", "flips")


@click.command()
@click.argument("name", metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FILES, "databricks", "all"]),
    help="What to write.  [default: by PATH's name]",
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
    """Write the results of RUN (its id, the beginning of it, or `latest`) to PATH.

    The format `all` copies the whole folder of results; `databricks` writes the rows and the metrics in the columns of
    its agent evaluation, as .parquet, .csv or .json. Any other table or selection: leadline sql. A file that is missing
    is made from the run's database.
    """
    from leadline.tasks.runs.lookup import find_run

    store = session.open_store()
    run = find_run(store, name)
    store.fetch_results(run)
    form = form or SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise UsageError(
            f"{output} does not say which format it is to have.",
            hint=f"Give --format {'|'.join(FILES)}.",
            code=ErrorCode.CONFIG_OUTPUT,
        )
    try:
        if again or (form not in ("all", "databricks") and not (run.results / _file(form, table)).exists()):
            _publish_again(store, run)
        if form == "all":
            written: Path | None = _copy_all(run, output)
        elif form == "databricks":
            from leadline.tasks.publish.exports.databricks_table import export_databricks

            written, metrics = export_databricks(store, run, output)
            say(f"Wrote {metrics}")
        else:
            written = _copy(_published(run, _file(form, table)), output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code=ErrorCode.CONFIG_OUTPUT) from error
    if written is not None:
        say(f"Wrote {written}")


def _file(form: str, table: str) -> str:
    return f"{table}.csv" if form == "csv" else FILES[form]


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


def _copy(source: Path, output: Path) -> Path | None:
    if str(output) == "-":
        with source.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return None
    from leadline.tasks.store.files import replacing

    target = output / source.name if output.is_dir() else output
    with replacing(target) as draft:
        shutil.copyfile(source, draft)
    return target.absolute()


def _copy_all(run: Run, output: Path) -> Path:
    if not run.results.is_dir():
        raise UsageError(
            f"Run {run.id} has no results: it was not completed.",
            hint="Look at: leadline runs",
            code=ErrorCode.STORE_NO_RESULTS,
        )
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(
            f"{output} exists and is no empty folder.", hint="Name a new folder.", code=ErrorCode.CONFIG_OUTPUT
        )
    shutil.copytree(run.results, output, dirs_exist_ok=True)
    return output.absolute()
