"""Every text that files hold, also those that are compressed: to look for what must not be there."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import duckdb


def texts_of(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, and the values within Parquet files, databases and archives."""
    raw = path.read_bytes()
    yield raw
    if path.suffix == ".parquet":
        with duckdb.connect() as connection:
            yield _rows(connection, f"SELECT * FROM read_parquet('{path}')")
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as connection:
            for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                yield _rows(connection, f'SELECT * FROM "{table}"')
    elif raw.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.DatabaseError):
            yield "\n".join(connection.iterdump()).encode("utf-8", "replace")
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield archive.read(name)


def holding(folder: Path, texts: dict[str, bytes]) -> dict[str, list[str]]:
    """Return the files below a folder that hold a text, by the text's name."""
    found: dict[str, list[str]] = {name: [] for name in texts}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            inside = b"\0".join(texts_of(path))
            for name, text in texts.items():
                if text in inside or json.dumps(text.decode())[1:-1].encode() in inside:
                    found[name].append(str(path.relative_to(folder)))
    return found


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> bytes:
    return repr(connection.execute(query).fetchall()).encode("utf-8", "replace")
