"""Rows of a table in Arrow, to be read column by column."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leadline.tasks.load.column_values import values_of

if TYPE_CHECKING:
    import pyarrow as pa


class TableRecords:
    """Rows of a table.

    Args:
        batch: The rows.
        names: Names of its columns; of two alike the last counts.
        rows: Their numbers.
    """

    def __init__(self, batch: pa.RecordBatch, names: Sequence[str], rows: Sequence[int]) -> None:
        self._columns = dict(zip(names, batch.columns, strict=True))
        self.rows = rows
        self.size = batch.nbytes

    def namings(self) -> Iterable[Mapping[str, object]]:
        """Return the columns: every row has all of them."""
        return [self._columns] if self.rows else []

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        return self._columns[name]

    def others(self, without: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each row that are not absent, but for those of some columns."""
        names = [name for name in self._columns if name not in without]
        for cells in zip(*(values_of(self._columns[name]) for name in names), strict=True):
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}
