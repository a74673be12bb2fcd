"""Tool calls as the Berkeley Function Calling Leaderboard checks them: lists of accepted values by parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.evaluators.agent.call_matching import shown_call
from leadline.evaluators.core import EvalContext, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, ExpectedCall, Json, MadeCall, Row, RowField, RowScore, Tool
from leadline.evaluators.ground import listing

_TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
    "any": str,
}
_UNHEARD: Final = re.compile(r"[ ,./\-_*^]")
_LEFT_OUT: Final = ""
"""Accepted value of a parameter that may be left out."""


@register
class BfclAst(RowEvaluator):
    """Tool calls as the Berkeley Function Calling Leaderboard checks them by their syntax: valid or not.

    **Method.** The arguments of an expected call are lists of accepted values by parameter, as in the leaderboard's
    possible answers; ``""`` among them says that the parameter may be left out. A call is valid where the tool is the
    expected one, no required parameter is missing, none is unexpected, each value has its parameter's type and is
    accepted, and none that must be given is left out. Texts are compared without case and without the characters
    ``,./-_*^`` and spaces; an integer will do for a float, nothing else for another type. Values in lists and objects
    are compared likewise, one level deep.

    One expected call asks for exactly one call. Of several, each in their order takes the first call left that is valid
    for it, and their number must be equal; this may fail what another pairing would solve, as on the leaderboard.

    **Edge cases.** Without ``tools`` no types are checked, nor required parameters. No call expected and none made is
    valid. Rows that do not say what is expected are not applicable; a value that is no list is the one accepted.

    **Source.** Patil et al. 2025, The Berkeley Function Calling Leaderboard; bfcl-eval 2026.3.23, ``ast_checker`` for
    Python, held by its verdicts on the cases of the tests.
    """

    spec = Spec(
        id="bfcl.ast",
        name="Function Calls (BFCL)",
        inputs=(RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS, RowField.TOOLS),
        optional=frozenset({RowField.TOOLS}),
        unit="conversation",
        metrics=one_metric("ast", "Share of rows whose tool calls are valid.", name="Valid calls", share=True),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "rule-based", "compatible", "bfcl", "gorilla"),
        source="Patil et al. 2025, The Berkeley Function Calling Leaderboard; bfcl-eval 2026.3.23, ast_checker",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return whether the calls are valid, and the first fault."""
        calls, expected = list(row.tool_calls or ()), row.expected_tool_calls or ()
        tools = {tool["name"]: tool for tool in row.tools or ()}
        fault = ""
        if len(calls) != len(expected):
            fault = f"{len(calls)} calls were made, {len(expected)} expected"
        for wanted in () if fault else expected:
            faults = [_fault(call, wanted, tools.get(wanted["name"])) for call in calls]
            if "" not in faults:
                shown = listing(map(shown_call, calls), most=3)
                fault = f"no call is valid for the expected {wanted['name']}: {shown}: {faults[0]}"
                break
            del calls[faults.index("")]
        return RowScore({"ast": float(not fault)}, Evidence(f"{fault[:1].upper()}{fault[1:]}." if fault else ""))


def _fault(call: MadeCall, expected: ExpectedCall, tool: Tool | None) -> str:
    """Return why a call is not valid, ``""`` if it is."""
    if call.name != expected["name"]:
        return "another tool was called"
    possible = {name: _accepted(values) for name, values in expected.get("arguments", {}).items()}
    schema: Mapping[str, Any] = tool.get("parameters", {}) if tool else {}
    known = schema.get("properties", possible)
    for name in schema.get("required", ()):
        if name not in call.arguments:
            return f"{name} is missing"
    for name, value in call.arguments.items():
        if name not in known or name not in possible:
            return f"{name} is not expected"
        if not _is_right(value, possible[name], known[name] if tool else {}):
            return f"{name} has another type or value"
    left_out = (name for name in possible if name not in call.arguments and _LEFT_OUT not in possible[name])
    return next((f"{name} is left out" for name in left_out), "")


def _accepted(values: Json) -> Sequence[Json]:
    return values if isinstance(values, Sequence) and not isinstance(values, str) else [values]


def _is_right(value: Json, accepted: Sequence[Json], schema: Any) -> bool:
    """Return whether a value has its type and is one of those accepted."""
    wanted = _TYPES.get(schema.get("type", "")) if isinstance(schema, Mapping) else None
    if wanted is float and type(value) is int:
        value = float(value)
    given = [each for each in accepted if each != _LEFT_OUT]
    as_variable = bool(given) and type(value) is type(given[0])  # a name stands for a value where the answers have one
    if wanted is not None and type(value) is not wanted and not as_variable:
        return False
    if isinstance(value, Mapping):
        return any(_fits(value, each) for each in given if isinstance(each, Mapping))
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        lists = [each for each in given if isinstance(each, list) and len(each) == len(value)]
        return any(all(map(_fits, value, each)) for each in lists)
    return _plain(value) in [_plain(each) for each in accepted]


def _fits(value: Json, possible: Json) -> bool:
    """Return whether an object has accepted values only, and all that must be given."""
    if not isinstance(value, Mapping) or not isinstance(possible, Mapping):
        return False
    right = all(
        name in possible and _plain(item) in map(_plain, _accepted(possible[name])) for name, item in value.items()
    )
    return right and all(name in value or _LEFT_OUT in _accepted(values) for name, values in possible.items())


def _plain(value: Json) -> Json:
    """Return a value as it is compared: texts, also those in a list, without case and punctuation."""
    if isinstance(value, str):
        return _UNHEARD.sub("", value).lower().replace("'", '"')
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, str) else item for item in value]
    return value
