"""The dataset that a collection writes: in the suite's order, whatever order the answers come in."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import orjson

_ABSENT: Final = -1


class AnswerTable:
    """Takes rows as they come, keeps them in a scratch file, and copies them out in order.

    It takes eight bytes of memory a row.

    Args:
        folder: Folder of the scratch file, which has no name and disappears when it is closed.
        rows: Number of rows.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._places = array("q", [_ABSENT]) * rows
        self._scratch: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> AnswerTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.close()

    def put(self, place: int, row: Mapping[str, Any]) -> None:
        """Keep a row, in place of an earlier one.

        Args:
            place: Its place in the dataset, counted from 0.
            row: Its fields.
        """
        self._places[place] = self._scratch.tell()
        self._scratch.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def write(self, path: Path) -> None:
        """Write all rows in order as JSON Lines."""
        with path.open("wb") as file:
            for place in self._places:
                if place != _ABSENT:
                    self._scratch.seek(place)
                    file.write(self._scratch.readline())
