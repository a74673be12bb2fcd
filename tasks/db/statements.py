"""The SQL statements in ``tasks/db/sql``: a file per topic, cut into statements at lines ``-- statement: <name>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_STATEMENT: Final = re.compile(r"^-- statement: (\w+)\n", re.MULTILINE)


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
    return (files("leadline.tasks.db") / "sql" / f"{topic}.sql").read_text(encoding="utf-8")
