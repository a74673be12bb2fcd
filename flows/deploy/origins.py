"""Whose file the things on a server come from: Leadline's own, or one of somebody's.

A service deploys Leadline's file whenever it starts, and must not undo what people have deployed or changed since. So
each deployment notes in a variable on the server what it made: the digest of an entry of Leadline's file, or that the
entry was another. Schedules are no part of it: those of a deployment that exists are people's in any case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate

from leadline.flows.deploy.file import DeploymentFile, read_deployment_file

VARIABLE: Final = "leadline_deployed"
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Origins:
    """The things of a file before they are deployed, and what is known of them.

    Attributes:
        wanted: Digests of the file's entries by their key.
        own: Those of Leadline's own file.
        noted: What was noted when they were deployed last.
        keep: Whether what is there is kept.
    """

    wanted: Mapping[str, str]
    own: Mapping[str, str]
    noted: Mapping[str, str]
    keep: bool

    def standing(self, key: str) -> Literal["kept", "unchanged"] | None:
        """Return why a thing that exists stays as it is: another file made it, or its entry is as before."""
        noted = self.noted.get(key)
        if not self.keep or noted is None:
            return None
        if noted == OTHER:
            return "kept"
        return "unchanged" if noted == self.wanted.get(key) else None

    def note(self) -> dict[str, str]:
        """Return what to note once everything of the file is deployed."""
        made = {key: digest if self.own.get(key) == digest else OTHER for key, digest in self.wanted.items()}
        if self.keep:
            made |= {key: OTHER for key, noted in self.noted.items() if noted == OTHER}
        return {key: noted for key, noted in {**self.noted, **made}.items() if key in self.own}


def origins(client: SyncPrefectClient, file: DeploymentFile, *, keep: bool) -> Origins:
    """Return what is known of a file's things.

    Args:
        file: The file to deploy.
        keep: Whether what is there is kept.
    """
    found = client.read_variable_by_name(VARIABLE)
    noted = found.value if found else {}
    known = {str(key): str(value) for key, value in noted.items()} if isinstance(noted, dict) else {}
    return Origins(digests(file), digests(read_deployment_file()), known, keep)


def write_note(client: SyncPrefectClient, note: dict[str, str]) -> None:
    """Keep a note on the server.

    Args:
        note: What each thing was made from.
    """
    if client.read_variable_by_name(VARIABLE) is None:
        client.create_variable(VariableCreate(name=VARIABLE, value=note, tags=["leadline"]))
    else:
        client.update_variable(VariableUpdate(name=VARIABLE, value=note))


def digests(file: DeploymentFile) -> dict[str, str]:
    """Return a short digest of each thing in a file, by kind and name."""
    found: dict[str, Any] = {f"work pool {pool.name}": pool.model_dump(mode="json") for pool in file.work_pools}
    for deployment in file.deployments:
        fields = deployment.model_dump(mode="json", exclude={"schedules", "triggers"})
        found[f"deployment {deployment.name}"] = [fields, file.pull]
        found |= {f"trigger {trigger.get('name')}": trigger for trigger in deployment.triggers}
    found |= {f"automation {automation.get('name')}": automation for automation in file.automations}
    return {key: hashlib.sha256(_plain(entry)).hexdigest()[:8] for key, entry in found.items()}


def _plain(entry: Any) -> bytes:
    return json.dumps(entry, sort_keys=True, default=str).encode()
