"""The import of a file: its records are staged, checked against each other, and written as Parquet tables.

Checked are keys, repeated cases, relationships and conditions, which only all records together show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import count, nouns
from leadline.evaluators.text.conditions import ConditionError, parse
from leadline.tasks.db import sql
from leadline.tasks.ground.files import publish_folder, write_json
from leadline.tasks.ground.processes import without_collection
from leadline.tasks.load.corpus import IDS, TEXTS, DocumentTexts
from leadline.tasks.load.dataset_models import DatasetModels, Model
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.formats.base import FileFormat
from leadline.tasks.load.limits import COLUMNS_FROM, FREE_EXPANSION
from leadline.tasks.load.readers import Block, Container, Layout
from leadline.tasks.load.sniff import layout_of, read_blocks, read_items
from leadline.tasks.load.source import IMPORT_VERSION, SourceFile, undated
from leadline.tasks.load.staging import CASE_FIELDS, Batches, staging, write_tables
from leadline.tasks.load.values import shown
from leadline.tasks.store.parquet_files import file_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.load.columns import ColumnNames
    from leadline.tasks.load.formats.base import DatasetFormat
    from leadline.tasks.store.store import Store

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
    corpus: DocumentTexts | None = None,
) -> None:
    """Read a file into a folder of the store, which appears when all of it is right.

    Args:
        kind: The class of the file's format.
        columns: Names of its columns, with the user's mapping.
        model_name: The model whose answers name none, ``""`` where the user says nothing.
        corpus: Has the texts of documents that were recorded by their ids.

    Raises:
        DatasetError: The file cannot be evaluated; the error lists every fault found.
    """
    faults = Faults(source.name)
    models = DatasetModels(faults, undated(source.path.stem) or "model", named=model_name)
    with staging(store) as staged:
        with Batches(staged, faults, file_size=source.total_size) as batches:
            cells = layout.container is Container.CSV
            reader = kind(source, batches, models, faults, cells=cells, cases_only=cases_only, named=columns)
            if corpus is not None:
                _fill(corpus)
                reader.corpus = corpus
            _read(reader, layout)
            if corpus is not None:
                reader.warn(corpus.sentence())
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


def _fill(corpus: DocumentTexts) -> None:
    """Read the texts of a corpus."""
    source = corpus.source
    faults = Faults(source.name)
    if source.refusal:
        faults.stop(None, "", "a corpus is one file")
    for item in read_items(source, layout_of(source), faults):
        if not corpus.add(item.value):
            faults.add(item.place, "", f"expected an id ({', '.join(IDS)}) and a text ({', '.join(TEXTS)})")
        if corpus.size > FREE_EXPANSION:
            faults.stop(item.place, "", "the texts of the corpus are more than are kept in memory (1 GiB)")
    if faults:
        faults.refuse()


def _read(reader: DatasetFormat, layout: Layout) -> None:
    """Stage all records; what is wrong with one is noted, and the next is read."""
    if isinstance(reader, FileFormat):
        reader.read_source()
        return
    by_columns = reader.source.size >= COLUMNS_FROM and can_stage_records(reader)
    with without_collection():
        for block in read_blocks(reader.source, layout, reader.faults):
            if not (by_columns and _is_staged(reader, block)):
                for item in block.items():
                    reader.convert(item)
    reader.end_of_records()


def can_stage_records(reader: DatasetFormat) -> bool:
    """Return whether records of a format can be read column by column; a subclass has to say so itself."""
    return vars(type(reader)).get("by_columns") is not None and not (reader.cases_only or reader.corpus)


def _is_staged(reader: DatasetFormat, block: Block) -> bool:
    """Stage a block column by column if it can be; return whether it was done."""
    from leadline.tasks.load.columnwise import stage_records  # Arrow's functions, see COLUMNS_FROM

    return any(stage_records(reader, records) for records in block.records())


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
