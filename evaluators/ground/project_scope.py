"""The project that a process belongs to: one store, one team and some judges, and no others.

Whoever enters a project (:mod:`leadline.flows.shared.projects`) writes its scope into the environment, which the
processes that it starts inherit. A process keeps to it wherever it opens a store, charges a budget or asks a judge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError

SCOPE_VARIABLE: Final = "LEADLINE_PROJECT_SCOPE"


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
