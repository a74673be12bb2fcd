"""Paths as users write them, and ``leadline.toml``: the whole file, tables of one kind, the project of a process.

Whoever enters a project (:mod:`leadline.flows.shared.projects`) writes its scope into the environment, which the
processes that it starts inherit. A process keeps to it wherever it opens a store, charges a budget or asks a judge.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.validation_messages import first_refusal

if TYPE_CHECKING:
    from pydantic import BaseModel

    Table = TypeVar("Table", bound=BaseModel)

FILE: Final = Path("leadline.toml")
SCOPE_VARIABLE: Final = "LEADLINE_PROJECT_SCOPE"


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
    except (OSError, ValueError) as error:  # a ValueError is that of TOML, of UTF-8, or of a long integer
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


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """The store, team and judges that the processes of a project may use.

    Attributes:
        project: Its name.
        store: The only store that they open, as an absolute path or an address.
        team: The team whose budget their calls count against; ``""`` for none of the project's own.
        judges: Names of the judges that they may ask, the default one first; all of the file when empty.
    """

    project: str
    store: str
    team: str = ""
    judges: tuple[str, ...] = ()

    def to_environment(self) -> dict[str, str]:
        """Return the variable that holds the scope."""
        return {SCOPE_VARIABLE: json.dumps(asdict(self))}

    def refused(self, what: str, allowed: str) -> UsageError:
        """Return the error for something of which a project has its own.

        Args:
            what: What was asked for.
            allowed: What the project has.
        """
        return UsageError(
            f"{what} is not of the project {self.project!r}, whose processes use {allowed}.",
            hint="Use another project, or none.",
            code=ErrorCode.CONFIG_PROJECT,
        )


def project_scope(environment: Mapping[str, str] | None = None) -> ProjectScope | None:
    """Return the scope of this process, ``None`` where it belongs to no project.

    Args:
        environment: The environment's variables; this process's by default.

    Raises:
        UsageError: The variable was tampered with.
    """
    text = (os.environ if environment is None else environment).get(SCOPE_VARIABLE)
    if not text:
        return None
    try:
        values = json.loads(text)
        return ProjectScope(**values | {"judges": tuple(values.get("judges", ()))})
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{SCOPE_VARIABLE} cannot be read.",
            hint="Leadline sets it; unset it, and name the project with --project.",
            code=ErrorCode.CONFIG_PROJECT,
        ) from error


def in_project(name: str) -> str:
    """Return the name of a work pool or deployment for this process's project: ``cpu``, or ``cpu-search``."""
    scope = project_scope()
    return f"{name}-{scope.project}" if scope else name


def from_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with a leading ``~`` or ``~user`` replaced by the home folder.

    Raises:
        UsageError: There is no such user, or nobody knows the folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise UsageError(
            f"{os.fspath(path)!r}: the home folder of {user} is not known.",
            hint="Write it out.",
            code=ErrorCode.CONFIG_PATH,
        ) from None
