"""A scratch database that holds a dataset while it is read; beyond its share of memory it spills into the store.

It is a database in memory with a folder to spill to: as bounded as one on disk, without a write-ahead log that would
write everything twice. Every batch is its own transaction, for DuckDB keeps the rows of an open one in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tasks.db import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tasks.store import Store

MEMORY: Final = "800MB"
_ABANDONED: Final = 24 * 3600.0


@contextmanager
def staging(store: Store) -> Iterator[DuckDBPyConnection]:
    """Open an empty staging database in the store; it is gone when the block ends."""
    import duckdb

    room = store.root / "staging"
    room.mkdir(parents=True, exist_ok=True)
    _sweep(room)
    with tempfile.TemporaryDirectory(prefix="load-", dir=room, ignore_cleanup_errors=True) as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": str(Path(folder) / "spill"),
            "threads": min(4, os.cpu_count() or 1),
            "preserve_insertion_order": True,
        }
        with duckdb.connect(config=config) as connection:
            connection.execute(sql("load_staging"))
            yield connection


def _sweep(room: Path) -> None:
    """Remove what loads left behind that were killed."""
    for folder in room.glob("load-*"):
        try:
            old = time.time() - folder.stat().st_mtime > _ABANDONED
        except FileNotFoundError:
            continue
        if old:
            shutil.rmtree(folder, ignore_errors=True)
