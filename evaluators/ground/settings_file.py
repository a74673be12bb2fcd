"""Reading ``leadline.toml``: the whole file, a table with the settings of one mechanism, or tables that people name."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Table = TypeVar("Table", bound=BaseModel)

FILE: Final = Path("leadline.toml")


def settings_document(file: Path | None = None) -> dict[str, Any]:
    """Return the content of a configuration file; without a name of the one that is here, if there is one.

    Raises:
        UsageError: It cannot be read.
    """
    import tomllib

    path = file or FILE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if file is None:
            return {}
        raise UsageError(f"There is no file {path}.", code=ErrorCode.CONFIG_FILE) from None
    except (
        OSError,
        ValueError,
    ) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors, as of long integers
        raise UsageError(f"{path} cannot be read: {error}.", code=ErrorCode.CONFIG_FILE) from None
    except RecursionError:
        raise UsageError(f"{path} cannot be read: it is nested too deeply.", code=ErrorCode.CONFIG_FILE) from None


def settings_table(name: str, fields: Collection[str] | None = None) -> dict[str, Any]:
    """Return a table of the file that is here, empty where there is none.

    Args:
        name: The table's name.
        fields: The fields that it may have; without them, any.

    Raises:
        UsageError: The file cannot be read, it is no table, or it has another field.
    """
    table = settings_document().get(name, {})
    known = " and ".join(sorted(fields)) if fields else "the settings"
    if not isinstance(table, dict):
        raise UsageError(
            f"{FILE}: {name} is a table.", hint=f"Write: [{name}] and {known} below.", code=ErrorCode.CONFIG_CONTENT
        )
    for field in table:
        if fields is not None and field not in fields:
            raise UsageError(
                f"{FILE}, [{name}] {field[:40]}: there is no such field.",
                hint=f"Fields: {known}.",
                code=ErrorCode.CONFIG_CONTENT,
            )
    return table


def named_tables(
    kind: str, model: type[Table], file: Path | None, *, names: re.Pattern[str], rule: str, example: str
) -> dict[str, Table]:
    """Return the tables ``[kind.NAME]`` of a configuration file by name; none if it has none.

    Args:
        kind: The table that they are in.
        model: What each of them is.
        file: The configuration file; by default the one that is here, if there is one.
        names: What a name looks like.
        rule: The same in words.
        example: What a table has, for the hint.

    Raises:
        UsageError: The file is broken.
    """
    from pydantic import ValidationError

    from leadline.evaluators.ground.refusal import first_refusal

    path = file or FILE
    tables = settings_document(file).get(kind, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(
            f"{path}: {kind} are tables.", hint=f"Write: [{kind}.NAME] and {example}", code=ErrorCode.CONFIG_CONTENT
        )
    found = {}
    for name, table in tables.items():
        where = f"{path}, [{kind}.{name[:64]}]"
        if not names.fullmatch(name):
            raise UsageError(f"{where}: that is no name.", hint=rule, code=ErrorCode.CONFIG_CONTENT)
        try:
            found[name] = model.model_validate(table)
        except ValidationError as error:
            raise UsageError(f"{where}: {first_refusal(error, model)}.", code=ErrorCode.CONFIG_CONTENT) from None
    return found
