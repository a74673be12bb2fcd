"""Finding the lanes that workers serve: a deployment of the scoring flow, and a worker online in its work pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import WorkerStatus
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_API_URL

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import in_project
from leadline.flows.dispatch.lanes import NoWorkers
from leadline.flows.shared.settings import SCORING_FLOW, Dispatch

_UNREACHABLE: Final = (httpx.HTTPError, PrefectException, RuntimeError)
"""Errors of Prefect's client when the API is away or refuses; a plain ``RuntimeError`` on the first contact."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The deployment and workers that serve a lane.

    Attributes:
        name: The work pool, ``""`` when the lane has no deployment.
        workers: Workers online; 0 also where the pool or the deployment is paused.
        problem: Why there are none, ``""`` when there are.
    """

    lane: Lane
    name: str
    workers: int
    problem: str = ""


def deployment_name(lane: Lane) -> str:
    """Return the full name of a lane's deployment, of this process's project if it belongs to one."""
    return f"{SCORING_FLOW}/{in_project(lane)}"


def look_at(client: SyncPrefectClient, lane: Lane) -> Pool:
    """Return the deployment and the workers that serve a lane now.

    Raises:
        httpx.HTTPError: The API does not answer.
    """
    return Pool(lane, *served_by(client, deployment_name(lane)))


def served_by(client: SyncPrefectClient, deployment: str) -> tuple[str, int, str]:
    """Return the work pool of a deployment, its workers online, and why there are none, as :class:`Pool` has them.

    Raises:
        httpx.HTTPError: The API does not answer.
    """
    try:
        found = client.read_deployment_by_name(deployment)
        pool = found.work_pool_name or ""
        if not pool:
            return "", 0, f"the deployment {deployment} has no work pool"
        if found.paused or client.read_work_pool(pool).is_paused:
            return pool, 0, f"the deployment {deployment} or its work pool {pool!r} is paused"
        online = sum(worker.status == WorkerStatus.ONLINE for worker in client.read_workers_for_work_pool(pool))
    except ObjectNotFound:
        return "", 0, f"the deployment {deployment} or its work pool does not exist"
    return pool, online, "" if online else f"no worker is online in the work pool {pool!r}"


def served(dispatch: str, lanes: Iterable[Lane]) -> Mapping[Lane, int]:
    """Return the lanes whose chunks go to workers, each with the number of workers online.

    Raises:
        NoWorkers: Workers were asked for, and a lane has none.
    """
    if dispatch == Dispatch.INLINE:
        return {}
    forced = dispatch == Dispatch.WORKERS
    if not PREFECT_API_URL.value():
        if forced:
            raise NoWorkers(
                "This run has no Prefect server, which workers are found through.",
                hint="Set PREFECT_API_URL, start one (leadline service server start), or use --dispatch inline.",
            )
        return {}
    try:
        with get_client(sync_client=True) as client:
            pools = [look_at(client, lane) for lane in sorted(set(lanes))]
    except _UNREACHABLE as error:
        if forced:
            raise NoWorkers(f"Prefect's API does not say who serves the work pools: {error}") from None
        return {}
    missing = [pool for pool in pools if not pool.workers]
    if forced and missing:
        raise NoWorkers(
            f"No worker takes chunks of the lane {missing[0].lane!r}: {missing[0].problem}.",
            hint=f"Start one: leadline service worker --pool {missing[0].lane} (after: leadline service deploy). "
            "Or use --dispatch auto, which scores such a lane here.",
        )
    return {pool.lane: pool.workers for pool in pools if pool.workers}
