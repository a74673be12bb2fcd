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
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from leadline.evaluators.ground import FILE, ErrorCode, ProjectScope, UsageError, from_home, named_tables, project_scope

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

    @field_validator("keys")
    @classmethod
    def _names_variables(cls, value: dict[str, str]) -> dict[str, str]:
        if not all(re.fullmatch(_VARIABLE, variable) for variable in (*value, *value.values())):
            raise ValueError('names variables, as OPENAI_API_KEY = "SEARCH_OPENAI_API_KEY", and never a key itself')
        return value

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
    path = file or FILE
    found = named_tables(
        "projects",
        Project,
        file,
        names=_NAME,
        rule="Up to 32 small letters, digits and underscores.",
        example='store = "…"',
    )
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
    scope = ProjectScope(name, _place(project, file or FILE), project.team, project.judges)
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
