"""The flow that makes something seen: a failed run whose name, message, log and artifact say what happened.

Automations start it on events that would otherwise stand in the server's log only.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from prefect.states import Failed
from pydantic import ConfigDict, Field, model_validator

from leadline.evaluators.ground import masked_value
from leadline.flows.prefect.prefect_events import failure_reason, known_as
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.form import FormModel

outlast_outages()

SHOWN = 4000
"""Characters of an event's payload that an artifact shows."""


class Alert(FormModel):
    """An event that somebody should look at."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, values: Any) -> Any:
        """Take secrets out: an alert is raised whatever it says."""
        return masked_value(values) if isinstance(values, dict) else values

    event: str = Field(description="Name of the event.")
    resource: dict[str, str] = Field({}, description="Whom it is about.")
    occurred: str = Field("", description="When, as ISO 8601.")
    payload: dict[str, Any] = Field({}, description="What it says.")
    related: list[dict[str, str]] = Field([], description="Who else is involved.")


LATE = "prefect.flow-run.Late"


def headline(alert: Alert, who: str = "") -> str:
    """Return an alert in one line.

    Args:
        who: Whom it is about, if that is known better than its event says it.
    """
    who = who or alert.resource.get("prefect.resource.name") or alert.resource.get("prefect.resource.id", "")
    return f"{alert.event} of {who}: {_reason(alert)}"[:500]


def _who(alert: Alert) -> str:
    """Return what people call the flow run that an alert is about; ``""`` where it is about something else."""
    kind, _, id_ = alert.resource.get("prefect.resource.id", "").rpartition(".")
    if kind != "prefect.flow-run":
        return ""
    try:
        with get_client(sync_client=True) as client:
            return known_as(client, client.read_flow_run(UUID(id_)))
    except (ValueError, ObjectNotFound):  # it was deleted since
        return ""


def _reason(alert: Alert) -> str:
    if alert.event == LATE:
        pools = [
            one.get("prefect.resource.name") for one in alert.related if one.get("prefect.resource.role") == "work-pool"
        ]
        return f"no worker of the pool {pools[0] if pools else '?'} has taken it since {alert.occurred}."
    state = alert.payload.get("validated_state")
    if isinstance(state, dict):  # an event of a flow run's state
        return failure_reason({"reason": state.get("message")})
    return failure_reason(alert.payload)


def _flow_run_name() -> str:
    given = flow_run.parameters["alert"]
    alert = given if isinstance(given, Alert) else Alert(**given)
    return f"alert: {_who(alert) or alert.resource.get('prefect.resource.name') or alert.event}"


@flow(
    name="alert",
    description="Fails with the reason of what went wrong elsewhere. Started by automations.",
    flow_run_name=_flow_run_name,
    persist_result=False,
)
def raise_alert(alert: Alert) -> State[Any]:
    """Log an event as an error, show it in an artifact, and end as failed.

    Args:
        alert: The event.
    """
    line = headline(alert, _who(alert))
    get_run_logger().error("%s", line)
    shown = alert.model_dump_json(indent=2, exclude={"event", "occurred"})[:SHOWN]
    create_markdown_artifact(
        f"# {alert.event}\n\n{alert.occurred}\n\n```json\n{shown.replace('```', '` ` `')}\n```\n",
        key="leadline-alert",
        description=json.dumps(line)[1:200],
    )
    return Failed(name="Alert", message=line)
