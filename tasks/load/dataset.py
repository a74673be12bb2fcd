"""Loading of a dataset: a file is recognised, read, checked, and written as Parquet tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.text import count, nouns
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.readers import read_items
from leadline.tasks.load.readers.item import Container, Layout
from leadline.tasks.load.source import Source
from leadline.tasks.store.files import digest, publish_folder, write_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.batches import Batches
    from leadline.tasks.load.dataset_models import Model, Models
    from leadline.tasks.load.formats.base import DatasetFormat
    from leadline.tasks.store.store import Store

IMPORT_VERSION: Final = 3
"""Raised whenever the same file could be loaded into other tables."""


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """A dataset in the store.

    Attributes:
        digest: What identifies its content.
        path: Folder of its Parquet files, see ``tasks/db/sql/dataset.sql``.
        format: The format that was recognised or asked for.
        container: The container that was recognised: json, jsonl, csv or parquet.
        rows: Number of answers.
        cases: Number of cases.
        models: Keys of the models.
        name: Name of the dataset: what the document says, or the file's name without its suffix.
        source: The file as the user named it.
        warnings: What the user should know, one sentence each.
        reused: Whether it had been loaded before, so that nothing was read.
    """

    digest: str
    path: Path
    format: str
    container: str
    rows: int
    cases: int
    models: tuple[str, ...]
    name: str
    source: str
    warnings: tuple[str, ...]
    reused: bool

    def require_models(self, keys: Sequence[str]) -> None:
        """Refuse models that the dataset does not have.

        Raises:
            UsageError: It has none of some key.
        """
        unknown = sorted(set(keys) - set(self.models))
        if unknown:
            raise UsageError(
                f"The dataset has no model called {unknown[0]!r}.",
                hint=f"Its models: {', '.join(self.models)}.",
                code=ErrorCode.DATA_NO_MODEL,
            )


def load_dataset(
    store: Store,
    path: str | Path,
    *,
    format: str = "auto",  # noqa: A002
    cases_only: bool = False,
) -> LoadedDataset:
    """Load a file of cases and answers into the store; a file that was loaded before is not read again.

    Args:
        store: Where to keep it.
        path: The file: JSON, JSON Lines, CSV or Parquet; a manifest or folder of COCO files.
        format: Name of its format; ``auto`` recognises it.
        cases_only: Take the questions alone, to put them to models: answers need not be there and are ignored, and the
            dataset has no rows.

    Raises:
        DatasetError: The file cannot be evaluated; the error lists every fault found, and nothing was written.
        UsageError: The format is none that is known.
    """
    from leadline.tasks.load.coco_source import source_at
    from leadline.tasks.load.formats.registry import AUTO, get_format
    from leadline.tasks.load.sniff import format_of, layout_of

    asked = None if format == AUTO else get_format(format)
    source = source_at(path)
    layout = layout_of(source)
    recognised = asked or format_of(source, layout)
    identity = digest(
        {
            "bytes": source.fingerprint(),
            "import": IMPORT_VERSION,
            "format": recognised.name,
            "container": layout.container.value,
            "name": source.path.stem,
        }
        | ({"cases_only": True} if cases_only else {})
    )
    folder = store.dataset(identity)
    reused = store.has_dataset(identity)
    if not reused:
        _import(store, source, layout, recognised, folder, cases_only=cases_only)
    store.share_dataset(identity)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return LoadedDataset(
        digest=identity,
        path=folder,
        format=manifest["format"],
        container=manifest["container"],
        rows=manifest["rows"],
        cases=manifest["cases"],
        models=tuple(manifest["models"]),
        name=manifest["name"],
        source=source.name,
        warnings=tuple(manifest["warnings"]),
        reused=reused,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """Results of reading a file, beside the records that were staged in the database."""

    batches: Batches
    models: Models
    reader: DatasetFormat


def _import(
    store: Store,
    source: Source,
    layout: Layout,
    recognised: type[DatasetFormat],
    folder: Path,
    *,
    cases_only: bool,
) -> None:
    from leadline.tasks.load.staging import staging, write_tables

    faults = Faults(source.name)
    with staging(store) as connection:
        read = _read(connection, source, layout, recognised, faults, cases_only=cases_only)
        known, repeats = _checked(connection, read, faults)
        source.ensure_unchanged()
        manifest = {
            "format": recognised.name,
            "container": layout.container.value,
            "import": IMPORT_VERSION,
            "name": read.reader.dataset_name or source.path.stem,
        } | _counted(connection, read, known, repeats, faults, cases_only=cases_only)

        def fill(target: Path) -> None:
            write_tables(connection, known, target)
            write_json(target / "manifest.json", manifest)

        publish_folder(folder, fill)


def _read(
    connection: DuckDBPyConnection,
    source: Source,
    layout: Layout,
    recognised: type[DatasetFormat],
    faults: Faults,
    *,
    cases_only: bool,
) -> _Read:
    """Stage all records of a file; what is wrong with one is noted, and the next is read."""
    from leadline.tasks.load.batches import Batches
    from leadline.tasks.load.dataset_models import Models

    batches = Batches(connection, faults, file_size=source.total_size)
    models = Models(faults, source.path.stem)
    reader = recognised(source, batches, models, faults, cells=layout.container is Container.CSV, cases_only=cases_only)
    for item in read_items(source, layout, faults):
        reader.convert(item)
    batches.flush()
    reader.finish()
    if not cases_only:
        _require_answers(batches.rows, batches.answered, reader.answer_column, faults)
    return _Read(batches, models, reader)


def _checked(connection: DuckDBPyConnection, read: _Read, faults: Faults) -> tuple[list[Model], int]:
    """Check the staged records against each other; return the models that answer, and how many cases were repeats.

    Raises:
        DatasetError: Something is wrong, here or in what was noted before.
    """
    from leadline.tasks.db.statements import sql
    from leadline.tasks.load.checks import Checks

    checks = Checks(connection, faults, {"condition": read.reader.condition_column})
    repeats = checks.number_repeats()
    connection.execute(sql("load/cases"))
    known = read.models.with_answers()
    checks.check({model.id: model.key for model in known}, declared=read.reader.declares_cases)
    if faults:
        faults.refuse()
    return known, repeats


def _counted(
    connection: DuckDBPyConnection,
    read: _Read,
    known: Sequence[Model],
    repeats: int,
    faults: Faults,
    *,
    cases_only: bool,
) -> dict[str, Any]:
    """Return what the manifest says of the records: how many there are, whose, and what the user should know."""
    cases = int(connection.sql("SELECT count(*) FROM case_ids").fetchall()[0][0])
    if not cases:
        faults.stop(None, "", "the file holds no cases")
    batches = read.batches
    of_answers = (
        _answer_warnings(read.models, batches.rows, cases * len(known), batches.answered) if not cases_only else []
    )
    return {
        "rows": batches.rows,
        "cases": cases,
        "models": [model.key for model in known],
        "warnings": [*_record_warnings(read.reader, repeats), *of_answers],
    }


def _require_answers(rows: int, answered: int, column: str, faults: Faults) -> None:
    """Refuse a dataset that asks but does not answer."""
    if faults or answered:
        return
    if rows:
        faults.stop(None, column, "no record has an answer; collect the models' answers first")
    faults.stop(None, "", "the file holds no answers of a model; collect the models' answers first")


def _record_warnings(reader: DatasetFormat, repeats: int) -> list[str]:
    """Return what the user should know of the records of a dataset that is fine."""
    found = [f"{message} ({times:,} times)" if times > 1 else message for message, times in reader.warnings.items()]
    if repeats:
        records = count(repeats, "record repeats", "records repeat")
        found.append(f"{records} a case that has no key; each counts as a case of its own")
    return found


def _answer_warnings(models: Models, rows: int, pairs: int, answered: int) -> list[str]:
    """Return what the user should know of its answers."""
    found = [f"model {key!r} is listed but answers nothing" for key in models.without_answers()]
    if pairs > rows:
        have = nouns(pairs - rows, "has", "have")
        found.append(f"{pairs - rows:,} of {pairs:,} pairs of a case and a model {have} no answer in the file")
    if rows > answered:
        have = nouns(rows - answered, "has", "have")
        found.append(f"{rows - answered:,} of {count(rows, 'row')} {have} neither an answer nor an error")
    return found
