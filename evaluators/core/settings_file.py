"""Tables of ``leadline.toml`` in the working directory that hold settings of one mechanism each."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError

FILE: Final = Path("leadline.toml")


def settings_table(name: str, fields: Collection[str]) -> dict[str, Any]:
    """Return a table of the file, empty where there is none.

    Args:
        name: The table's name.
        fields: The fields that it may have.

    Raises:
        UsageError: The file cannot be read, it is no table, or it has another field.
    """
    if not FILE.is_file():
        return {}
    import tomllib

    try:
        table = tomllib.loads(FILE.read_text(encoding="utf-8")).get(name, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{FILE} cannot be read: {error}.", code=ErrorCode.CONFIG_FILE) from None
    known = " and ".join(sorted(fields))
    if not isinstance(table, dict):
        raise UsageError(
            f"{FILE}: {name} is a table.", hint=f"Write: [{name}] and {known} below.", code=ErrorCode.CONFIG_CONTENT
        )
    for field in table:
        if field not in fields:
            raise UsageError(
                f"{FILE}, [{name}] {field[:40]}: there is no such field.",
                hint=f"Fields: {known}.",
                code=ErrorCode.CONFIG_CONTENT,
            )
    return table
