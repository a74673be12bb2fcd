"""Publishing: the results of a run as a report for people and as files for programs. See ``docs/results.md``."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.ground.files import copy_out, replacing
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.publish.summary import Summary

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
    from leadline.tasks.analyse.kept_analysis import known
    from leadline.tasks.publish.exports.exporter import copy_files, is_whole, published_exporters, write_files
    from leadline.tasks.publish.exports.report_pages import read_page
    from leadline.tasks.publish.run_results import read_results

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
