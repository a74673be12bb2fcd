"""All dataset formats by name: the built-in ones and those that other packages bring.

A built-in format is any class decorated with :func:`register` in a module of this folder. Another package brings its
own with an entry point in the group ``leadline.formats`` that names a module to import. The modules are imported when a
format is first asked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Set
from itertools import islice
from typing import Final

from leadline.tasks.ground.plugins import Plugins
from leadline.tasks.load.columns import listed, mapped, resembling
from leadline.tasks.load.formats.base import DatasetFormat

AUTO: Final = "auto"
"""Stands for the format that recognises the first records."""

FORMATS: Final = Plugins[DatasetFormat]("dataset format", "leadline.tasks.load.formats", "leadline.formats")

register = FORMATS.register
get_format = FORMATS.get


def all_formats() -> dict[str, type[DatasetFormat]]:
    """Return every known format by name, sorted by name."""
    return {kind.name: kind for kind in sorted(FORMATS.all(), key=lambda kind: kind.name)}


def format_choices() -> tuple[str, ...]:
    """Return what a user may name as a format: ``auto`` and the names of all formats."""
    return (AUTO, *all_formats())


def recognised_format(names: Set[str], sections: Set[str]) -> type[DatasetFormat] | None:
    """Return the format that is most certain of records, ``None`` if none recognises them.

    Args:
        sections: Lists of a document that contain the records; empty for the records of a plain list or a table.
    """
    found = [(kind.recognises(names, sections), kind) for kind in all_formats().values()]
    certainty, kind = max(found, key=lambda one: one[0])
    return kind if certainty > 0 else None


def unknown_format(names: Set[str]) -> str:
    """Return the message for records that no format recognises."""
    for kind in all_formats().values():
        if advice := kind.advice(names):
            return advice
    columns = defaultdict(list)
    for kind in all_formats().values():
        if kind.question_column:
            columns[f"{kind.question_column} and {kind.answer_column}"].append(kind.title)
    *most, last = [f"{both} ({', '.join(titles)})" for both, titles in columns.items()]
    others = [
        f"{kind.title} ({', '.join(marks)})"
        for kind in all_formats().values()
        if not kind.question_column and (marks := re.findall("`([^`]+)`", kind.recognised_by))
    ]
    near = [mapped(*each) for each in islice(resembling(sorted(names), {"question", "actual_answer"}), 4)]
    hint = f"did you mean {' '.join(near)}" if near else "name them: --map question=COLUMN --map actual_answer=COLUMN"
    return (
        f"no column is known to be a question or an answer: {listed(sorted(names))}; {hint}. "
        f"Formats have {', '.join(most)} or {last}. Looked for, too: {', '.join(others)}"
    )
