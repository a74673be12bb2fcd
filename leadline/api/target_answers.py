"""Asking functions of the program for the answers, before these are evaluated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of
from leadline.evaluators.ground.code_digest import code_digest
from leadline.flows.collect import Collection, CollectResult
from leadline.flows.shared.job import JobSteps
from leadline.flows.shared.judge_access import limits_for
from leadline.tasks.collect import Target
from leadline.tasks.collect.ask_target import held
from leadline.tasks.collect.cases import Case
from leadline.tasks.load import load_dataset
from leadline.tasks.store.store import Store

TargetFunction: TypeAlias = Callable[[Case], Any]
"""A function that answers a case: a text, or a dict with ``answer``, ``context``, ``cost_usd`` …; sync or async."""

Targets: TypeAlias = "TargetFunction | Mapping[str, TargetFunction]"
"""One function, or several under the names that their models have."""

_NOT_OF_A_NAME: Final = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskedTarget:
    """Functions that are to answer.

    Attributes:
        functions: The functions by the key of their model.
        settings: Fields of :class:`~leadline.tasks.collect.targets.Target` for all of them, such as ``timeout_s``.
    """

    functions: Mapping[str, TargetFunction]
    settings: Mapping[str, Any]


def asked(target: Targets, settings: Mapping[str, Any], model_name: str = "") -> AskedTarget:
    """Return the functions that are to answer, after a look at what is known of them.

    Args:
        target: One function or several.
        settings: Settings of their calls.
        model_name: The model of one function; by default it is called after the function.

    Raises:
        UsageError: One is no function, or a setting makes no sense.
    """
    functions = dict(target) if isinstance(target, Mapping) else {model_name or _name_of(target): target}
    if not isinstance(settings, Mapping):
        raise UsageError(
            f"target_settings is a {type(settings).__name__}, not a mapping.",
            hint='Write it as {"timeout_s": 30}.',
            code=ErrorCode.COLLECT_TARGETS,
        )
    for key, function in functions.items():
        if not callable(function):
            raise UsageError(
                f"The target {key} is a {type(function).__name__}, not a function.",
                hint="Give one that takes a case and returns its answer.",
                code=ErrorCode.COLLECT_FUNCTION,
            )
        _target(key, "in_memory:function", settings)
    if not functions:
        raise UsageError("No target was given.", code=ErrorCode.COLLECT_FUNCTION)
    return AskedTarget(functions, settings)


def collect_answers(
    store: Store, asked: AskedTarget, suite: str, output: Path, reading: Mapping[str, Any], *, team: str | None = None
) -> CollectResult:
    """Put all cases to the functions, and write their answers as a dataset.

    A function that was asked before with the same code, or with the version that the settings state, is not asked
    again. What it fails at is an error of the host in place of an answer.

    Args:
        asked: The functions.
        suite: File with the cases.
        output: The file to write.
        reading: How the file is read.
        team: Team whose budget the calls count against.

    Raises:
        LeadlineError: No function answered anything.
        DatasetError: The cases were refused.
    """
    loaded = load_dataset(store, suite, cases_only=True, **{k: v for k, v in reading.items() if k != "model_name"})
    with ExitStack() as handed_over:
        targets = tuple(
            _target(key, handed_over.enter_context(held(function, _identifier(key, function, asked))), asked.settings)
            for key, function in asked.functions.items()
        )
        return Collection(store, loaded, targets, output, limits_for(None, None, team)).collected(JobSteps())


def _identifier(key: str, function: TargetFunction, asked: AskedTarget) -> str:
    """Return a name of a function that no other code has, unless the user states its version."""
    stated = asked.settings.get("version")
    source = hashlib.sha256(key.encode()).hexdigest() if stated else code_digest(function).digest
    return f"_{_NOT_OF_A_NAME.sub('_', _name_of(function))[:80]}_{source[:32]}"


def _name_of(function: Any) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", None) or type(inner).__name__).strip("<>")


def _target(key: str, path: str, settings: Mapping[str, Any]) -> Target:
    try:
        return Target.model_validate({**settings, "key": key, "function": path})
    except ValidationError as error:
        raise UsageError(
            f"target_settings: {'; '.join(refusals_of(error, Target))}.", code=ErrorCode.COLLECT_TARGETS
        ) from None
