"""The columns of a run's results, for the pages on results and on Python, from the tables themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from leadline.tasks.db import Certification, Correction, FlipCause, FlipRate, TableColumn, TrialSpread, columns_of
from leadline.tasks.publish.exports.published_tables import PUBLISHED, RUNS, PublishedColumn
from leadline.tasks.runs.run_facts import RunSummary

Column = TypeVar("Column", TableColumn, PublishedColumn)

USUAL: Final = ("string", "float64", "int64")
"""Types in pandas that the page on Python says once for all tables."""
MEASURED: Final[Mapping[str, type]] = {
    "corrections": Correction,
    "certificates": Certification,
    "trial_spread": TrialSpread,
    "flip_rates": FlipRate,
    "flip_causes": FlipCause,
}
"""The tables that ``report.json`` has line by line."""


def published_table(name: str, *, typed: bool = False) -> str:
    """Return the columns of a published table, between the comments that mark them.

    Args:
        typed: Name the types in pandas that are not the usual ones.
    """
    return _marked(name, _columns(PUBLISHED[name], typed=typed))


def runs_table() -> str:
    """Return the columns of a store's runs, between the comments that mark them."""
    return _marked("runs", _columns([c for c in columns_of(RunSummary) if c.name in RUNS], typed=False))


def report_lines() -> str:
    """Return the columns of the tables in ``report.json``, between the comments that mark them."""
    lines = []
    for name, kind in MEASURED.items():
        about = (kind.__doc__ or "").partition("\n")[0].partition("; see ")[0].rstrip(".")
        columns = [column for column in columns_of(kind) if not column.name.endswith("_id")]
        told = "; ".join(_told(group) for group in _groups(columns))
        lines.append(f"| `{name}` | {about}: {told} |\n")
    return _marked("lines", f"| Field | Its lines |\n| --- | --- |\n{''.join(lines)}")


def _columns(columns: Sequence[Column], *, typed: bool) -> str:
    lines = [
        f"| {', '.join(_named(column, typed=typed) for column in group)} | {group[0].words} |\n"
        for group in _groups(columns)
    ]
    return f"| Column | Meaning |\n| --- | --- |\n{''.join(lines)}"


def _told(group: list[TableColumn]) -> str:
    names = ", ".join(f"`{column.name}`" for column in group)
    return f"{names} ({group[0].words})" if group[0].words else names


def _named(column: TableColumn | PublishedColumn, *, typed: bool) -> str:
    return f"`{column.name}`" + (f" ({column.pandas})" if typed and column.pandas not in USUAL else "")


def _groups(columns: Iterable[Column]) -> list[list[Column]]:
    """Return the columns in groups: each begins with one that has words, which are those of all."""
    groups: list[list[Column]] = []
    for column in columns:
        if column.words or not groups:
            groups.append([])
        groups[-1].append(column)
    return groups


def _marked(name: str, table: str) -> str:
    return f"<!-- {name}: written by make docs -->\n{table}<!-- end of {name} -->"
