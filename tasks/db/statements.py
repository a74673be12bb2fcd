"""The SQL statements: files beside the modules that run them, cut into statements at lines ``-- statement: <name>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_STATEMENT: Final = re.compile(r"^-- statement: (\w+)\n", re.MULTILINE)
_ROOMS: Final = ("tasks", "flows", "plugins")


@cache
def sql(name: str) -> str:
    """Return SQL: ``"publish/models"`` is a statement of ``publish.sql``, ``"dataset"`` is all of ``dataset.sql``."""
    topic, _, statement = name.partition("/")
    return _statements(topic)[statement] if statement else _read(topic)


@cache
def _statements(topic: str) -> Mapping[str, str]:
    parts = _STATEMENT.split(_read(topic))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _read(topic: str) -> str:
    found = (files_of(room) for room in _ROOMS)
    return next(files[topic] for files in found if topic in files).read_text(encoding="utf-8")


@cache
def files_of(room: str) -> Mapping[str, Path]:
    """Return the files of SQL of a room by their topics; no two rooms or folders have one of the same."""
    return {path.stem: path for path in (Path(__file__).parents[2] / room).rglob("*.sql")}
