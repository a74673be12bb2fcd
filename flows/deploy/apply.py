"""Making work pools, deployments and automations on a Prefect server, as a file says; doing it again changes nothing.

A note on the server has the digests of what Leadline's own file deployed, and says which things another file did.

Unlike ``prefect deploy``, which removes and remakes the automations of a deployment's triggers, this changes them in
place: an event that comes in the meantime is not lost.

A service deploys Leadline's file whenever it starts, and must not undo what people have deployed or changed since. So
each deployment notes in a variable on the server what it made: the digest of an entry of Leadline's file, or that the
entry was another. Schedules are no part of it: those of a deployment that exists are people's in any case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import anyio
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentScheduleUpdate,
    DeploymentUpdate,
    VariableCreate,
    VariableUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import SCHEDULE_TYPES, CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.events import AutomationCore, DeploymentTriggerTypes
from prefect.exceptions import ObjectNotFound, ParameterBindError, ParameterTypeError, PrefectHTTPStatusError
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import get_call_parameters, parameter_schema
from prefect.utilities.templating import apply_values
from prefect.workers.utilities import get_default_base_job_template_for_infrastructure_type as template_of
from pydantic import TypeAdapter, ValidationError

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, first_refusal
from leadline.flows.deploy.file import Deployment, DeploymentFile, Queue, Schedule, WorkPool, read_deployment_file

Change: TypeAlias = Literal["created", "updated", "unchanged", "kept"]

_VOLATILE: Final = frozenset(
    {"id", "created", "updated", "version_id", "branch", "status", "last_polled", "flow_id", "deployment_id"}
    | {"owner_resource"}
)
"""Fields that a server adds or changes by itself."""

_OF_CODE: Final = ("parameter_openapi_schema",)
"""Fields of a deployment that its flow's code says."""

VARIABLE: Final = "leadline_deployed"
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Deployed:
    """Result of deploying one thing.

    Attributes:
        kind: work pool, queue, deployment, trigger or automation.
        change: Whether it is new, differs from before, was so already, or is kept as another file has it.
    """

    kind: str
    name: str
    change: Change
    fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: str, name: str, fields: tuple[str, ...] | None) -> Deployed:
        """Return the result for a thing from its fields that differ.

        Args:
            fields: Fields that differ; ``None`` for a new thing.
        """
        if fields is None:
            return cls(kind, name, "created")
        return cls(kind, name, "updated" if fields else "unchanged", fields)


def deploy(file: DeploymentFile, *, keep: bool = False) -> Iterator[Deployed]:
    """Make everything that a file asks for; yields what was done, one by one.

    Args:
        keep: Leave as it is what another file has made, what has not changed in this one, all schedules, and what is
            paused or disabled: what people have changed since stays.

    Raises:
        UsageError: A flow, deployment or automation of the file does not exist or is not valid.
        LeadlineError: The server refuses something.
    """
    with get_client(sync_client=True) as client:
        try:
            known = _origins(client, file, keep=keep)
            yield from _deploy(client, file, known)
            _write_note(client, known.note())
        except PrefectHTTPStatusError as error:
            message = " ".join(error.response.text.split())[:500]
            raise LeadlineError(
                f"Prefect's server refuses {error.request.url.path}: {message}", code=ErrorCode.DEPLOY_REFUSED
            ) from error


def _deploy(client: SyncPrefectClient, file: DeploymentFile, known: Origins) -> Iterator[Deployed]:
    for deployment in file.deployments:
        require_fitting_schedules(deployment)
    for pool in file.work_pools:
        yield from _work_pool(client, pool, known)
    ids: dict[str, UUID] = {}
    for deployment in file.deployments:
        done, ids_ = _deployment(client, deployment, file.pull, known)
        ids[done.name] = ids_
        yield done
        for trigger in deployment.triggers:
            yield _automation(client, "trigger", _automation_of_trigger(trigger, ids_, done.name), known)
    for given in file.automations:
        yield _automation(client, "automation", _automation_of_file(client, given, ids), known)


def _work_pool(client: SyncPrefectClient, pool: WorkPool, known: Origins) -> Iterator[Deployed]:
    wanted = {"description": pool.description, "concurrency_limit": pool.concurrency_limit}
    standing = known.standing(f"work pool {pool.name}")
    try:
        there = client.read_work_pool(pool.name)
    except ObjectNotFound:
        template = _job_template(pool.type)
        client.create_work_pool(WorkPoolCreate(name=pool.name, type=pool.type, base_job_template=template, **wanted))
        yield Deployed("work pool", pool.name, "created")
    else:
        if there.type != pool.type:
            raise UsageError(
                f"The work pool {pool.name!r} exists and is of type {there.type!r}, not {pool.type!r}.",
                hint="Rename one of them.",
                code=ErrorCode.DEPLOY_POOL,
            )
        fields = _differing(wanted, there.model_dump())
        if fields and not standing:
            client.update_work_pool(pool.name, WorkPoolUpdate(**wanted))
        yield Deployed("work pool", pool.name, standing) if standing else Deployed.of("work pool", pool.name, fields)
    for queue in pool.queues:
        yield _queue(client, pool.name, queue, standing)


def _queue(
    client: SyncPrefectClient, pool: str, queue: Queue, standing: Literal["kept", "unchanged"] | None
) -> Deployed:
    wanted: dict[str, Any] = queue.model_dump(exclude={"name"}, exclude_none=True)
    name = f"{pool}/{queue.name}"
    try:
        there = client.read_work_queue_by_name(queue.name, work_pool_name=pool)
    except ObjectNotFound:
        client.create_work_queue(queue.name, work_pool_name=pool, **wanted)
        return Deployed("queue", name, "created")
    if standing:
        return Deployed("queue", name, standing)
    fields = _differing(wanted, there.model_dump())
    if fields:
        client.update_work_queue(there.id, **wanted)
    return Deployed.of("queue", name, fields)


def _job_template(kind: str) -> dict[str, Any]:
    template = anyio.run(template_of, kind)
    if template is None:
        raise UsageError(
            f"There are no workers of type {kind!r} here.",
            hint="Use process, or install its package.",
            code=ErrorCode.DEPLOY_POOL,
        )
    return template


def _flow_of(deployment: Deployment) -> Flow[Any, Any]:
    try:
        flow: Flow[Any, Any] = load_flow_from_entrypoint(deployment.entrypoint, use_placeholder_flow=False)
    except Exception as error:
        raise UsageError(
            f"Deployment {deployment.name}: {deployment.entrypoint} is not a flow: {type(error).__name__}: {error}.",
            code=ErrorCode.DEPLOY_FLOW,
        ) from error
    return flow


def require_fitting_schedules(deployment: Deployment) -> None:
    """Refuse a schedule whose parameters its flow does not take: each of its runs would fail, at night.

    Raises:
        UsageError: The entry point is no flow, or parameters of a schedule are missing, unknown or not valid.
    """
    for schedule in deployment.schedules:
        flow = _flow_of(deployment)
        given = {**deployment.parameters, **schedule.parameters}
        try:
            flow.validate_parameters(get_call_parameters(flow.fn, (), given))
        except ParameterBindError as error:
            if not schedule.active and not schedule.parameters:
                continue  # whoever switches it on fills in its form
            said = str(error).partition("\n")[0]
        except (ParameterTypeError, ValueError) as error:
            said = " ".join(line.strip(" -") for line in str(error).splitlines()[1:]) or str(error)
        else:
            continue
        raise UsageError(
            f"Deployment {deployment.name}, schedule {schedule.slug!r}: its parameters do not fit the flow: {said}",
            code=ErrorCode.DEPLOY_FILE,
        )


def _deployment(
    client: SyncPrefectClient, deployment: Deployment, pull: list[dict[str, Any]], known: Origins
) -> tuple[Deployed, UUID]:
    """Make or change a deployment; return what was done, under its full name, and its id."""
    flow = _flow_of(deployment)
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
        schedules = [
            DeploymentScheduleCreate(**fields_of_schedule(schedule, None)) for schedule in deployment.schedules
        ]
        flow_id = client.create_flow_from_name(flow.name)
        made = client.create_deployment(flow_id, deployment.name, schedules=schedules, **fields)
        return Deployed("deployment", full_name, "created"), made
    standing = known.standing(f"deployment {deployment.name}")
    if standing:  # only its form follows the code, where the code is the same
        fields = {name: fields[name] for name in _OF_CODE if before.entrypoint == deployment.entrypoint}
    elif known.keep:
        del fields["paused"]
    else:
        there = {one.slug: one.schedule for one in before.schedules}
        fields["schedules"] = [
            DeploymentScheduleUpdate(**fields_of_schedule(schedule, there.get(schedule.slug)))
            for schedule in deployment.schedules
        ]
    if fields:
        client.update_deployment(before.id, DeploymentUpdate(**fields))
    differing = _differing(what_was_told(before), what_was_told(client.read_deployment(before.id)))
    if standing and not differing:
        return Deployed("deployment", full_name, standing), before.id
    return Deployed.of("deployment", full_name, differing), before.id


def what_was_told(deployment: DeploymentResponse) -> dict[str, Any]:
    """Return the settings of a deployment on a server.

    The rest of its answer, such as how many places are taken, changes while runs start and end.
    """
    essence = _essence(deployment)
    limit = deployment.global_concurrency_limit
    schedules = sorted(
        essence.get("schedules") or [], key=lambda one: str(one.get("slug"))
    )  # else by their last change
    return {name: essence.get(name) for name in DeploymentUpdate.model_fields} | {
        "concurrency_limit": limit.limit if limit else None,
        "schedules": schedules,
    }


def fields_of_schedule(schedule: Schedule, known: SCHEDULE_TYPES | None) -> dict[str, Any]:
    """Return the fields of a schedule, as a server takes them.

    Args:
        known: The one of its name on the server: an interval goes on from where it began.
    """
    when: CronSchedule | IntervalSchedule | RRuleSchedule
    if schedule.cron is not None:
        when = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    elif schedule.interval is not None:
        anchor = schedule.anchor_date or (known.anchor_date if isinstance(known, IntervalSchedule) else None)
        begin = {"anchor_date": anchor} if anchor else {}  # else now
        interval = timedelta(seconds=schedule.interval)
        when = IntervalSchedule(interval=interval, timezone=schedule.timezone, **begin)
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


def _automation(client: SyncPrefectClient, kind: str, automation: AutomationCore, known_as: Origins) -> Deployed:
    """Make an automation, or change the one of its name; more of that name, of whatever origin, are removed."""
    found = client.read_automations_by_name(automation.name)
    if not found:
        client.create_automation(automation)
        return Deployed(kind, automation.name, "created")
    known, *others = found
    for other in others:
        client.delete_automation(other.id)
    standing = known_as.standing(f"{kind} {automation.name}")
    if standing:
        return Deployed(kind, automation.name, standing)
    if known_as.keep:
        automation = automation.model_copy(update={"enabled": known.enabled})
    fields = automation_fields_that_differ(automation, AutomationCore.model_validate(known.model_dump(exclude={"id"})))
    if fields:
        changed = automation.model_dump(exclude={"owner_resource"}, exclude_unset=True)  # an owner cannot be changed
        client.update_automation(known.id, AutomationCore.model_validate(changed))
    return Deployed.of(kind, automation.name, fields)


def automation_fields_that_differ(wanted: AutomationCore, known: AutomationCore) -> tuple[str, ...]:
    """Return the names of the fields in which two automations differ."""
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


@dataclass(frozen=True, slots=True)
class Origins:
    """The things of a file before they are deployed, and what is known of them.

    Attributes:
        wanted: Digests of the file's entries by their key.
        noted: What was noted when they were deployed last.
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


def _origins(client: SyncPrefectClient, file: DeploymentFile, *, keep: bool) -> Origins:
    """Return what is known of a file's things."""
    found = client.read_variable_by_name(VARIABLE)
    noted = found.value if found else {}
    known = {str(key): str(value) for key, value in noted.items()} if isinstance(noted, dict) else {}
    return Origins(digests(file), digests(read_deployment_file()), known, keep)


def _write_note(client: SyncPrefectClient, note: dict[str, str]) -> None:
    """Keep a note on the server."""
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
    plain = {key: json.dumps(entry, sort_keys=True, default=str) for key, entry in found.items()}
    return {key: hashlib.sha256(text.encode()).hexdigest()[:8] for key, text in plain.items()}
