"""Extensions by entry points: what other packages bring, and Leadline's own plug-ins, which a checkout may lack."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

OWN: Final = "leadline.plugins."
_PLUGINS: Final = Path(__file__).parents[2] / "plugins"


@lru_cache(maxsize=1)
def _all(path: tuple[str, ...]) -> Any:
    """Return the entry points of all packages on Python's path; this reads the metadata of each."""
    return entry_points()


def extensions(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, without those of Leadline's own plug-ins that are not in this checkout.

    Ours come last: in a table by name no other package replaces them.

    Args:
        group: For example ``leadline.commands``.
    """
    found = _all(tuple(sys.path)).select(group=group)
    return tuple(sorted((each for each in found if not is_own(each) or _source_of(each).exists()), key=is_own))


def is_own(entry: EntryPoint) -> bool:
    """Return whether an entry point is of one of Leadline's own plug-ins."""
    return entry.value.startswith(OWN)


def own_source(entry: EntryPoint) -> str:
    """Return the source of the module that an entry point of an own plug-in names, without importing it."""
    return _source_of(entry).read_text(encoding="utf-8")


def loaded(group: str, name: str) -> Any:
    """Return the object that an extension of a group brings, or ``None`` if there is none of that name.

    Args:
        name: Name of the entry point.
    """
    entry = {each.name: each for each in extensions(group)}.get(name)
    return entry.load() if entry else None


def _source_of(entry: EntryPoint) -> Path:
    path = _PLUGINS.joinpath(*entry.module.removeprefix(OWN).split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
