"""Publishing a comparison: a page, Markdown, JSON and flips as CSV, in a folder that appears complete or not at all."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import StoreError
from leadline.evaluators.core.jsonio import write
from leadline.tasks.compare.comparison_page import write_page
from leadline.tasks.compare.results import Comparison, MetricComparison
from leadline.tasks.compare.run_flips import write_flips
from leadline.tasks.publish.templating import render
from leadline.tasks.store.files import replacing
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = "leadline.comparison"
SCHEMA_VERSION: Final = 1
FOLDER: Final = "comparisons"


def publish(connection: DuckDBPyConnection, store: Store, comparison: Comparison, *, output: Path | None) -> Comparison:
    """Write a comparison below ``comparisons/<id>/`` in the store, and copy it to ``output``.

    Returns:
        The comparison with the places of its files.

    Raises:
        StoreError: ``output`` cannot be written.
    """
    folder = store.root / FOLDER / comparison.id
    comparison = dataclasses.replace(comparison, folder=folder, report=folder / "report.html")
    try:
        with replacing(folder) as draft:
            draft.mkdir()
            _fill(connection, comparison, draft)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        if not (folder / "report.html").exists():  # else another process answered the same question meanwhile
            raise
    if store.remote:
        store.remote.push_folder(folder, "comparison.json")
    if output is None:
        return comparison
    try:
        shutil.copytree(folder, output, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise StoreError(
            f"The comparison cannot be copied to {output}: {error}.",
            hint=f"It is complete in {folder}.",
            code=ErrorCode.STORE_COPY,
        ) from error
    return dataclasses.replace(comparison, folder=output, report=output / "report.html")


def _fill(connection: DuckDBPyConnection, comparison: Comparison, folder: Path) -> None:
    write(folder / "comparison.json", record(comparison))
    write_page(comparison, folder / "report.html")
    (folder / "report.md").write_text(render("compare/report.md", comparison=comparison), encoding="utf-8")
    write_flips(connection, folder / "flips.csv")


def record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON holds it, without the places of its files."""
    fields = {field.name: getattr(comparison, field.name) for field in dataclasses.fields(comparison)}
    rest = {name: value for name, value in fields.items() if name not in ("folder", "report", "metrics")}
    metrics = [_metric(found) for found in comparison.metrics]
    return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **rest, "metrics": metrics}


def _metric(found: MetricComparison) -> Mapping[str, Any]:
    """Return one metric, its own description and its coverage unfolded."""
    line = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    coverage = dataclasses.asdict(found.coverage) | {"share": found.coverage.share}
    return {"key": found.metric.key, **line, "coverage": coverage}
