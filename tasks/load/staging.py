"""Staging of a dataset that is being read: records gathered in columns, a scratch database, and the Parquet files made.

Records are in files of Parquet, in which each batch is a row group of its own. DuckDB reads a table of its own in
vectors of 2,048 rows, and all texts of a vector are in memory together; a vector of a Parquet file ends with its row
group. So rows of a megabyte take no more memory than those of a hundred bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.tasks.db import SEARCHED_FILE, TURNS_FILE, literal, sql, without_progress_bar
from leadline.tasks.ground.arrow_arrays import numbers_of
from leadline.tasks.ground.files import scratch_folder
from leadline.tasks.load.conversation import RECORDINGS_FILE
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.label import LABELS_FILE, GivenLabel
from leadline.tasks.load.limits import BATCH_BYTES, BATCH_ROWS, FREE_EXPANSION, MAX_EXPANSION, MAX_ROWS, MIB
from leadline.tasks.load.staged_arrays import as_array
from leadline.tasks.load.values import Chunks

if TYPE_CHECKING:
    from leadline.tasks.load.dataset_models import Model
    from leadline.tasks.store.store import Store

CASES: Final = "staged_cases"
LINKS: Final = "staged_links"
ROWS: Final = "staged_rows"
LABELS: Final = "staged_labels"
TURNS: Final = "staged_turns"
RECORDINGS: Final = "staged_recordings"

FIRST_TURN: Final = 1 << 31
"""Id of the first row that is a turn of a conversation; those of all other rows are smaller."""

ROW_GROUP: Final = 20_480
"""Most rows of a Parquet row group in a dataset: what is skipped or read as a whole."""

GROUP_BYTES: Final = 16 * MIB
"""Bytes after which a row group in a dataset ends, however few rows it has."""

SEARCHED_FROM: Final = 20_000
SEARCHED_BYTES: Final = 1024 * MIB
"""Answers from which on a dataset has its texts in small letters, too, and bytes of text up to which it does.

A search of fewer is fast without, and one of more is slow with them, which would take as much room as the dataset.
"""

_TEXT: Final = pa.large_string()
_TEXTS: Final = pa.large_list(_TEXT)
_CHUNKS: Final = pa.large_list(pa.struct([("content", _TEXT), ("doc_uri", _TEXT)]))
_PLACE: Final = {"record": pa.uint32(), "part": _TEXT, "case_key": _TEXT}
_COLUMNS: Final[Mapping[str, Mapping[str, pa.DataType]]] = {
    CASES: {
        "seq": pa.uint32(),
        **_PLACE,
        "derived": pa.bool_(),
        "bare": pa.bool_(),
        "question": _TEXT,
        "expected_answers": _TEXTS,
        "expected_documents": _TEXTS,
        "condition": _TEXT,
        "categories": _TEXTS,
        "expected_annotations": _TEXT,
        "metadata": _TEXT,
    },
    LINKS: {**_PLACE, "target": _TEXT, "perturbation": _TEXT},
    ROWS: {
        "row_id": pa.uint32(),
        **_PLACE,
        "derived": pa.bool_(),
        "case_seq": pa.uint32(),
        "model_id": pa.uint16(),
        "actual_answer": _TEXT,
        "retrieved_context": _CHUNKS,
        "error": _TEXT,
        "duration_s": pa.float64(),
        "cost_usd": pa.float64(),
        "input_tokens": pa.uint64(),
        "output_tokens": pa.uint64(),
        "metadata": _TEXT,
        "predicted_annotations": _TEXT,
    },
    LABELS: {"row_id": pa.uint32(), "question": _TEXT, "value": pa.float64(), "person": _TEXT, "note": _TEXT},
    TURNS: {
        "row_id": pa.uint32(),
        "unit": _TEXT,
        "conversation_id": pa.uint32(),
        "turn": pa.uint16(),
        "turns": pa.uint16(),
        "question": _TEXT,
        "expected_answers": _TEXTS,
        "actual_answer": _TEXT,
        "retrieved_context": _CHUNKS,
        "error": _TEXT,
        "duration_s": pa.float64(),
        "cost_usd": pa.float64(),
        "input_tokens": pa.uint64(),
        "output_tokens": pa.uint64(),
        "messages": _TEXT,
        "history": _TEXT,
        "tool_calls": _TEXT,
        "tools": _TEXT,
        "steps": _TEXT,
        "expected_tool_calls": _TEXT,
        "expected_outcome": _TEXT,
        "scenario": _TEXT,
    },
    RECORDINGS: {"case_key": _TEXT, "recording": _TEXT},
}
SCHEMAS: Final[Mapping[str, pa.Schema]] = {name: pa.schema(list(fields.items())) for name, fields in _COLUMNS.items()}
"""The staged tables; ``load.sql`` says what is in them."""

_IF_LEFT_OUT: Final[Mapping[str, Mapping[str, object]]] = {
    CASES: {"part": ""},
    ROWS: {"part": "", "retrieved_context": [], "metadata": "{}"},
}
"""What stands in columns that may not be null where they are left out."""


def completed(table: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a batch with all columns of a staged table, in their order; some of them are given."""
    defaults, size = _IF_LEFT_OUT[table], len(next(iter(columns.values())))

    def column(field: pa.Field) -> pa.Array:
        if field.name in columns:
            return columns[field.name].cast(field.type)
        if field.name in defaults:
            return as_array(field, [defaults[field.name]] * size)
        return pa.nulls(size, field.type)

    return pa.table([column(field) for field in SCHEMAS[table]], schema=SCHEMAS[table])


class Staging:
    """Room for a dataset that is being read: a database, and the records in files.

    Attributes:
        connection: The staging database.
    """

    def __init__(self, folder: Path, connection: duckdb.DuckDBPyConnection, opened: ExitStack) -> None:
        self.connection = connection
        self._opened = opened
        self._files = {name: folder / f"{name}.parquet" for name in SCHEMAS}
        self._writers = {
            name: opened.enter_context(
                parquet.ParquetWriter(
                    self._files[name],
                    schema,
                    compression="none",
                    use_dictionary=False,
                    write_statistics=["seq", "row_id"],
                )
            )
            for name, schema in SCHEMAS.items()
        }

    def append(self, table: str, batch: pa.Table) -> None:
        """Write a batch as a row group."""
        self._writers[table].write_table(batch, row_group_size=len(batch))

    def finish(self) -> None:
        """End the files, and show them as tables of the database."""
        self._opened.close()
        files = {name: literal(path) for name, path in self._files.items()}
        self.connection.execute(sql("load/staged").format(cases=files[CASES], links=files[LINKS], rows=files[ROWS]))

    def read(self, table: str) -> Iterator[pa.Table]:
        """Yield a finished table's batches, and first an empty one."""
        yield pa.Table.from_batches([], SCHEMAS[table])
        with parquet.ParquetFile(self._files[table]) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False)

    def count(self, table: str) -> int:
        """Return the number of lines of a finished table."""
        return int(parquet.read_metadata(self._files[table]).num_rows)

    def ranges(self, table: str) -> Iterator[tuple[int, int]]:
        """Yield the first and the last number of rows of a finished table that are no more than a row group may be."""
        first = last = size = 0
        metadata = parquet.read_metadata(self._files[table])
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            if last > first and (
                size + group.total_byte_size > GROUP_BYTES or last + group.num_rows - first > ROW_GROUP
            ):
                yield first, last - 1
                first, size = last, 0
            last += group.num_rows
            size += group.total_byte_size
        yield first, last


_ROW_COLUMNS: Final = (
    *("row_id", "case_id", "model_id", "actual_answer", "retrieved_context", "error"),
    *("duration_s", "cost_usd", "input_tokens", "output_tokens", "metadata", "predicted_annotations"),
)
"""Columns of the rows in a dataset, see ``dataset.sql``."""

MEMORY: Final = "500MB"
"""Memory of the staging database; what does not fit goes to disk.

What it must have at once is small: keys and digests of some 20,000 rows, and the texts of a few row groups, each of
which has 16 MiB, or one record. The reader, its batches and Python take about as much again, so that a load stays under
a gigabyte.
"""


@contextmanager
def staging(store: Store) -> Iterator[Staging]:
    """Open an empty staging database in the store; it is deleted when the block ends.

    Raises:
        StoreError: The store has no room for it.
    """
    with scratch_folder(store.root, "load") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": str(folder / "spill"),
            "threads": min(4, os.cpu_count() or 1),
            "preserve_insertion_order": True,
        }
        try:
            # In memory, and spilled from there: a file would be synchronised at every statement, for nothing.
            with duckdb.connect(":memory:", config=config) as connection, ExitStack() as opened:
                without_progress_bar(connection)
                connection.execute(sql("load/macros"))
                connection.execute(sql("load/staging"))
                yield Staging(folder, connection, opened)
        except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException, OSError) as error:
            reason = str(error).splitlines()[0]
            hint = f"Check the free space in {store.root}: a load needs up to three times the file's size."
            raise StoreError(
                f"The dataset cannot be stored: {reason}.", hint=hint, code=ErrorCode.STORE_FAILED
            ) from error


def write_tables(staged: Staging, models: list[Model], folder: Path) -> None:
    """Write the five Parquet files of a dataset, and one each for labels, turns and recordings where it has some."""
    connection = staged.connection
    connection.execute(
        "CREATE TABLE staged_models (model_id USMALLINT, model_key VARCHAR, name VARCHAR, version VARCHAR)"
    )
    for model in models:
        line = [model.id, model.key, model.name, model.version]
        connection.execute("INSERT INTO staged_models VALUES (?, ?, ?, ?)", line)
    connection.execute(sql("load/row_cases"))
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as beside:
        rows = beside.submit(_write, folder / "rows.parquet", _rows(staged, cursor))
        _write(folder / "cases.parquet", _cases(staged))
        if staged.count(LABELS):
            _write(folder / LABELS_FILE, staged.read(LABELS))
        if staged.count(TURNS):
            _write(folder / TURNS_FILE, _turns(staged))
        if staged.count(RECORDINGS):
            _write(folder / RECORDINGS_FILE, staged.read(RECORDINGS))
        connection.execute(sql("load/case_digests").format(cases=literal(folder / "cases.parquet")))
        _write(folder / "digests.parquet", _digests(staged))
        rows.result()
    for table in ("models", "relationships"):
        connection.execute(
            f"COPY ({sql(f'load/write_{table}')}) TO {literal(folder / f'{table}.parquet')} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )
    if staged.count(ROWS) >= SEARCHED_FROM:
        write_searched(connection, folder)


def write_searched(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the texts of a dataset in small letters, unless they are huge: words are found in half the time."""
    files = {table: literal(folder / f"{table}.parquet") for table in ("cases", "rows")}
    if connection.execute(sql("load/searched_bytes").format(**files)).fetchall()[0][0] > SEARCHED_BYTES:
        return
    write, searched = sql("load/write_searched"), sql("load/searched").format(**files)
    file = folder / SEARCHED_FILE
    try:
        connection.execute(
            write.format(searched=searched, file=literal(file), group_rows=ROW_GROUP, group_bytes=GROUP_BYTES)
        )
    except duckdb.OutOfMemoryException:  # no reason to refuse the dataset: its own texts are searched
        file.unlink(missing_ok=True)


def _cases(staged: Staging) -> Iterator[pa.Table]:
    """Yield the cases in the order of their ids; large ones are not read together."""
    connection = staged.connection
    in_order = connection.execute(sql("load/are_in_order")).fetchall()[0][0]
    for first, last in staged.ranges(CASES) if in_order else [(0, MAX_ROWS)]:
        found = connection.sql(sql("load/write_cases"), params={"first": first, "last": last})
        reader = found.to_arrow_reader(ROW_GROUP)
        yield pa.Table.from_batches([], reader.schema)
        yield from (pa.Table.from_batches([batch]) for batch in reader)


def _rows(staged: Staging, connection: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    """Yield the rows, each with the id of its case."""
    end = 0
    for rows in staged.read(ROWS):
        first, end = end, end + len(rows)
        limits = {"first": first, "end": end}
        cases = connection.sql(sql("load/cases_of_rows"), params=limits).to_arrow_table()["case_id"]
        yield rows.append_column("case_id", cases).select(_ROW_COLUMNS)


def _digests(staged: Staging) -> Iterator[pa.Table]:
    """Yield the digests of the rows; to sort those of all rows, all would have to be in memory."""
    for first in range(0, staged.count(ROWS) or 1, ROW_GROUP):
        limits = {"first": first, "end": first + ROW_GROUP}
        yield staged.connection.sql(sql("load/write_digests"), params=limits).to_arrow_table()


def _turns(staged: Staging) -> Iterator[pa.Table]:
    """Yield the turns, each with its case, its model and the digests of its fields."""
    for batch in staged.read(TURNS):
        staged.connection.register("turn_batch", batch)
        yield staged.connection.sql(sql("load/write_turns")).to_arrow_table()
        staged.connection.unregister("turn_batch")


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of some tables in tables of :data:`ROW_GROUP` rows, or fewer that have :data:`GROUP_BYTES`."""
    gathered: pa.Table | None = None
    for table in tables:
        gathered = table if gathered is None else pa.concat_tables([gathered, table])
        while len(gathered) >= ROW_GROUP or gathered.nbytes >= GROUP_BYTES:
            yield gathered.slice(0, ROW_GROUP)
            gathered = gathered.slice(ROW_GROUP)
    if gathered is not None and len(gathered):
        yield gathered


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema, compression="zstd", store_schema=False) as writer:
        for group in _row_groups(chain([first], tables)):
            writer.write_table(group, row_group_size=max(1, len(group)))


CASE_FIELDS: Final = tuple(SCHEMAS[CASES].names[6:])
"""Columns of a case's content, behind its number, place and key."""

_ENOUGH: Final = BATCH_ROWS * len(SCHEMAS[ROWS])

WORDS_FOR_NOTHING: Final = frozenset({"nan", "NaN", "None", "null", "NULL", "<NA>", "NaT"})
"""What Python, pandas and databases write for a missing value when it is made a text."""


class Batches:
    """Gathers records for the staging tables of ``load.sql``.

    Attributes:
        connection: The staging database.
        rows: Answers so far.
        answered: Answers so far that are texts, annotations or errors of a host.
        words_for_nothing: Answers so far that are a word for a missing value, such as ``nan``.
        blank: What a row without answer, annotations and error gets: ``""`` in a table of texts that has a column of
            answers, where an empty cell is an empty answer.
    """

    def __init__(self, staged: Staging, faults: Faults, *, file_size: int) -> None:
        self.connection = staged.connection
        self._room = staged
        self._faults = faults
        self._limit = max(FREE_EXPANSION, MAX_EXPANSION * file_size)
        # Values line after line; a column is every n-th of them. Lines of their own would keep the collector busy.
        self._lines: dict[str, list[Any]] = {table: [] for table in SCHEMAS}
        self._mentions = 0
        self._turns = 0
        self._pending = 0
        self._staged = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leadline-staging")
        self._writing: Future[None] | None = None
        self._tables: list[tuple[pa.Table, pa.Table]] = []
        self.rows = 0
        self.answered = 0
        self.words_for_nothing = 0
        self.blank: str | None = None

    def case(self, place: Place, key: str, *, derived: bool, bare: bool, fields: tuple[Any, ...]) -> int:
        """Stage a mention of a case; ``fields`` are those of :data:`CASE_FIELDS`. Returns the mention's number.

        Args:
            bare: Whether an answer names the case by its key and gives nothing else of it.
            fields: Values of :data:`CASE_FIELDS`, in their order.
        """
        seq = self._mentions
        self._mentions += 1
        self._lines[CASES].extend((seq, place.row, place.part, key, derived, bare, *fields))
        return seq

    def link(self, place: Place, key: str, target: str, perturbation: str) -> None:
        """Stage that a case is a perturbed copy of another."""
        self._lines[LINKS].extend((place.row, place.part, key, target, perturbation))

    def answer(
        self,
        place: Place,
        case: tuple[str, bool, int],
        model: int,
        answer: str | None,
        context: Chunks,
        error: str | None,
        numbers: tuple[float | None, float | None, int | None, int | None],
        metadata: str,
        annotations: str | None = None,
    ) -> None:
        """Stage what a model answered.

        Args:
            case: The case's key, whether it was derived, and the number of its mention.
            numbers: Seconds, US dollars, input tokens, output tokens.
            annotations: What the model found in a data item: JSON list.
        """
        given = answer is not None or error is not None or annotations is not None
        said = answer if given else self.blank
        self._lines[ROWS].extend((self.rows, *place, *case, model, said, context, error, *numbers, metadata))
        self._lines[ROWS].append(annotations)
        self.rows += 1
        self.answered += given
        self.words_for_nothing += answer in WORDS_FOR_NOTHING

    def labels(self, given: Iterable[GivenLabel]) -> None:
        """Stage what people say of the answer that was staged last."""
        for label in given:
            self._lines[LABELS].extend((self.rows - 1, *label))

    def turn(self, line: Sequence[Any]) -> None:
        """Stage what a row has of a conversation, or a turn: the values of ``staged_turns`` in their order."""
        self._lines[TURNS].extend(line)

    def recording(self, key: str, recording: str) -> None:
        """Stage a conversation that was held about a case, as JSON."""
        self._lines[RECORDINGS].extend((key, recording))

    def next_turn(self) -> int:
        """Return the id of the next row that is a turn."""
        self._turns += 1
        return FIRST_TURN + self._turns - 1

    def records(
        self,
        rows: Sequence[int],
        case: Mapping[str, pa.Array],
        answer: Mapping[str, pa.Array],
        *,
        answered: int,
        words_for_nothing: int,
        size: int,
    ) -> None:
        """Stage many records, each a mention of a case with an answer; columns that are left out are empty.

        They are written while the next ones are read.

        Args:
            answered: How many of the answers are texts, annotations or errors of a host.
            words_for_nothing: How many are a word for a missing value.
        """
        if self._lines[CASES]:  # rows are staged in their order
            self.flush()
        record = numbers_of(np.asarray(rows, np.uint32))
        seq = numbers_of(np.arange(self._mentions, self._mentions + len(rows), dtype=np.uint32))
        row_id = numbers_of(np.arange(self.rows, self.rows + len(rows), dtype=np.uint32))
        cases = completed(CASES, {"seq": seq, "record": record, **case})
        answers = completed(ROWS, {"row_id": row_id, "case_seq": seq, "record": record, **answer})
        self._tables.append((cases, answers))
        self._mentions += len(rows)
        self.rows += len(rows)
        self.answered += answered
        self.words_for_nothing += words_for_nothing
        self._pending += size
        if self._pending >= BATCH_BYTES:
            self._write_tables()

    def _write_tables(self) -> None:
        """Have the tables that have gathered written; those before them have been."""
        self._check_size()
        self._wait()
        if self._tables:
            cases, answers = (pa.concat_tables(parts) for parts in zip(*self._tables, strict=True))
            self._tables = []
            self._writing = self._thread.submit(self._append, {CASES: cases, ROWS: answers})

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def end_of_record(self, size: int) -> None:
        """Stage what has gathered if it is enough; ``size`` is the record's size in bytes."""
        self._pending += size
        gathered = max(map(len, self._lines.values()))
        if gathered >= _ENOUGH or self._pending >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Stage what has gathered."""
        self._write_tables()
        self._wait()
        for table, values in self._lines.items():
            if values:
                fields = SCHEMAS[table]
                columns = [as_array(field, values[index :: len(fields)]) for index, field in enumerate(fields)]
                self._append({table: pa.table(columns, schema=fields)})
                values.clear()

    def finish(self) -> None:
        """Stage what has gathered, and show all that was staged to the database."""
        self.flush()
        self._room.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()  # or the connection would be closed below it

    def _check_size(self) -> None:
        """Refuse a file that unpacks to too much."""
        self._staged += self._pending
        self._pending = 0
        if self._staged > self._limit:
            self._faults.stop(None, "", "the file unpacks to more than a thousand times its size: a decompression bomb")
        if self.rows > MAX_ROWS:
            self._faults.stop(None, "", f"the file has more than {MAX_ROWS:,} answers")

    def _append(self, tables: Mapping[str, pa.Table]) -> None:
        for table, batch in tables.items():
            self._room.append(table, batch)
        if ROWS in tables:
            self.connection.register("batch", tables[ROWS])
            self.connection.execute(sql("load/digests"))
            self.connection.unregister("batch")
