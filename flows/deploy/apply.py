"""Making work pools, deployments and automations on a Prefect server, as a file says; doing it again changes nothing.

Unlike ``prefect deploy``, which removes and remakes the automations of a deployment's triggers, this changes them in
place: an event that comes in the meantime is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentScheduleUpdate,
    DeploymentUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.events import AutomationCore, DeploymentTriggerTypes
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.utilities.templating import apply_values
from prefect.workers.utilities import get_default_base_job_template_for_infrastructure_type as template_of
from pydantic import TypeAdapter, ValidationError

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.evaluators.core.refusal import first_refusal
from leadline.flows.deploy.file import Deployment, DeploymentFile, Schedule, WorkPool

Change: TypeAlias = Literal["created", "updated", "unchanged"]

_VOLATILE: Final = frozenset(
    {"id", "created", "updated", "version_id", "branch", "status", "last_polled", "flow_id", "deployment_id"}
    | {"owner_resource"}
)
"""Fields that a server adds or changes by itself."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """Result of deploying one thing.

    Attributes:
        kind: work pool, queue, deployment, trigger or automation.
        name: Its name.
        change: Whether it is new, differs from before, or was so already.
        fields: What of it differs.
    """

    kind: str
    name: str
    change: Change
    fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: str, name: str, fields: tuple[str, ...] | None) -> Deployed:
        """Return the result for a thing from its fields that differ.

        Args:
            kind: Kind of thing.
            name: Its name.
            fields: Fields that differ; ``None`` for a new thing.
        """
        if fields is None:
            return cls(kind, name, "created")
        return cls(kind, name, "updated" if fields else "unchanged", fields)


def deploy(file: DeploymentFile) -> Iterator[Deployed]:
    """Make everything that a file asks for; yields what was done, one by one.

    Raises:
        UsageError: A flow, deployment or automation of the file does not exist or is not valid.
        LeadlineError: The server refuses something.
    """
    with get_client(sync_client=True) as client:
        try:
            yield from _deploy(client, file)
        except PrefectHTTPStatusError as error:
            message = " ".join(error.response.text.split())[:500]
            raise LeadlineError(
                f"Prefect's server refuses {error.request.url.path}: {message}", code=ErrorCode.DEPLOY_REFUSED
            ) from error


def _deploy(client: SyncPrefectClient, file: DeploymentFile) -> Iterator[Deployed]:
    for pool in file.work_pools:
        yield from _work_pool(client, pool)
    ids: dict[str, UUID] = {}
    for deployment in file.deployments:
        fields, full_name, ids_ = _deployment(client, deployment, file.pull)
        ids[full_name] = ids_
        yield Deployed.of("deployment", full_name, fields)
        for trigger in deployment.triggers:
            automation = _automation_of_trigger(trigger, ids_, full_name)
            yield Deployed.of("trigger", automation.name, _automation(client, automation))
    for given in file.automations:
        automation = _automation_of_file(client, given, ids)
        yield Deployed.of("automation", automation.name, _automation(client, automation))


def _work_pool(client: SyncPrefectClient, pool: WorkPool) -> Iterator[Deployed]:
    wanted = {"description": pool.description, "concurrency_limit": pool.concurrency_limit}
    fields: tuple[str, ...] | None = None
    try:
        known = client.read_work_pool(pool.name)
    except ObjectNotFound:
        template = _job_template(pool.type)
        client.create_work_pool(WorkPoolCreate(name=pool.name, type=pool.type, base_job_template=template, **wanted))
    else:
        if known.type != pool.type:
            raise UsageError(
                f"The work pool {pool.name!r} exists and is of type {known.type!r}, not {pool.type!r}.",
                hint="Rename one of them.",
                code=ErrorCode.DEPLOY_POOL,
            )
        fields = _differing(wanted, known.model_dump())
        if fields:
            client.update_work_pool(pool.name, WorkPoolUpdate(**wanted))
    yield Deployed.of("work pool", pool.name, fields)
    for queue in pool.queues:
        of_queue: dict[str, Any] = queue.model_dump(exclude={"name"}, exclude_none=True)
        try:
            found = client.read_work_queue_by_name(queue.name, work_pool_name=pool.name)
        except ObjectNotFound:
            client.create_work_queue(queue.name, work_pool_name=pool.name, **of_queue)
            fields = None
        else:
            fields = _differing(of_queue, found.model_dump())
            if fields:
                client.update_work_queue(found.id, **of_queue)
        yield Deployed.of("queue", f"{pool.name}/{queue.name}", fields)


def _job_template(kind: str) -> dict[str, Any]:
    import anyio

    template = anyio.run(template_of, kind)
    if template is None:
        raise UsageError(
            f"There are no workers of type {kind!r} here.",
            hint="Use process, or install its package.",
            code=ErrorCode.DEPLOY_POOL,
        )
    return template


def _deployment(
    client: SyncPrefectClient, deployment: Deployment, pull: list[dict[str, Any]]
) -> tuple[tuple[str, ...] | None, str, UUID]:
    """Make or change a deployment; return its fields that differ, its full name and its id."""
    try:
        flow: Flow[Any, Any] = load_flow_from_entrypoint(deployment.entrypoint, use_placeholder_flow=False)
    except Exception as error:
        raise UsageError(
            f"Deployment {deployment.name}: {deployment.entrypoint} is not a flow: {type(error).__name__}: {error}.",
            code=ErrorCode.DEPLOY_FLOW,
        ) from error
    full_name = f"{flow.name}/{deployment.name}"
    limit = deployment.concurrency_limit
    fields: dict[str, Any] = {
        "description": deployment.description or flow.description,
        "version": deployment.version or flow.version,
        "tags": list(deployment.tags),
        "parameters": apply_values(deployment.parameters, {}, remove_notset=False),
        "paused": deployment.paused,
        "work_pool_name": deployment.work_pool.name,
        "work_queue_name": deployment.work_pool.work_queue_name or "default",
        "job_variables": deployment.work_pool.job_variables,
        "concurrency_limit": limit.limit if limit else None,
        "concurrency_options": limit
        and ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy(limit.collision_strategy)),
        "entrypoint": deployment.entrypoint,
        "pull_steps": pull,
        "enforce_parameter_schema": True,
        "parameter_openapi_schema": parameter_schema(flow).model_dump(exclude_unset=True),
    }
    try:
        before = client.read_deployment_by_name(full_name)
    except ObjectNotFound:
        schedules = [DeploymentScheduleCreate(**_schedule(schedule)) for schedule in deployment.schedules]
        flow_id = client.create_flow_from_name(flow.name)
        made = client.create_deployment(flow_id, deployment.name, schedules=schedules, **fields)
        return None, full_name, made
    updates = [DeploymentScheduleUpdate(**_schedule(schedule)) for schedule in deployment.schedules]
    client.update_deployment(before.id, DeploymentUpdate(schedules=updates, **fields))
    after = client.read_deployment(before.id)
    return _differing(what_was_told(before), what_was_told(after)), full_name, before.id


def what_was_told(deployment: DeploymentResponse) -> dict[str, Any]:
    """Return the settings of a deployment on a server.

    The rest of its answer, such as how many places are taken, changes while runs start and end.
    """
    essence = _essence(deployment)
    limit = deployment.global_concurrency_limit
    return {name: essence.get(name) for name in DeploymentUpdate.model_fields} | {
        "concurrency_limit": limit.limit if limit else None
    }


def _schedule(schedule: Schedule) -> dict[str, Any]:
    when: CronSchedule | IntervalSchedule | RRuleSchedule
    if schedule.cron is not None:
        when = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    elif schedule.interval is not None:
        when = IntervalSchedule(interval=timedelta(seconds=schedule.interval), timezone=schedule.timezone)
    else:
        when = RRuleSchedule(rrule=str(schedule.rrule), timezone=schedule.timezone)
    parameters = apply_values(schedule.parameters, {}, remove_notset=False)
    return {"slug": schedule.slug, "schedule": when, "active": schedule.active, "parameters": parameters}


def _automation_of_trigger(trigger: Mapping[str, Any], deployment: UUID, full_name: str) -> AutomationCore:
    adapter: TypeAdapter[Any] = TypeAdapter(DeploymentTriggerTypes)
    try:
        parsed = adapter.validate_python({"name": full_name} | dict(trigger))
    except ValidationError as error:
        raise _invalid(f"a trigger of {full_name}", error) from None
    parsed.set_deployment_id(deployment)
    automation: AutomationCore = parsed.as_automation()
    return automation


def _automation_of_file(client: SyncPrefectClient, given: Mapping[str, Any], ids: Mapping[str, UUID]) -> AutomationCore:
    actions = [dict(action) for action in given.get("actions", [])]
    for action in actions:
        name = action.pop("deployment", None)
        if name is None:
            continue
        try:
            action["deployment_id"] = ids.get(name) or client.read_deployment_by_name(name).id
        except ObjectNotFound:
            raise UsageError(
                f"Automation {given.get('name')!r}: there is no deployment {name!r}.", code=ErrorCode.DEPLOY_FLOW
            ) from None
    try:
        return AutomationCore.model_validate(dict(given) | {"actions": actions})
    except ValidationError as error:
        raise _invalid(f"automation {given.get('name')!r}", error) from None


def _invalid(what: str, error: ValidationError) -> UsageError:
    return UsageError(f"{what}, {first_refusal(error)}.", code=ErrorCode.DEPLOY_FILE)


def _automation(client: SyncPrefectClient, automation: AutomationCore) -> tuple[str, ...] | None:
    """Make an automation, or change the one of its name; more of that name, of whatever origin, are removed.

    Returns:
        Its fields that differ, ``None`` for a new one.
    """
    found = client.read_automations_by_name(automation.name)
    if not found:
        client.create_automation(automation)
        return None
    known, *others = found
    for other in others:
        client.delete_automation(other.id)
    fields = automation_fields_that_differ(automation, AutomationCore.model_validate(known.model_dump(exclude={"id"})))
    if fields:
        changed = automation.model_dump(exclude={"owner_resource"}, exclude_unset=True)  # an owner cannot be changed
        client.update_automation(known.id, AutomationCore.model_validate(changed))
    return fields


def automation_fields_that_differ(wanted: AutomationCore, known: AutomationCore) -> tuple[str, ...]:
    """Return the names of the fields in which two automations differ.

    Args:
        wanted: The automation of the file.
        known: The automation of the server.
    """
    return _differing(_essence(wanted), _essence(known))


def _differing(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, value in wanted.items() if known.get(name) != value)


def _essence(model: Any) -> dict[str, Any]:
    """Return what a model says, without what a server adds."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: strip(item) for name, item in value.items() if name not in _VOLATILE and item is not None}
        return [strip(item) for item in value] if isinstance(value, list) else value

    # Not as JSON: a set, such as that of a trigger's events, would become a list in the order of this process.
    return dict(strip(model.model_dump()))
