"""Loading of a dataset: a file is recognised, read, checked, and written as Parquet tables."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError, count, nouns
from leadline.tasks.ground.files import digest, publish_folder, write_json
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.field_names import LABELS
from leadline.tasks.load.limits import COLUMNS_FROM
from leadline.tasks.load.readers import read_blocks
from leadline.tasks.load.readers.item import Container, Layout
from leadline.tasks.load.source import SourceFile, undated
from leadline.tasks.store.digests import file_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.batches import Batches
    from leadline.tasks.load.column_map import ColumnMap, ColumnNames
    from leadline.tasks.load.dataset_models import DatasetModels, Model
    from leadline.tasks.load.formats.base import DatasetFormat
    from leadline.tasks.load.staging import Staging
    from leadline.tasks.store.store import Store

IMPORT_VERSION: Final = 4
"""Raised whenever the same file could be loaded into other tables."""

_LISTED: Final = 100
"""Columns without a field that are listed."""


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """A dataset in the store.

    Attributes:
        digest: What identifies its content.
        path: Folder of its Parquet files, see ``tasks/db/dataset.sql``.
        format: The format that was recognised or asked for.
        container: The container that was recognised: json, jsonl, csv or parquet.
        rows: Number of answers.
        cases: Number of cases.
        models: Keys of the models.
        name: Name of the dataset: what the document says, or the file's name without suffix and date.
        source: The file as the user named it.
        warnings: What the user should know, one sentence each, what concerns columns first.
        reused: Whether it had been loaded before, so that nothing was read.
        columns: The columns that fill a field, each with the field's name.
        metadata_columns: The columns that are kept as metadata; the first of them.
        column_warnings: Those of the warnings that concern columns.
        labels: Names of the metrics of which people say something, with the number of labels.
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
    columns: Mapping[str, str] = field(default_factory=dict)
    metadata_columns: tuple[str, ...] = ()
    column_warnings: tuple[str, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)

    def with_warnings(self, found: Sequence[str]) -> LoadedDataset:
        """Return the dataset with further warnings that concern columns."""
        if not found:
            return self
        return replace(self, warnings=(*found, *self.warnings), column_warnings=(*found, *self.column_warnings))

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
    columns: ColumnMap | None = None,
    default_columns: ColumnMap | None = None,
    model_name: str = "",
    shared: bool = True,
) -> LoadedDataset:
    """Load a file of cases and answers into the store; a file that was loaded before is not read again.

    Args:
        store: Where to keep it.
        path: The file: JSON, JSON Lines, CSV or Parquet; a manifest or folder of COCO files.
        format: Name of its format; ``auto`` recognises it.
        cases_only: Take the questions alone, to put them to models: answers need not be there and are ignored, and the
            dataset has no rows.
        columns: The column of a field, for fields whose column has another name.
        default_columns: The same for any file; columns that this one does not have are a warning.
        model_name: The model whose answers name none; by default it is called after the file.
        shared: Give it to the other hosts, and tell them that it is used now.

    Raises:
        DatasetError: The file cannot be evaluated; the error lists every fault found, and nothing was written.
        UsageError: The format is none that is known.
    """
    from leadline.tasks.load.column_map import map_columns
    from leadline.tasks.load.formats.registry import AUTO, get_format
    from leadline.tasks.load.sniff import format_of, layout_of, peek
    from leadline.tasks.load.source import source_at

    asked = None if format == AUTO else get_format(format)
    source = source_at(path)
    layout = layout_of(source)
    peeked = peek(source, layout)
    named = map_columns(peeked.columns, columns or {}, default_columns, file=source.name)
    recognised = asked or format_of(source, replace(peeked, columns=named))
    identity = digest(
        {
            "bytes": source.fingerprint(),
            "import": IMPORT_VERSION,
            "format": recognised.name,
            "container": layout.container.value,
            "name": undated(source.path.stem),
        }
        | ({"cases_only": True} if cases_only else {})
        | ({"columns": dict(named.asked)} if recognised.is_changed_by(named) else {})
        | ({"warnings": named.warnings} if named.warnings else {})
        | ({"model": model_name} if model_name else {})
        | ({"labels": 1} if LABELS in named.names else {})
    )
    folder = store.dataset(identity)
    reused = store.use_dataset(identity)
    if not reused:
        _import(store, _LoadRequest(source, layout, recognised, named, model_name, cases_only), folder)
    if shared:
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
        columns=manifest["columns"],
        metadata_columns=tuple(manifest["metadata_columns"]),
        column_warnings=tuple(manifest["column_warnings"]),
        warnings=tuple(manifest["warnings"]),
        labels=manifest.get("labels", {}),
        reused=reused,
    )


@dataclass(frozen=True, slots=True)
class _LoadRequest:
    """A file and how it is to be read."""

    source: SourceFile
    layout: Layout
    format: type[DatasetFormat]
    columns: ColumnNames
    model_name: str
    cases_only: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """Results of reading a file, beside the records that were staged in the database."""

    batches: Batches
    models: DatasetModels
    reader: DatasetFormat


def _import(store: Store, request: _LoadRequest, folder: Path) -> None:
    from leadline.tasks.load.staging import staging, write_tables

    source = request.source
    faults = Faults(source.name)
    with staging(store) as staged:
        read = _read(staged, request, faults)
        known, repeats = _checked(staged.connection, read, faults)
        source.ensure_unchanged()
        manifest = {
            "format": request.format.name,
            "container": request.layout.container.value,
            "import": IMPORT_VERSION,
            "name": read.reader.dataset_name or undated(source.path.stem) or "dataset",
        } | _counted(staged.connection, read, known, repeats, faults, cases_only=request.cases_only)

        def fill(target: Path) -> None:
            write_tables(staged, known, target)
            digests = {path.name: file_digest(path) for path in sorted(target.glob("*.parquet"))}
            write_json(target / "manifest.json", manifest | {"sha256": digests})

        publish_folder(folder, fill)


def _read(staged: Staging, request: _LoadRequest, faults: Faults) -> _Read:
    """Stage all records of a file; what is wrong with one is noted, and the next is read."""
    from leadline.tasks.load.batches import Batches
    from leadline.tasks.load.columnwise import can_stage_records, stage_records
    from leadline.tasks.load.dataset_models import DatasetModels

    source, layout = request.source, request.layout
    models = DatasetModels(faults, undated(source.path.stem) or "model", named=request.model_name)
    with Batches(staged, faults, file_size=source.total_size) as batches:
        reader = request.format(
            source,
            batches,
            models,
            faults,
            cells=layout.container is Container.CSV,
            cases_only=request.cases_only,
            named=request.columns,
        )
        by_columns = source.size >= COLUMNS_FROM and can_stage_records(reader)
        with _no_collection():
            for block in read_blocks(source, layout, faults):
                records = block.records() if by_columns else None
                if records is None or not stage_records(reader, records):
                    for item in block.items():
                        reader.convert(item)
        batches.finish()
    reader.finish()
    if not request.cases_only:
        _require_answers(batches.rows, batches.answered, reader, faults)
    return _Read(batches, models, reader)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the cyclic collector from going through the many objects that are read, none of which is in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _checked(connection: DuckDBPyConnection, read: _Read, faults: Faults) -> tuple[list[Model], int]:
    """Check the staged records against each other; return the models that answer, and how many cases were repeats.

    Raises:
        DatasetError: Something is wrong, here or in what was noted before.
    """
    from leadline.tasks.db import sql
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
    of_answers = _answer_warnings(read.models, batches, cases * len(known)) if not cases_only else []
    columns, others = read.reader.column_uses()
    of_columns = read.reader.column_notes()
    return {
        "columns": columns,
        "metadata_columns": others[:_LISTED],
        "column_warnings": of_columns,
        "rows": batches.rows,
        "cases": cases,
        "models": [model.key for model in known],
        "warnings": [*of_columns, *_record_warnings(read.reader, repeats), *of_answers],
    } | ({"labels": read.reader.label_names} if read.reader.label_names else {})


def _require_answers(rows: int, answered: int, reader: DatasetFormat, faults: Faults) -> None:
    """Refuse a dataset that asks but does not answer."""
    if faults or answered:
        return
    if rows:
        message = f"no record has an answer; collect the models' answers first{reader.missing_answer()}"
        faults.stop(None, reader.answer_column, message)
    faults.stop(None, "", "the file holds no answers of a model; collect the models' answers first")


def _record_warnings(reader: DatasetFormat, repeats: int) -> list[str]:
    """Return what the user should know of the records of a dataset that is fine."""
    found = [f"{message} ({times:,} times)" if times > 1 else message for message, times in reader.warnings.items()]
    if repeats:
        records = count(repeats, "record repeats", "records repeat")
        found.append(f"{records} a case that has no key; each counts as a case of its own")
    return found


def _answer_warnings(models: DatasetModels, batches: Batches, pairs: int) -> list[str]:
    """Return what the user should know of its answers."""
    rows, answered = batches.rows, batches.answered
    found = [*models.notes(), *(f"model {key!r} is listed but answers nothing" for key in models.without_answers())]
    if pairs > rows:
        have = nouns(pairs - rows, "has", "have")
        found.append(f"{pairs - rows:,} of {pairs:,} pairs of a case and a model {have} no answer in the file")
    if rows > answered:
        have, are = nouns(rows - answered, "has", "have"), nouns(rows - answered, "is", "are")
        missing = f"{rows - answered:,} of {count(rows, 'row')} {have} neither an answer nor an error"
        empty = f"{rows - answered:,} of {count(rows, 'answer')} {are} empty"
        found.append(missing if batches.blank is None else empty)
    if batches.words_for_nothing:
        words = count(batches.words_for_nothing, "answer is", "answers are")
        found.append(f"{words} the word nan, None or null; leave the cell empty where there is no answer")
    return found
