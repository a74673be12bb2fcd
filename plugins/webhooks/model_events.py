"""The event that a model has a new version: what it says, and sending it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.prefect.prefect_events import Sent, send_once

MODEL_VERSION_CREATED: Final = "leadline.model-version.created"
"""Its payload is the parameter ``config`` of the flow that it starts."""

_NOT_IDENTIFYING: Final = {"store", "output", "processes", "dispatch", "again"}
"""Fields that say how and where to run; they make no second evaluation of the same version."""


def read_payload(payload: Mapping[str, Any]) -> ModelVersionConfig:
    """Check a payload against the flow's parameter.

    Raises:
        UsageError: It does not fit; all faults are named.
    """
    try:
        return ModelVersionConfig.model_validate(dict(payload))
    except ValidationError as error:
        faults = refusals_of(error, ModelVersionConfig)
        raise UsageError(
            f"The payload does not fit the flow's parameters: {'; '.join(faults)}.",
            hint="The event was not sent.",
            code=ErrorCode.EVENT_PAYLOAD,
        ) from None


def send_model_version(config: ModelVersionConfig, *, again: bool = False, wait: float = 0.0) -> Sent:
    """Send the event, once for each model version, suite and configuration.

    Args:
        config: What the flow is to do.
        again: Send it even if it was sent before.
        wait: How many seconds to wait for the flow run that it starts.

    Raises:
        EventNotSent: It did not arrive, or nobody waits for it.
    """
    resource = {
        "prefect.resource.id": f"leadline.model.{config.model}",
        "prefect.resource.name": f"{config.model} {config.version}",
        "leadline.model": config.model,
        "leadline.version": config.version,
    }
    payload = config.model_dump(mode="json", exclude_unset=True)
    identity = config.model_dump(mode="json", exclude=_NOT_IDENTIFYING)
    return send_once(MODEL_VERSION_CREATED, resource, payload, identity, again=again or config.again, wait=wait)
