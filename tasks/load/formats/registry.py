"""All dataset formats by name: the built-in ones and those that other packages bring.

A built-in format is any class decorated with :func:`register` in a module of this folder. Another package brings its
own with an entry point in the group ``leadline.formats`` that names a module to import. The modules are imported when a
format is first asked for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections import defaultdict
from collections.abc import Set
from functools import cache
from typing import Final, TypeVar

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.tasks.load.formats.base import DatasetFormat

ENTRY_POINTS: Final = "leadline.formats"

AUTO: Final = "auto"
"""Stands for the format that recognises the first records."""

F = TypeVar("F", bound=type[DatasetFormat])

_registered: dict[str, type[DatasetFormat]] = {}


def register(dataset_format: F) -> F:
    """Class decorator that makes a format known under its name.

    Raises:
        UsageError: Another class has this name.
    """
    known = _registered.setdefault(dataset_format.name, dataset_format)
    ours, theirs = (f"{kind.__module__}.{kind.__qualname__}" for kind in (dataset_format, known))
    if ours != theirs:
        raise UsageError(
            f"Two dataset formats are called {dataset_format.name!r}: {theirs} and {ours}.",
            hint="Rename one of them.",
            code=ErrorCode.PLAN_SAME_ID,
        )
    return dataset_format


@cache
def _import_all() -> None:
    package = importlib.import_module("leadline.tasks.load.formats")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        entry.load()


def all_formats() -> dict[str, type[DatasetFormat]]:
    """Return every known format by name, sorted by name."""
    _import_all()
    return dict(sorted(_registered.items()))


def format_choices() -> tuple[str, ...]:
    """Return what a user may name as a format: ``auto`` and the names of all formats."""
    return (AUTO, *all_formats())


def get_format(name: str) -> type[DatasetFormat]:
    """Return one format.

    Raises:
        UsageError: There is no format of this name.
    """
    known = all_formats()
    if name not in known:
        raise UsageError(
            f"There is no dataset format {name!r}.",
            hint=f"Choose one of: {', '.join(format_choices())}.",
            code=ErrorCode.DATA_FORMAT,
        )
    return known[name]


def recognised_format(names: Set[str], sections: Set[str]) -> type[DatasetFormat] | None:
    """Return the format that is most certain of records, ``None`` if none recognises them.

    Args:
        names: Names of the fields of the first records.
        sections: Lists of a document that contain the records; empty for the records of a plain list or a table.
    """
    found = [(kind.recognises(names, sections), kind) for kind in all_formats().values()]
    certainty, kind = max(found, key=lambda one: one[0])
    return kind if certainty > 0 else None


def unknown_format(names: Set[str]) -> str:
    """Return the message for records that no format recognises.

    Args:
        names: Names of the fields of the first records.
    """
    for kind in all_formats().values():
        if advice := kind.advice(names):
            return advice
    columns = defaultdict(list)
    for kind in all_formats().values():
        if kind.question_column:
            columns[f"{kind.question_column} and {kind.answer_column}"].append(kind.title)
    *most, last = [f"{both} ({', '.join(titles)})" for both, titles in columns.items()]
    listed = sorted(map(str, names))
    shown = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
    return f"no known format has the fields {shown}; expected {', '.join(most)} or {last}"
