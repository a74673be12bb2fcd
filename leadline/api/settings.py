"""Keyword arguments of Python's functions, which become the form of a job or one line that says what makes no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from pydantic import BaseModel, ValidationError

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of
from leadline.flows.shared.settings import Judges, Models

C = TypeVar("C", bound=BaseModel)


class AcceptedSettings(TypedDict, total=False):
    """Settings of an evaluation beside those that :func:`leadline.evaluate` names, for editors and type checkers.

    They are fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`, where each is described; a test compares
    the two.
    """

    evaluators: Sequence[str]
    suite: str | None
    evaluators_dir: str | None
    evaluator_files: Sequence[str]
    params: Mapping[str, Mapping[str, Any]]
    model_keys: Sequence[str]
    slices: Sequence[str]
    format: str
    map: Mapping[str, str | list[str]]
    model_name: str
    corpus: str | None
    judges: Judges | Mapping[str, Any]
    models: Models | Mapping[str, Any]
    fail_on: Literal["high", "medium", "never"]
    ask: Sequence[Literal["safe", "right", "grounded", "goal", "form", "fast"]]
    min_coverage: float | None
    labels: str | None
    gate_on: Literal["policy", "judge", "corrected"]
    stop_when: Literal["never", "decided"]
    attribute_flips: bool
    dispatch: str
    processes: int | None
    output: str | None
    results: Literal["auto", "sonar"]


def checked(model: type[C], values: Mapping[str, Any]) -> C:
    """Return settings with these values.

    Raises:
        UsageError: There is no such setting, or a value makes no sense.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise UsageError(f"{'; '.join(refusals_of(error, model))}.", code=ErrorCode.CONFIG_OPTION) from None
