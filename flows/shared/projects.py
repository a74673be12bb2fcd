"""Projects of ``leadline.toml``: stores, teams, judges and keys that belong together, apart from those of others.

::

    [projects.search]
    store = "stores/search"
    team = "search"
    judges = ["small"]
    keys = { OPENAI_API_KEY = "SEARCH_OPENAI_API_KEY" }
    ledger_env = "SEARCH_LEDGER"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.paths import from_home
from leadline.evaluators.core.project_scope import ProjectScope, project_scope
from leadline.evaluators.core.refusal import first_refusal
from leadline.evaluators.judge.engine.choice import FILE, settings_document

PROJECT_VARIABLE: Final = "LEADLINE_PROJECT_NAME"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Project(BaseModel):
    """A table ``[projects.NAME]``."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    store: str = Field(min_length=1, description="Folder, seen from the file's, or address of a bucket.")
    team: str = Field("", description="Team whose monthly budget its calls count against.")
    judges: tuple[str, ...] = Field((), description="Judges of the file that it may ask, the default one first.")
    keys: dict[str, str] = Field({}, description="Variables of its processes, and those that hold their values.")
    ledger_env: str | None = Field(None, pattern=_VARIABLE, description="Variable with the address of its ledger.")

    @property
    def sources(self) -> set[str]:
        """Variables that are the project's alone."""
        return {*self.keys.values(), *filter(None, [self.ledger_env])}


def projects(file: Path | None = None) -> dict[str, Project]:
    """Return the projects of a configuration file.

    Args:
        file: The file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    path = file or Path(FILE)
    tables = settings_document(file).get("projects", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(
            f"{path}: projects are tables.",
            hint='Write: [projects.NAME] and store = "…"',
            code=ErrorCode.CONFIG_CONTENT,
        )
    found = {name: _project(name, table, path) for name, table in tables.items()}
    places = [_place(project, path) for project in found.values()]
    if len(set(places)) < len(places):
        raise UsageError(
            f"{path}: two projects have one store.", hint="Give each its own.", code=ErrorCode.CONFIG_CONTENT
        )
    return found


def enter(name: str, environment: MutableMapping[str, str], file: Path | None = None) -> ProjectScope:
    """Let this process, and those that it starts, belong to a project; entering it again changes nothing.

    Its environment then has the project's store, team and ledger, the project's keys under the names by which judges
    and targets ask for them, and no variable that holds a key of another project.

    Args:
        name: The project.
        environment: The environment's variables, which are changed.
        file: The configuration file; by default ``leadline.toml`` here.

    Raises:
        UsageError: There is no such project, or the process belongs to another one.
    """
    scope = project_scope(environment)
    if scope is not None:
        if scope.project != name:
            raise scope.refused(f"The project {name[:40]!r}", "no other")
        return scope
    known = projects(file)
    if name not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "there are none"
        raise UsageError(
            f"{file or FILE} has no project {name[:40]!r}; {there}.",
            hint=f"Correct --project or {PROJECT_VARIABLE}.",
            code=ErrorCode.CONFIG_PROJECT,
        )
    project = known[name]
    own = {target: environment[source] for target, source in project.keys.items() if environment.get(source)}
    ledger = environment.get(project.ledger_env) if project.ledger_env else None
    if project.ledger_env and not ledger:
        raise UsageError(
            f"The ledger of the project {name!r} is in {project.ledger_env}, which is not set.",
            hint="Set it, or leave out ledger_env to keep the ledger in the project's store.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    for other in known.values():
        for variable in (*other.sources, *other.keys):
            environment.pop(variable, None)
    for variable in ("LEADLINE_LEDGER", "LEADLINE_TEAM"):
        environment.pop(variable, None)
    scope = ProjectScope(name, _place(project, file or Path(FILE)), project.team, project.judges)
    environment.update(own | scope.to_environment() | {"LEADLINE_STORE": scope.store, PROJECT_VARIABLE: name})
    if project.team:
        environment["LEADLINE_TEAM"] = project.team
    if ledger:
        environment["LEADLINE_LEDGER"] = ledger
    return scope


def _place(project: Project, file: Path) -> str:
    if "://" in project.store:
        return project.store.rstrip("/")
    return str((file.absolute().parent / from_home(project.store)).resolve())


def _project(name: str, table: Mapping[str, Any], path: Path) -> Project:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{path}: {name[:40]!r} is no name of a project.",
            hint="Up to 32 small letters, digits and underscores.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    try:
        project = Project.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"{path}, [projects.{name}]: {first_refusal(error, Project)}.", code=ErrorCode.CONFIG_CONTENT
        ) from None
    for variable in (*project.keys, *project.keys.values()):
        if not re.fullmatch(_VARIABLE, variable):
            raise UsageError(
                f"{path}, [projects.{name}] keys: a name is no name of an environment variable.",
                hint='Write: keys = { OPENAI_API_KEY = "SEARCH_OPENAI_API_KEY" }; never a key itself.',
                code=ErrorCode.CONFIG_SECRET,
            )
    return project
