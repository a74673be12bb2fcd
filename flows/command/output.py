"""Output of commands: tables for people, JSON for programs, faults of this machine in words. No text is trusted."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from leadline.evaluators.ground.jsonio import plain
from leadline.evaluators.ground.text import count, one_line
from leadline.flows.command.session import on_terminal

_WIDE: Final = 100_000
_SPACES: Final = {ord(character): " " for character in "\t\n\r"}
_MARKS: Final = (
    (re.compile(r":\w+:`~(?:[\w.]*\.)?(\w+)`"), r"\1"),  # :func:`~package.name`
    (re.compile(r":\w+:`([^`]+)`"), r"\1"),
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r"`([^`]+)`"), r"\1"),
    (re.compile(r"\*\*(\S(?:[^*]*\S)?)\*\*"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\((https?://[^)\s]+)\)"), r"\1 (\2)"),
    (re.compile(r"::$", re.MULTILINE), ":"),
    (re.compile(r"^(\s*)\* ", re.MULTILINE), r"\1- "),
)
_REASONS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk's quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.EMFILE: "this process may open no more files, which `ulimit -n` sets",
    errno.ENFILE: "the machine may open no more files",
    errno.EFBIG: "a file may not grow as large as that, which `ulimit -f` sets",
    errno.ENOLCK: "the file system has no file locks",
    errno.EOPNOTSUPP: "the file system has no file locks",
    errno.ENOSYS: "the file system has no file locks",
    errno.EIO: "the disk fails to read or write",
}
_NATIVE: Final = ("duckdb", "_duckdb", "pyarrow", "sqlite3", "sqlalchemy")
"""Packages whose errors say what the system said in their text alone."""

_PATH: Final = re.compile(r"""["'](/[^"'\\]+)""")
_LONGEST: Final = 300
_FEW: Final = 100
"""Inodes below which they, and not bytes, may be what a disk is out of: a failed command has removed some files."""


def clean(value: object) -> str:
    """Return a value as one line that cannot move the cursor, colour the terminal or turn its direction."""
    return "" if value is None else one_line(str(value).translate(_SPACES))


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for people, ``-`` where there is none.

    Args:
        value: The number.
        digits: Digits behind the point.
    """
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def moment(value: object) -> str:
    """Return an ISO 8601 time for people: to the second, in this machine's time zone; as it stands if it is none."""
    if not value:
        return ""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return str(value)
    return (when.astimezone() if when.tzinfo else when).strftime("%Y-%m-%d %H:%M:%S")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    """Print a table: fitted to the terminal, or as wide as it needs to be where nobody looks.

    Args:
        columns: Headings.
        rows: Cells, shown by :func:`clean`.
        right: Headings of the columns that are aligned to the right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in set(right) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    if on_terminal():
        Console(highlight=False).print(table)
        return
    console = Console(width=_WIDE, highlight=False)
    with console.capture() as drawn:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def print_json(value: object) -> None:
    """Print JSON; infinite and undefined numbers become strings, as JSON knows none."""
    click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2))


def plain_text(text: str) -> str:
    """Return a text without its markup: code, emphasis and references read as words."""
    for mark, words in _MARKS:
        text = mark.sub(words, text)
    return text


def host_fault(error: BaseException, store: str) -> str | None:
    """Return a sentence about what the machine refused, where that is what an error or one of its causes is about.

    Args:
        store: The store's folder or address, which is where it was where the error does not say.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _REASONS:
            return _sentence(_REASONS[seen.errno], seen.filename if isinstance(seen.filename, str) else store)
        if type(seen).__module__.partition(".")[0] in _NATIVE:
            text = " ".join(str(seen).split())
            for number, reason in _REASONS.items():
                if os.strerror(number).lower() in text.lower():
                    path = _PATH.search(text)
                    return _sentence(reason, path[1] if path else text[:_LONGEST])
        seen = seen.__cause__
    return None


def _sentence(reason: str, where: str) -> str:
    free = _free(where) if reason == _REASONS[errno.ENOSPC] else ""
    return f"{reason[0].upper()}{reason[1:]}{f': {where}' if where else ''}{free}."


def _few_inodes(left: os.statvfs_result) -> bool:
    """Return whether a file system, which may have no such limit, can hold hardly another file."""
    return left.f_files > 0 and left.f_favail < _FEW


def _free(path: str) -> str:
    """Say how much room there is, where that can be told."""
    if not path.startswith(os.sep):
        return ""
    for place in (Path(path), *Path(path).parents):
        try:
            left = os.statvfs(place)
        except (OSError, ValueError):
            continue
        files = f" and {count(left.f_favail, 'inode')}, of which each file takes one," if _few_inodes(left) else ""
        return f", with {left.f_bavail * left.f_frsize / 2**20:,.0f} MiB{files} left"
    return ""
