"""The records that a load has read so far: files of Parquet, in which each batch is a row group of its own.

DuckDB reads a table of its own in vectors of 2,048 rows, and all texts of a vector are in memory together; a vector of
a Parquet file ends with its row group. So rows of a megabyte take no more memory than those of a hundred bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from leadline.tasks.db import literal, sql
from leadline.tasks.load.limits import MIB

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from duckdb import DuckDBPyConnection

CASES: Final = "staged_cases"
LINKS: Final = "staged_links"
ROWS: Final = "staged_rows"
LABELS: Final = "staged_labels"

ROW_GROUP: Final = 20_480
"""Most rows of a Parquet row group in a dataset: what is skipped or read as a whole."""

GROUP_BYTES: Final = 16 * MIB
"""Bytes after which a row group in a dataset ends, however few rows it has."""

_PLACE: Final = ("record", "part", "case_key")


def _schemas() -> Mapping[str, pa.Schema]:
    import pyarrow as pa

    text, texts = pa.large_string(), pa.large_list(pa.large_string())
    place = {"record": pa.uint32(), "part": text, "case_key": text}
    cases = {
        "seq": pa.uint32(),
        **place,
        "derived": pa.bool_(),
        "bare": pa.bool_(),
        "question": text,
        "expected_answers": texts,
        "expected_documents": texts,
        "condition": text,
        "categories": texts,
        "expected_annotations": text,
        "metadata": text,
    }
    chunk = pa.struct([("content", text), ("doc_uri", text)])
    rows = {
        "row_id": pa.uint32(),
        **place,
        "derived": pa.bool_(),
        "case_seq": pa.uint32(),
        "model_id": pa.uint16(),
        "actual_answer": text,
        "retrieved_context": pa.large_list(chunk),
        "error": text,
        "duration_s": pa.float64(),
        "cost_usd": pa.float64(),
        "input_tokens": pa.uint64(),
        "output_tokens": pa.uint64(),
        "metadata": text,
        "predicted_annotations": text,
    }
    links = {**place, "target": text, "perturbation": text}
    labels = {"row_id": pa.uint32(), "question": text, "value": pa.float64(), "person": text, "note": text}
    tables = {CASES: cases, LINKS: links, ROWS: rows, LABELS: labels}
    return {name: pa.schema(list(fields.items())) for name, fields in tables.items()}


_IF_LEFT_OUT: Final[dict[str, str | list[object]]] = {"part": "", "retrieved_context": []}
"""What stands in columns that may not be null where they are left out; so do ``{}`` in the rows' metadata."""


class StagedTables:
    """Writes the tables of staged records; ``load.sql`` says what is in them.

    Args:
        folder: Where to write.
    """

    def __init__(self, folder: Path) -> None:
        from pyarrow import parquet

        self._opened = ExitStack()
        self._schemas = _schemas()
        self._files = {name: folder / f"{name}.parquet" for name in self._schemas}
        self._writers: dict[str, pq.ParquetWriter] = {
            name: self._opened.enter_context(
                parquet.ParquetWriter(
                    self._files[name],
                    schema,
                    compression="lz4",
                    use_dictionary=False,
                    write_statistics=["seq", "row_id"],
                    store_schema=False,
                )
            )
            for name, schema in self._schemas.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def completed(self, table: str, batch: pa.Table) -> pa.Table:
        """Return a batch with all columns of a table, in their order.

        Args:
            batch: Some of its columns.
        """
        import pyarrow as pa

        defaults = _IF_LEFT_OUT | dict[str, str | list[object]]({"metadata": "{}"} if table == ROWS else {})
        columns = [
            batch[field.name].cast(field.type)
            if field.name in batch.column_names
            else pa.repeat(pa.scalar(defaults[field.name], field.type), len(batch))
            if field.name in defaults
            else pa.nulls(len(batch), field.type)
            for field in self._schemas[table]
        ]
        return pa.table(columns, schema=self._schemas[table])

    def append(self, table: str, batch: pa.Table) -> None:
        """Write a batch as a row group.

        Args:
            batch: All of its columns.
        """
        self._writers[table].write_table(batch, row_group_size=len(batch))

    def finish(self, connection: DuckDBPyConnection) -> None:
        """End the files, and show them as tables of a database."""
        self._opened.close()
        files = {name: literal(path) for name, path in self._files.items()}
        connection.execute(sql("load/staged").format(cases=files[CASES], links=files[LINKS], rows=files[ROWS]))

    def read(self, table: str) -> Iterator[pa.Table]:
        """Yield a finished table's batches, and first an empty one."""
        from pyarrow import parquet

        yield self._schemas[table].empty_table()
        with parquet.ParquetFile(self._files[table]) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False).cast(self._schemas[table])

    def count(self, table: str) -> int:
        """Return the number of lines of a finished table."""
        from pyarrow import parquet

        return int(parquet.read_metadata(self._files[table]).num_rows)

    def ranges(self, table: str) -> Iterator[tuple[int, int]]:
        """Yield the first and the last number of rows of a finished table that are no more than a row group may be."""
        from pyarrow import parquet

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


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of some tables in tables of :data:`ROW_GROUP` rows, or fewer that have :data:`GROUP_BYTES`."""
    import pyarrow as pa

    gathered: pa.Table | None = None
    for table in tables:
        gathered = table if gathered is None else pa.concat_tables([gathered, table])
        while len(gathered) >= ROW_GROUP or gathered.nbytes >= GROUP_BYTES:
            yield gathered.slice(0, ROW_GROUP)
            gathered = gathered.slice(ROW_GROUP)
    if gathered is not None and len(gathered):
        yield gathered
