"""Named sets of evaluators, so that nobody has to list seventy ids."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Final

from leadline.evaluators.core.base import CUSTOM, Evaluator
from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.registry import FAMILIES, all_evaluators

_Rule = Callable[[type[Evaluator]], bool]

_RULES: Final[dict[str, tuple[str, _Rule]]] = {
    "all": ("every evaluator", lambda e: True),
    "no-judge": ("every evaluator that asks no judge", lambda e: e.spec.judge is None),
    "rules": ("rules and n-grams: no judge and no model", lambda e: e.spec.lane == "cpu"),
    "models": ("evaluators that run a local model", lambda e: e.spec.lane == "gpu"),
    "judge": ("evaluators that ask a judge", lambda e: e.spec.judge is not None),
    "h2o": ("the evaluators of H2O Sonar / Eval Studio", lambda e: e.spec.origin == "h2o"),
    "valor": ("the metrics of Valor", lambda e: e.spec.origin == "valor"),
    "rgb": ("the evaluations of the RGB benchmark", lambda e: e.spec.origin == "rgb"),
    "databricks": ("the judges of Databricks agent evaluation", lambda e: e.spec.origin == "databricks"),
    "llamaindex": ("LlamaIndex's evaluation from scratch", lambda e: e.spec.origin == "llamaindex"),
    CUSTOM: ("evaluators of the user's own", lambda e: e.spec.origin == CUSTOM),
}


def suites() -> dict[str, str]:
    """Return each suite's name with a line that says what is in it; every family is a suite too."""
    return {name: text for name, (text, _) in _RULES.items()} | {
        family: f"the {family} evaluators" for family in FAMILIES if family not in _RULES
    }


def suite(name: str) -> tuple[str, ...]:
    """Return the ids of a suite's evaluators; an unknown name is a :class:`UsageError`."""
    if name in _RULES:
        rule = _RULES[name][1]
        return tuple(id_ for id_, evaluator in all_evaluators().items() if rule(evaluator))
    if name in FAMILIES:
        return tuple(id_ for id_, evaluator in all_evaluators().items() if evaluator.spec.family == name)
    near = difflib.get_close_matches(name, suites(), n=2)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Suites: {', '.join(suites())}."
    raise UsageError(f"There is no suite called {name!r}.", hint=hint, code=ErrorCode.PLAN_NO_SUITE)
