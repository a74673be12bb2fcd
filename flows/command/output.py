"""Results on standard output: tables for people, JSON for programs. Texts from datasets are never trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import click

from leadline.evaluators.ground import one_line, plain
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


def clean(value: object) -> str:
    """Return a value as one line that cannot move the cursor, colour the terminal or turn its direction."""
    return "" if value is None else one_line(str(value).translate(_SPACES))


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for people, ``-`` where there is none."""
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
        rows: Cells, shown by :func:`clean`.
        right: Headings of the columns that are aligned to the right.
    """
    from rich import box, console, table, text

    drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in set(right) else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(text.Text(clean(cell)) for cell in row))
    if on_terminal():
        console.Console(highlight=False).print(drawn)
        return
    wide = console.Console(width=_WIDE, highlight=False)
    with wide.capture() as printed:
        wide.print(drawn)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_json(value: object) -> None:
    """Print JSON; infinite and undefined numbers become strings, as JSON knows none."""
    click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2))


def plain_text(text: str) -> str:
    """Return a text without its markup: code, emphasis and references read as words."""
    for mark, words in _MARKS:
        text = mark.sub(words, text)
    return text
