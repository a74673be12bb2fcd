"""Keyword arguments become the settings of a flow, or one line that says which of them makes no sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.refusal import refusals_of

C = TypeVar("C", bound=BaseModel)


def checked(model: type[C], values: Mapping[str, Any]) -> C:
    """Return settings with these values.

    Args:
        model: The settings of a flow.
        values: Their values by name.

    Raises:
        UsageError: There is no such setting, or a value makes no sense.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise UsageError(f"{'; '.join(refusals_of(error, model))}.", code=ErrorCode.CONFIG_OPTION) from None
