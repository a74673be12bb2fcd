"""Output formats: classes that write the results of a run as files, and writing a run in those that it is to have.

An exporter is a class in a module of this package. Other packages bring theirs by an entry point in the group
``leadline.exporters`` that names a module to import.
"""

from __future__ import annotations

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, StoreError, UsageError
from leadline.tasks.analyse.kept_analysis import known
from leadline.tasks.db import open_run
from leadline.tasks.ground.files import copy_out, handed_out, remove, replacing, temporary_beside
from leadline.tasks.ground.plugins import Plugins, failure
from leadline.tasks.publish.report.page_data import read_page
from leadline.tasks.publish.run_results import RunResults, read_results
from leadline.tasks.store.parquet_files import file_digest
from leadline.tasks.store.store import DIGESTS, Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.publish.summary import Summary


class Exporter(ABC):
    """One output format.

    Attributes:
        name: What ``leadline store export --as`` calls it.
        files: The files it writes, the main one first; empty if their names depend on the run.
        published: Whether every run is published in this format, and not only one whose ``--results`` names it.
        repeats_rows: Whether it writes every row of the run once more; runs above :data:`.run_results.SMALL_RUN` are
            published in such a format only when that was asked for.
        of_analysis: Whether its files say only what the analysis of scores found, so that an earlier run's are the same
            where that was taken over.
    """

    name: ClassVar[str]
    files: tuple[str, ...]
    published: ClassVar[bool] = False
    repeats_rows: ClassVar[bool] = False
    of_analysis: ClassVar[bool] = False
    order: ClassVar[int] = 1000

    @abstractmethod
    def write(self, results: RunResults, folder: Path) -> None:
        """Write the files.

        Args:
            folder: An existing folder. When a run is published it already contains the files of lower order.
        """

    @classmethod
    def for_suffix(cls, suffix: str) -> Exporter:
        """Return an exporter whose main file ends so; a format with only one ending ignores the suffix."""
        return cls()


EXPORTERS: Final[Plugins[Exporter]] = Plugins("exporter", "leadline.tasks.publish.exports", "leadline.exporters")
register_exporter = EXPORTERS.register


def published_exporters(results: RunResults) -> list[Exporter]:
    """Return the formats in which a run is published, in their order."""
    found = [
        exporter()
        for exporter in EXPORTERS.all()
        if exporter.name == results.asked
        or (exporter.published and (results.repeats_rows or not exporter.repeats_rows))
    ]
    return sorted(found, key=lambda exporter: exporter.order)


def write_files(exporter: Exporter, results: RunResults, folder: Path) -> None:
    """Write the files of a format; an error that nobody foresaw names it.

    Args:
        folder: An existing folder.
    """
    try:
        exporter.write(results, folder)
    except LeadlineError:
        raise
    except Exception as error:
        raise failure(EXPORTERS.kind, exporter, error, ErrorCode.RUN_PUBLISHING) from error


def copy_files(exporter: Exporter, earlier: Run | None, folder: Path) -> bool:
    """Copy the files of a format from an earlier run of the same analysis, and return whether it had all, and whole.

    Args:
        earlier: The run whose findings were taken over, if there is one.
        folder: An existing folder.
    """
    if earlier is None or not exporter.of_analysis or not all(is_whole(earlier, file) for file in exporter.files):
        return False
    for file in exporter.files:
        shutil.copyfile(earlier.results / file, folder / file)
    return True


def is_whole(run: Run, file: str) -> bool:
    """Return whether a file of a run's results is there, with the digest that was noted when it was written."""
    path = run.results / file
    try:
        noted = (run.path / DIGESTS).read_text(encoding="utf-8").splitlines()
        return f"{file_digest(path)}  {path.relative_to(run.path).as_posix()}" in noted
    except (OSError, ValueError):
        return False


def export_run(store: Store, run: Run, name: str, output: Path) -> list[Path]:
    """Write the results of a run from its database and return the files, or the folders if their names differ by run.

    Args:
        output: A folder, which gets all files, or the name of the main file. In the second case files whose names begin
            like the main file's are written beside it, with its new name.

    Raises:
        UsageError: There is no such exporter, it does not write such a file, or the run has no results.
    """
    into_folder = output.is_dir()
    exporter = EXPORTERS.get(name).for_suffix("" if into_folder else output.suffix.lower())
    with TemporaryDirectory(prefix="leadline-export-") as made, open_run(store, run, read_only=True) as connection:
        write_files(exporter, read_results(connection, run, run.read()), Path(made))
        if not exporter.files:
            empty_folder(output)
            copy_out(Path(made), output)
            return sorted(path.absolute() for path in output.iterdir())
        targets = {file: output / file for file in exporter.files} if into_folder else _renamed(exporter.files, output)
        for file, target in targets.items():
            with handed_out(target) as draft:
                shutil.copyfile(Path(made) / file, draft)
    return [target.absolute() for target in targets.values()]


def add_to_results(store: Store, run: Run, name: str) -> list[Path]:
    """Write a format into the run's own folder of results, as if the run had been published in it too.

    Returns:
        Its files and folders.
    """
    made = temporary_beside(run.results)
    made.mkdir()
    try:
        with open_run(store, run, read_only=True) as connection:
            write_files(EXPORTERS.get(name)(), read_results(connection, run, run.read()), made)
        targets = []
        for path in sorted(made.iterdir()):
            target = run.results / path.name
            remove(target)
            targets.append(path.replace(target))
    finally:
        remove(made)
    store.share_results(run)
    return targets


def empty_folder(output: Path) -> None:
    """Refuse a folder that contains anything, and a file."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(
            f"{output} exists and is no empty folder.", hint="Name a new folder.", code=ErrorCode.CONFIG_OUTPUT
        )


def _renamed(files: tuple[str, ...], output: Path) -> dict[str, Path]:
    """Return where the files go if the main one is to be ``output``."""
    stem = Path(files[0]).stem
    companions = {
        file: output.with_name(output.stem + file[len(stem) :]) for file in files[1:] if file.startswith(stem)
    }
    return {files[0]: output, **companions}


_OURS: Final = re.compile(r"[0-9A-Za-z_-]{1,80}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Published:
    """The place of the results.

    Attributes:
        folder: The folder that contains it and all other files.
        page: What is known of the cases in the page: the fields of its data that are numbers.
    """

    report: Path
    folder: Path
    files: int
    summary: Summary
    page: Mapping[str, int]


def publish(
    connection: DuckDBPyConnection, run: Run, record: Mapping[str, Any], *, output: Path | None = None
) -> Published:
    """Write the results of a run: ``run.results`` appears complete, replacing what an earlier call wrote.

    Args:
        connection: The run's database, with all tables filled and the dataset's views.
        record: Its record (``run.json``); every key is optional.
        output: A folder to which the results are copied as well. Files of other origin stay in it.

    Raises:
        StoreError: The folder cannot be written.
    """
    results = read_results(connection, run, record)
    source = known(record).get("findings_of")
    earlier = Run(source, run.path.parent / source) if source else None
    if earlier is not None and is_whole(earlier, "report.html"):
        page = read_page(earlier.results / "report.html", known(record).get("page") or {})
        results = replace(results, earlier_page=page)
    with replacing(run.results) as folder:
        folder.mkdir()
        for exporter in published_exporters(results):
            if not copy_files(exporter, earlier, folder):
                write_files(exporter, results, folder)
        count = sum(path.is_file() for path in folder.rglob("*"))
        if run.results.exists():
            shutil.rmtree(run.results)
    place = run.results if output is None else _copy(run.results, output)
    numbers = {name: value for name, value in asdict(results.page_data).items() if name != "packed"}
    return Published(report=place / "report.html", folder=place, files=count, summary=results.summary, page=numbers)


def _copy(results: Path, output: Path) -> Path:
    """Copy the results, after removing the evaluators' folders of the report that was there before."""
    try:
        for name in _earlier(output):
            shutil.rmtree(output / name, ignore_errors=True)
        copy_out(results, output)
    except (OSError, shutil.Error) as error:
        raise StoreError(
            f"The results cannot be copied to {output}: {error}.",
            hint=f"They are complete in {results}.",
            code=ErrorCode.STORE_COPY,
        ) from error
    return output


def _earlier(output: Path) -> list[str]:
    try:
        report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(report, dict) or report.get("schema") != "leadline.report":
        return []
    names = [str(evaluator.get("folder")) for evaluator in report.get("evaluators", ()) if isinstance(evaluator, dict)]
    return [name for name in names if _OURS.fullmatch(name)]
