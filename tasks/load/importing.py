"""The import of a file: its records are staged, checked against each other, and written as Parquet tables.

Records are read column by column if reading them one at a time (:meth:`.formats.base.DatasetFormat.convert_record`)
would stage the very same and note no fault. Anything else (a value of the wrong type, two columns of one field,
relationships, annotations, objects that a format takes apart) leaves the records to that way.

Checked are keys, repeated cases, relationships and conditions, which only all records together show.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.evaluators.ground import count, nouns
from leadline.evaluators.text.conditions import ConditionError, parse
from leadline.tasks.db import sql
from leadline.tasks.ground.files import publish_folder, write_json
from leadline.tasks.load.column_values import Column, Unclear, is_absent, read_column, text_array, values_of
from leadline.tasks.load.dataset_models import DatasetModels, Model
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import COLUMNS_FROM
from leadline.tasks.load.readers import Container, Layout, Records
from leadline.tasks.load.sniff import read_blocks
from leadline.tasks.load.source import IMPORT_VERSION, SourceFile, undated
from leadline.tasks.load.staging import CASE_FIELDS, Batches, staging, write_tables
from leadline.tasks.load.values import InCells, Reading, ValueFault, canonical, derived_key, shown
from leadline.tasks.store.parquet_files import file_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.columns import ColumnNames
    from leadline.tasks.load.formats.base import DatasetFormat
    from leadline.tasks.store.store import Store

_CASE: Final = {
    "question": "question",
    "expected": "expected_answers",
    "documents": "expected_documents",
    "condition": "condition",
    "categories": "categories",
}
"""Fields of a case, in the order in which its key is made of them, each with its column of the staging table."""

_ANSWER: Final = {
    "answer": "actual_answer",
    "context": "retrieved_context",
    "error": "error",
    "duration_s": "duration_s",
    "cost_usd": "cost_usd",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
_MODEL: Final = ("model", "model_name", "model_version")
_METADATA: Final = "row_metadata"
_FIELDS: Final = frozenset({"case", *_CASE, *_ANSWER, *_MODEL, _METADATA})

_LISTED: Final = 100
"""Columns without a field that are listed."""

_FETCH: Final = 1000


def import_file(
    store: Store,
    folder: Path,
    source: SourceFile,
    layout: Layout,
    kind: type[DatasetFormat],
    columns: ColumnNames,
    *,
    model_name: str,
    cases_only: bool,
) -> None:
    """Read a file into a folder of the store, which appears when all of it is right.

    Args:
        kind: The class of the file's format.
        columns: Names of its columns, with the user's mapping.
        model_name: The model whose answers name none, ``""`` where the user says nothing.

    Raises:
        DatasetError: The file cannot be evaluated; the error lists every fault found.
    """
    faults = Faults(source.name)
    models = DatasetModels(faults, undated(source.path.stem) or "model", named=model_name)
    with staging(store) as staged:
        with Batches(staged, faults, file_size=source.total_size) as batches:
            cells = layout.container is Container.CSV
            reader = kind(source, batches, models, faults, cells=cells, cases_only=cases_only, named=columns)
            _read(reader, layout)
            batches.finish()
        reader.finish()
        if not cases_only:
            _require_answers(reader)
        repeats = _number_repeats(staged.connection)
        known = _checked(reader)
        source.ensure_unchanged()
        manifest = {
            "format": kind.name,
            "container": layout.container.value,
            "import": IMPORT_VERSION,
            "name": reader.dataset_name or undated(source.path.stem) or "dataset",
        } | _counted(reader, known, repeats)

        def fill(target: Path) -> None:
            write_tables(staged, known, target)
            digests = {path.name: file_digest(path) for path in sorted(target.glob("*.parquet"))}
            write_json(target / "manifest.json", manifest | {"sha256": digests})

        publish_folder(folder, fill)


def _read(reader: DatasetFormat, layout: Layout) -> None:
    """Stage all records; what is wrong with one is noted, and the next is read."""
    by_columns = reader.source.size >= COLUMNS_FROM and can_stage_records(reader)
    with _no_collection():
        for block in read_blocks(reader.source, layout, reader.faults):
            records = block.records() if by_columns else None
            if records is None or not stage_records(reader, records):
                for item in block.items():
                    reader.convert(item)


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


def can_stage_records(reader: DatasetFormat) -> bool:
    """Return whether records of a format can be read column by column; a subclass has to say so itself."""
    return vars(type(reader)).get("by_columns") is not None and not reader.cases_only


def stage_records(reader: DatasetFormat, records: Records) -> bool:
    """Stage records as cases and answers; return whether it was done, or they are to be read one at a time."""
    if not records.rows:
        return False
    try:
        namings = _without_labels(reader, records)
        names = dict.fromkeys(name for naming in namings for name in naming)
        if any(_is_opened(reader.opens(name), records.column(name)) for name in names if reader.opens(name)):
            return False
        for naming in namings:
            reader.flat.of(naming)
        _stage(reader, records, names)
    except Unclear:
        return False
    return True


def _without_labels(reader: DatasetFormat, records: Records) -> list[Mapping[str, object]]:
    """Return the namings of records, without a column of people's labels in which nothing is.

    Raises:
        Unclear: There are labels, or the column has been one of labels.
    """
    namings = list(records.namings())
    column = reader.labels.name
    if column is None or not any(column in naming for naming in namings):
        return namings
    given = [value for value in values_of(records.column(column)) if value is not None]
    if given and (reader.labels.used or any(map(reader.labels.holds, given))):
        raise Unclear
    if given:
        return namings
    return [{name: value for name, value in naming.items() if name != column} for naming in namings]


def _is_opened(kinds: tuple[type, ...], column: Column) -> bool:
    return any(isinstance(value, kinds) for value in values_of(column) if value is not None)


def _stage(reader: DatasetFormat, records: Records, names: Collection[str]) -> None:
    known = {name: target for name in names if (target := reader.flat.known.get(name)) is not None}
    columns: dict[str, Column] = {}
    readings: dict[str, Reading] = {}
    for name, target in known.items():
        column = records.column(name)
        if is_absent(column):
            continue
        field, reading = (reader.by_columns or {}).get(target[0], target)
        if isinstance(target[1], InCells) and not isinstance(reading, InCells):
            reading = InCells(reading)
        if field not in _FIELDS or field in columns:
            raise Unclear
        columns[field], readings[field] = column, reading
    metadata = _metadata(records, known, columns.pop(_METADATA, None), readings, has_others=len(known) < len(names))
    found = {field: read_column(readings[field], column) for field, column in columns.items()}
    models = _models(reader, records.rows, [found.get(field) for field in _MODEL])
    of_case = {field: found[field] for field in _CASE if field in found}
    keys, is_derived = _case_keys(found.get("case"), of_case, len(records.rows))
    said = [array.is_valid() for array in of_case.values()]
    bare = pc.invert(is_derived)
    for each in said:
        bare = pc.and_(bare, pc.invert(each))
    reader.note_blank()
    reader.batches.records(
        records.rows,
        {"case_key": keys, "derived": is_derived},
        {"bare": bare} | {column: of_case[field] for field, column in _CASE.items() if field in of_case},
        {"model_id": pa.array(models, pa.uint16())}
        | ({} if metadata is None else {"metadata": metadata})
        | {column: found[field] for field, column in _ANSWER.items() if field in found},
        size=records.size,
    )


def _metadata(
    records: Records,
    known: Collection[str],
    column: Column | None,
    readings: Mapping[str, Reading],
    *,
    has_others: bool,
) -> pa.Array | None:
    """Return the metadata of each record as JSON; ``None`` if none has any."""
    if column is None and not has_others:
        return None
    others: Iterable[dict[str, Any]] = records.others(known) if has_others else ({} for _ in records.rows)
    try:
        if column is not None:
            own = (None if value is None else readings[_METADATA](value) for value in values_of(column))
            others = ((mine or {}) | other for mine, other in zip(own, others, strict=True))
        return text_array(list(map(canonical, others)))
    except ValueFault:
        raise Unclear from None


def _case_keys(given: pa.Array | None, of_case: Mapping[str, pa.Array], rows: int) -> tuple[pa.Array, pa.Array]:
    """Return the keys of the cases, and which of them are made from the content."""
    given = pa.nulls(rows, pa.large_string()) if given is None else given
    derived = given.is_null()
    number = pc.sum(derived).as_py()
    if not number:
        return given, derived
    contents = [of_case[field].filter(derived).to_pylist() if field in of_case else [None] * number for field in _CASE]
    made = text_array([derived_key(fields) for fields in zip(*contents, strict=True)])
    return pc.replace_with_mask(given, derived, made), derived


def _models(reader: DatasetFormat, rows: Sequence[int], columns: Sequence[pa.Array | None]) -> Any:
    """Return the id of the model of each record; each description of a model is noted once.

    Raises:
        Unclear: Two descriptions contradict each other.
    """
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        if column is not None:
            encoded = column.dictionary_encode(null_encoding="encode")
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            _, codes = np.unique(codes, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    ids = np.zeros(len(first), dtype=np.uint16)
    nothing = [None] * len(first)
    of_first = [nothing if column is None else column.take(pa.array(first)).to_pylist() for column in columns]
    for index in np.argsort(first).tolist():
        key, name, version = (values[index] for values in of_first)
        place = Place(int(rows[first[index]]))
        described = key or name
        if (name or version) and described is not None:
            if reader.models.contradicts(described, name, version):
                raise Unclear
            reader.models.describe(place, described, name, version)
        ids[index] = reader.models.of_answer(key, place)
    return ids[inverse]


def _require_answers(reader: DatasetFormat) -> None:
    """Refuse a dataset that asks but does not answer."""
    if reader.faults or reader.batches.answered:
        return
    if reader.batches.rows:
        message = f"no record has an answer; collect the models' answers first{reader.missing_answer()}"
        reader.faults.stop(None, reader.answer_column, message)
    reader.faults.stop(None, "", "the file holds no answers of a model; collect the models' answers first")


def _number_repeats(connection: DuckDBPyConnection) -> int:
    """Give every repeated case without a key a key of its own; return how many there are."""
    statements = sql("load/repeats").split(";")
    connection.execute(statements[0])
    found = _number(connection, "SELECT count(*) FROM repeats")
    if found:
        for statement in statements[1:-1]:
            connection.execute(statement)
    return found


def _checked(reader: DatasetFormat) -> list[Model]:
    """Check the staged records against each other; return the models that answer.

    Raises:
        DatasetError: Something is wrong, here or in what was noted before.
    """
    connection, faults = reader.batches.connection, reader.faults
    connection.execute(sql("load/cases"))
    known = reader.models.with_answers()
    keys = {model.id: model.key for model in known}
    names = {"expected_answers": "expected_answer", "condition": reader.condition_column}

    def report(statement: str, note: Callable[..., None]) -> None:
        """Note the lines of a query as far as there is room, and count the others."""
        room = max(faults.room, 0)
        for line in connection.execute(f"{statement} LIMIT {room}").fetchall():
            note(*line)
        if faults.room <= 0:
            faults.count(max(0, _number(connection, f"SELECT count(*) FROM ({statement})") - room))

    def duplicate(record: int, part: str, case: str, model: int, first: int) -> None:
        message = f"model {shown(keys[model])} answers case {shown(case)} a second time; the first is in row {first}"
        faults.add(Place(record, part), "", message)

    def conflict(record: int, part: str, case: str, first: int) -> None:
        faults.add(Place(record, part), column, f"case {shown(case)} has another {column} in row {first}")

    def undeclared(record: int, part: str, case: str) -> None:
        faults.add(Place(record, part), "case", f"there is no case {shown(case)}")

    def dangling(record: int, part: str, case: str, target: str) -> None:
        message = "the case is its own original" if case == target else f"there is no case {shown(target)}"
        faults.add(Place(record, part), "relationships", f"{message} (case {shown(case)})")

    report(sql("load/duplicates"), duplicate)
    if _number(connection, "SELECT count(*) FROM case_ids WHERE mentions > 1"):
        for field in CASE_FIELDS:
            column = names.get(field, field)
            report(sql("load/conflicts").format(column=field), conflict)
    connection.execute("SET VARIABLE lost = ?", [faults.lost])
    if reader.declares_cases:
        report(sql("load/undeclared"), undeclared)
    report(sql("load/dangling"), dangling)
    _check_conditions(reader)
    if faults:
        faults.refuse()
    return known


def _check_conditions(reader: DatasetFormat) -> None:
    cursor = reader.batches.connection.execute(sql("load/conditions"))
    while lines := cursor.fetchmany(_FETCH):
        for record, part, case, condition in lines:
            try:
                parse(condition)
            except ConditionError as error:
                message = f"the condition of case {shown(case)} does not parse: {error}"
                reader.faults.add(Place(record, part), reader.condition_column, message)


def _counted(reader: DatasetFormat, known: Sequence[Model], repeats: int) -> dict[str, Any]:
    """Return what the manifest says of the records: how many there are, whose, and what the user should know."""
    cases = _number(reader.batches.connection, "SELECT count(*) FROM case_ids")
    if not cases:
        reader.faults.stop(None, "", "the file holds no cases")
    of_answers = [] if reader.cases_only else _answer_warnings(reader.models, reader.batches, cases * len(known))
    columns, others = reader.column_uses()
    of_columns = reader.column_notes()
    return {
        "columns": columns,
        "metadata_columns": others[:_LISTED],
        "column_warnings": of_columns,
        "rows": reader.batches.rows,
        "cases": cases,
        "models": [model.key for model in known],
        "warnings": [*of_columns, *_record_warnings(reader, repeats), *of_answers],
    } | ({"labels": reader.label_names} if reader.label_names else {})


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


def _number(connection: DuckDBPyConnection, query: str) -> int:
    """Return the number that a query counts."""
    return int(connection.execute(query).fetchall()[0][0])
