"""The file of deployments, ``deployments/prefect.yaml``: Prefect's own format with two more sections.

``work_pools`` and ``automations`` are Leadline's; ``prefect deploy`` reads the rest of the same file.
"""

from __future__ import annotations

from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from leadline.evaluators.ground import ErrorCode, UsageError, first_refusal


class Queue(BaseModel):
    """A queue of a work pool; the lower its priority's number, the sooner it is served."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    priority: int | None = Field(None, ge=1)
    concurrency_limit: int | None = Field(None, ge=0)
    description: str = ""


class WorkPool(BaseModel):
    """A work pool, served by process workers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    type: str = "process"
    description: str = ""
    concurrency_limit: int | None = Field(None, ge=0)
    queues: tuple[Queue, ...] = ()


class Schedule(BaseModel):
    """Schedule of a deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slug: str = Field(min_length=1, description="Its name, by which it is found again when it changes.")
    cron: str | None = None
    interval: int | None = Field(None, ge=1, description="Seconds.")
    rrule: str | None = None
    anchor_date: datetime | None = Field(None, description="From when an interval is counted.")
    timezone: str = "UTC"
    active: bool = True
    parameters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check_one(self) -> Schedule:
        if sum(way is not None for way in (self.cron, self.interval, self.rrule)) != 1:
            raise ValueError("give one of cron, interval and rrule")
        if self.anchor_date is not None and self.interval is None:
            raise ValueError("anchor_date belongs to an interval")
        return self


class PoolOfDeployment(BaseModel):
    """Work pool and queue of a deployment's runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    work_queue_name: str | None = None
    job_variables: dict[str, Any] = {}


class Concurrency(BaseModel):
    """Limit of simultaneous runs of a deployment, and what happens to further ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(ge=1)
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"] = "ENQUEUE"


class Deployment(BaseModel):
    """A deployment, by those of Prefect's keys that Leadline uses."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    entrypoint: str = Field(pattern=r"^[\w.]+$", description="package.module.flow")
    work_pool: PoolOfDeployment
    description: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    paused: bool = False
    concurrency_limit: Concurrency | None = None
    schedules: tuple[Schedule, ...] = ()
    triggers: tuple[dict[str, Any], ...] = ()


class DeploymentFile(BaseModel):
    """The complete file; Prefect's own keys that are of no use here are passed over."""

    model_config = ConfigDict(extra="ignore")

    work_pools: tuple[WorkPool, ...] = ()
    pull: list[dict[str, Any]] = []
    deployments: tuple[Deployment, ...] = ()
    automations: tuple[dict[str, Any], ...] = ()


def of_project(file: DeploymentFile, project: str) -> DeploymentFile:
    """Return what is deployed for a project: work pools and deployments of its own names.

    Events of model registries name no project, so triggers are left to the deployments without one. The automations of
    these are for the runs of projects too.
    """
    pools = tuple(pool.model_copy(update={"name": f"{pool.name}-{project}"}) for pool in file.work_pools)
    deployments = tuple(
        one.model_copy(
            update={
                "name": f"{one.name}-{project}",
                "tags": (*one.tags, f"project:{project}"),
                "triggers": (),
                "work_pool": one.work_pool.model_copy(update={"name": f"{one.work_pool.name}-{project}"}),
            }
        )
        for one in file.deployments
        if one.name != "alert"
    )
    return file.model_copy(update={"work_pools": pools, "deployments": deployments, "automations": ()})


def own_file() -> str:
    """Return the text of the file that comes with Leadline."""
    return (resources.files("leadline.deployments") / "prefect.yaml").read_text(encoding="utf-8")


def read_deployment_file(path: Path | None = None) -> DeploymentFile:
    """Read and check a file.

    Args:
        path: The file; by default Leadline's own.

    Raises:
        UsageError: It cannot be read, or something in it is not as it should be.
    """
    name = str(path) if path else "Leadline's prefect.yaml"
    try:
        text = path.read_text(encoding="utf-8") if path else own_file()
        loaded = yaml.safe_load(text)
        if not isinstance(loaded, dict):
            raise UsageError(
                f"{name} must hold a mapping.",
                hint="Begin with: leadline service deploy --print > prefect.yaml",
                code=ErrorCode.DEPLOY_FILE,
            )
        found = DeploymentFile.model_validate(loaded)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.", code=ErrorCode.DEPLOY_FILE) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name} is not YAML: {' '.join(str(error).split())}.", code=ErrorCode.DEPLOY_FILE) from error
    except ValidationError as error:
        raise UsageError(f"{name}, {first_refusal(error, DeploymentFile)}.", code=ErrorCode.DEPLOY_FILE) from None
    return found
