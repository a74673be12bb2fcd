"""Names and types of the further settings of :func:`leadline.evaluate`, for editors and type checkers.

They are fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`, where each is described; a test compares
the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from leadline.flows.shared.settings import Judges, Models


class AcceptedSettings(TypedDict, total=False):
    """Settings of an evaluation beside those that :func:`leadline.evaluate` names."""

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
    judges: Judges | Mapping[str, Any]
    models: Models | Mapping[str, Any]
    fail_on: Literal["high", "medium", "never"]
    ask: Sequence[Literal["safe", "right", "grounded", "form", "fast"]]
    min_coverage: float | None
    labels: str | None
    gate_on: Literal["policy", "judge", "corrected"]
    stop_when: Literal["never", "decided"]
    attribute_flips: bool
    dispatch: str
    processes: int | None
    output: str | None
    results: Literal["auto", "sonar"]
