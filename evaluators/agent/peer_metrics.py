"""Metrics of tool calls as ragas, DeepEval and BFCL compute them, for those who have figures of theirs to continue."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from leadline.evaluators.agent.call_matching import shown_call
from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, ExpectedCall, Json, MadeCall, Row, RowField, RowScore, Tool
from leadline.evaluators.ground import listing

_INPUTS: Final = (RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS)
_KEYWORDS: Final = ("tools", "function calling", "agent", "rule-based", "compatible")


class StrictOrderParams(Params):
    """Parameters of ragas' accuracy of tool calls."""

    strict_order: Annotated[
        bool, Field(description="Whether the calls must have the order of the expected ones; else both are sorted.")
    ] = True


class ToolCorrectnessParams(Params):
    """Parameters of DeepEval's tool correctness."""

    mode: Annotated[
        Literal["default", "ordering", "exact"],
        Field(description="DeepEval's `should_consider_ordering` or `should_exact_match`, or neither."),
    ] = "default"
    input_parameters: Annotated[
        bool, Field(description="Whether arguments are compared, as with DeepEval's `ToolCallParams.INPUT_PARAMETERS`.")
    ] = False


def _arguments(expected: ExpectedCall) -> Mapping[str, Json]:
    return expected.get("arguments", {})


def _both(row: Row) -> tuple[Sequence[MadeCall], Sequence[ExpectedCall], Evidence]:
    """Return the calls, the expected ones, and a sentence with both: the others' metrics match in ways of their own."""
    calls, expected = row.tool_calls or (), row.expected_tool_calls or ()
    made = listing(map(shown_call, calls), most=4) if calls else "none"
    wanted = listing(map(shown_call, expected), most=4) if expected else "none"
    return calls, expected, Evidence(f"Called: {made}. Expected: {wanted}.")


@register
class RagasToolCallAccuracy(RowEvaluator):
    """Tool call accuracy as ragas computes it: equal sequences of tools, then the share of equal arguments.

    **Method.** Where the names of the tools called are not the names of the expected ones, in order, the value is 0.
    Otherwise it is the mean over the expected calls of the share of their arguments that the call in the same place
    has, compared as Python writes them: ``"7"`` equals 7, and 7.0 does not. Arguments beyond the expected ones cost
    nothing. Without ``strict_order`` both lists are sorted by name and arguments first.

    **Edge cases.** No call expected and none made is 1; exactly one of both is 0. A call that expects no arguments and
    has some counts 0. Alternatives (``any_of``), turns and parallel calls are not known to ragas and are left out of
    account.

    Equal to ragas 0.4.3 on the cases of the tests; later versions accept calls between the expected ones. What we
    recommend instead is ``tool_call_f1``.

    **Source.** ragas 0.4.3, ToolCallAccuracy.
    """

    spec = Spec(
        id="ragas.tool_call_accuracy",
        name="Tool Call Accuracy (ragas)",
        inputs=_INPUTS,
        unit="conversation",
        metrics=one_metric("tool_call_accuracy", "Share of right arguments where the tools are the expected ones."),
        insight_type="agent",
        problem_type="agent",
        keywords=(*_KEYWORDS, "ragas"),
        source="ragas 0.4.3, ToolCallAccuracy",
    )
    parameters = StrictOrderParams
    params: StrictOrderParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the accuracy."""
        calls, expected, evidence = _both(row)
        made = [(call.name, call.arguments) for call in calls]
        wanted = [(call["name"], _arguments(call)) for call in expected]
        if not self.params.strict_order:
            made, wanted = sorted(made, key=_sorted_by), sorted(wanted, key=_sorted_by)
        value = float(not made and not wanted)
        if wanted and [name for name, _ in made] == [name for name, _ in wanted]:
            pairs = zip(made, wanted, strict=True)
            value = sum(_share(given, right) for (_, given), (_, right) in pairs) / len(wanted)
        return RowScore({"tool_call_accuracy": value}, evidence)


def _sorted_by(call: tuple[str, Mapping[str, Json]]) -> list[str]:
    name, arguments = call
    return [name, *(text for key in sorted(arguments) for text in (key, str(arguments[key])))]


def _share(given: Mapping[str, Json], right: Mapping[str, Json]) -> float:
    if not right:
        return float(not given)
    return sum(name in given and str(given[name]) == str(value) for name, value in right.items()) / len(right)


@register
class RagasToolCallF1(RowEvaluator):
    """F1 of tool calls as ragas computes it: of the sets of calls, equal in name and all arguments.

    **Method.** With M calls that are in both sets, C different calls made and E different ones expected, precision =
    M / C, recall = M / E, and the value is their harmonic mean, rounded to four digits. Values are equal as Python has
    it: 1, 1.0 and ``true`` are the same, ``"7"`` and 7 are not.

    **Edge cases.** A call made twice counts once. No call expected and none made is 0, as in ragas, though nothing is
    wrong then. Alternatives (``any_of``) and turns are not known to ragas and are left out of account.

    Equal to ragas 0.4.3 on the cases of the tests. What we recommend instead is ``tool_call_f1``, which counts doubled
    calls and gives 1 where rightly nothing was called.

    **Source.** ragas 0.4.3, ToolCallF1.
    """

    spec = Spec(
        id="ragas.tool_call_f1",
        name="Tool Call F1 (ragas)",
        inputs=_INPUTS,
        unit="conversation",
        metrics=one_metric("tool_call_f1", "Harmonic mean of precision and recall of the sets of tool calls."),
        insight_type="agent",
        problem_type="agent",
        keywords=(*_KEYWORDS, "ragas"),
        source="ragas 0.4.3, ToolCallF1",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the F1."""
        calls, expected, evidence = _both(row)
        made = {(call.name, _hashable(call.arguments)) for call in calls}
        wanted = {(call["name"], _hashable(_arguments(call))) for call in expected}
        both = len(made & wanted)
        return RowScore({"tool_call_f1": round(2 * both / (len(made) + len(wanted)), 4) if both else 0.0}, evidence)


def _hashable(value: Json) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(_hashable, value))
    return value


@register
class DeepEvalToolCorrectness(RowEvaluator):
    """Tool correctness as DeepEval computes it: the share of the expected tools that were called.

    **Method.** Each expected call has a score: 1 where the tool was called, or with ``input_parameters`` the share of
    equal arguments among all of both calls, objects compared inside. ``default`` gives each expected call, in their
    order, the best of the calls that are left, and divides the sum by the number of expected calls. ``ordering`` takes
    the weighted longest common subsequence instead. ``exact`` is 1 where both lists are equal, else 0. Values are equal
    as Python has it: 1, 1.0 and ``true`` are the same.

    **Edge cases.** No call expected and none made is 1; none expected and some made is 0. Calls beyond the expected
    ones cost nothing but in ``exact``. Alternatives (``any_of``) and turns are left out of account.

    Equal to DeepEval 4.3.1 without ``available_tools`` on the cases of the tests. What we recommend instead is
    ``tool_call_f1``, which does not match greedily.

    **Source.** Confident AI, DeepEval 4.3.1, ToolCorrectnessMetric.
    """

    spec = Spec(
        id="deepeval.tool_correctness",
        name="Tool Correctness (DeepEval)",
        inputs=_INPUTS,
        unit="conversation",
        metrics=(
            Metric.higher(
                "tool_correctness", "Share of the expected tools that were called.", threshold=0.5, primary=True
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=(*_KEYWORDS, "deepeval"),
        source="Confident AI, DeepEval 4.3.1, ToolCorrectnessMetric",
    )
    parameters = ToolCorrectnessParams
    params: ToolCorrectnessParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the correctness."""
        calls, expected, evidence = _both(row)
        if not expected:
            return RowScore({"tool_correctness": float(not calls)}, evidence)
        scores = [[self._score(call, wanted) for call in calls] for wanted in expected]
        if self.params.mode == "exact":
            value = float(len(calls) == len(expected) and all(scores[i][i] == 1 for i in range(len(calls))))
        else:
            total = _subsequence(scores) if self.params.mode == "ordering" else _greedy(scores)
            value = min(1.0, total / len(expected))
        return RowScore({"tool_correctness": value}, evidence)

    def _score(self, call: MadeCall, expected: ExpectedCall) -> float:
        if call.name != expected["name"]:
            return 0.0
        return _alike(_arguments(expected), call.arguments) if self.params.input_parameters else 1.0


def _alike(one: Mapping[str, Json], other: Mapping[str, Json]) -> float:
    if one == other:
        return 1.0
    names, total = one.keys() | other.keys(), 0.0
    for name in one.keys() & other.keys():
        left, right = one[name], other[name]
        if left == right:
            total += 1 / len(names)
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            total += _alike(left, right) / len(names)
    return total


def _greedy(scores: Sequence[Sequence[float]]) -> float:
    left, total = set(range(len(scores[0]))), 0.0
    for line in scores:
        best = max(left, key=lambda call: (line[call], -call), default=None)
        if best is not None and line[best] > 0:
            total += line[best]
            left.remove(best)
    return total


def _subsequence(scores: Sequence[Sequence[float]]) -> float:
    best = [0.0] * (len(scores[0]) + 1)
    for line in scores:
        grown = [0.0]
        for place, score in enumerate(line):
            grown.append(max(best[place + 1], grown[place], best[place] + score if score else 0.0))
        best = grown
    return best[-1]


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
