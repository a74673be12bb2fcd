"""Faults of tool calls: arguments that are not the expected ones or that no tool takes, and errors of the tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.evaluators.agent.call_matching import (
    MOST_SHOWN,
    MatchedCall,
    best_assignment,
    call_span,
    shown_call,
    weight,
    weights_of,
)
from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import (
    RAW,
    Evidence,
    ExpectedCall,
    Json,
    MadeCall,
    NotApplicable,
    Row,
    RowField,
    RowScore,
    Tool,
    turns_of,
)
from leadline.evaluators.ground import count, listing

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


@register
class ToolArguments(RowEvaluator):
    """Arguments of tool calls: the share that is as expected, and the share of calls that the tools could take.

    **Method.** ``tool_arguments``: calls are paired one to one with expected calls of the same tool, and the turn that
    the case names, so that the arguments agree best; the value is the mean over the pairs of equal arguments / all
    arguments of both, where of objects under one name their own share counts. 1 equals 1.0, ``true`` is not 1, and
    ``"7"`` is not 7. Which calls are missing or too many is said by ``tool_call_f1``.

    ``valid_calls``: the share of calls whose tool is among ``tools`` and whose arguments its ``parameters`` (JSON
    Schema) allow: all ``required`` ones, none besides ``properties`` where ``additionalProperties`` is false, the
    ``type`` and ``enum`` of each, also inside of objects and arrays. Other keywords are not looked at.

    **Edge cases.** Where no expected call has its tool called, ``tool_arguments`` is not applicable; so is
    ``valid_calls`` where the tools are not known or none was called. Arguments that are no JSON object are invalid. Any
    arguments agree with an expected call that names none, and of several accepted sets the best counts.

    **Source.** The assignment problem (Kuhn 1955); argument scores as in DeepEval, Tool Correctness; JSON Schema.
    """

    spec = Spec(
        id="tool_arguments",
        name="Tool Arguments",
        inputs=(RowField.TOOLS, RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS),
        optional=frozenset({RowField.TOOLS, RowField.EXPECTED_TOOL_CALLS}),
        unit="conversation",
        metrics=(
            Metric.higher("tool_arguments", "Share of arguments that are as expected, mean over calls.", primary=True),
            Metric.higher("valid_calls", "Share of calls that name a known tool and arguments that it takes."),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "parameters", "schema", "rule-based"),
        source="Kuhn 1955; DeepEval, Tool Correctness; JSON Schema 2020-12",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return both shares, and which arguments are wrong."""
        calls, expected = row.tool_calls or (), row.expected_tool_calls or ()
        pairs = best_pairs(calls, expected)
        faults = {} if row.tools is None else faults_of(calls, row.tools)
        off = [pair for pair in pairs if pair.weight < 1]
        said = [f"{shown_call(calls[pair.call])} differs from {shown_call(expected[pair.expected])}" for pair in off]
        said += [f"{shown_call(calls[number])}: {fault}" for number, fault in faults.items()]
        spans = [call_span(calls, pair.call, "other arguments", pair.weight) for pair in off]
        spans += [call_span(calls, number, fault) for number, fault in faults.items()]
        valid: float | NotApplicable = NotApplicable("No tool was called, or which there are is not known.")
        if calls and row.tools is not None:
            valid = 1 - len(faults) / len(calls)
        unpaired = NotApplicable("No call has the tool of an expected call.")
        return RowScore(
            {
                "tool_arguments": sum(pair.weight for pair in pairs) / len(pairs) if pairs else unpaired,
                "valid_calls": valid,
            },
            Evidence(f"{listing(said, most=4)}." if said else "", tuple(spans[:MOST_SHOWN])),
        )


def best_pairs(calls: Sequence[MadeCall], expected: Sequence[ExpectedCall]) -> list[MatchedCall]:
    """Return as many pairs of equal tools as there can be, of these the ones whose arguments agree best."""
    same = weights_of(calls, expected, "ignore")
    liked = weights_of(calls, expected, "partial")
    sums = [[one + other for one, other in zip(*lines, strict=True)] for lines in zip(same, liked, strict=True)]
    pairs = best_assignment(sums)  # a pair counts 1 in itself, so that their number comes first
    return [pair._replace(weight=weight(calls[pair.call], expected[pair.expected], "partial")) for pair in pairs]


def faults_of(calls: Sequence[MadeCall], tools: Sequence[Tool]) -> dict[int, str]:
    """Return what is wrong with calls as their tools are declared, by the calls' numbers."""
    known = {tool["name"]: tool.get("parameters", {}) for tool in tools}
    found = {}
    for number, call in enumerate(calls):
        if call.name not in known:
            found[number] = "there is no such tool"
        elif RAW in call.arguments:
            found[number] = "the arguments are no JSON object"
        elif fault := next(_schema_faults(call.arguments, known[call.name], ""), ""):
            found[number] = fault
    return found


def _schema_faults(value: Json, schema: Any, place: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    wanted = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind in _TYPES]
    if wanted and not any(_is(value, kind) for kind in wanted):
        yield f"{place or 'what is given'} is no {' or '.join(wanted)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{place or 'what is given'} is none of the allowed values"
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        yield from (f"{_inside(place, name)} is missing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            if name in known:
                yield from _schema_faults(item, known[name], _inside(place, name))
            elif schema.get("additionalProperties") is False:
                yield f"{_inside(place, name)} is not among its parameters"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _schema_faults(item, schema.get("items"), f"{place}[{number}]")


def _is(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


@register
class ToolErrors(RowEvaluator):
    """Errors of tools in a conversation: the share of calls that fail, and whether the agent recovers from them.

    **Method.** ``tool_errors`` = calls with an error / calls. ``recovered`` = errors behind which the same tool was
    called with success in the same turn / errors. ``ignored`` is 1 where in some turn the assistant gave an answer
    behind an error that it had not recovered from, else 0: it may be honest about the failure, so that this asks for a
    look, not for a fix.

    A call has an error where the trace or the tool's result says so. A refusal that the tool told in its text alone is
    none: nothing but its words tells it from a result.

    **Edge cases.** Without any call the row is not applicable; without an error ``recovered`` is not, and ``ignored``
    is 0. Calls of one message are parallel: none of them recovers another. Without messages ``ignored`` is not
    applicable where there is an unrecovered error.

    **Source.** Leadline; error rates of tools as in MLflow's and Azure's evaluation of agents.
    """

    spec = Spec(
        id="tool_errors",
        name="Tool Errors",
        inputs=(RowField.MESSAGES, RowField.TOOL_CALLS),
        optional=frozenset({RowField.MESSAGES}),
        unit="conversation",
        metrics=(
            Metric.lower("tool_errors", "Share of the tool calls that fail.", threshold=0.25, primary=True),
            Metric.higher("recovered", "Share of the errors behind which the tool succeeds in the same turn."),
            Metric.lower(
                "ignored", "Whether an answer follows an error not recovered from.", threshold=None, share=True
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "errors", "recovery", "rule-based"),
        source="Leadline: calls with an error over calls",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the share of errors, the share recovered from, and whether one was ignored."""
        calls = row.tool_calls or ()
        if not calls:
            return RowScore.not_applicable(self.row_metrics, "No tool was called.")
        failed = [number for number, call in enumerate(calls) if call.error is not None]
        lasting = [number for number in failed if not _recovered(calls, number)]
        no_errors = NotApplicable("No call failed.")
        ignored: float | NotApplicable = float(any(_answered(row, calls[number]) for number in lasting))
        if lasting and not row.messages:
            ignored = NotApplicable("Nobody recorded what was said behind the error.")
        shown = (
            listing([f"{shown_call(calls[n])} ({(calls[n].error or 'failed')[:80]})" for n in failed], most=4)
            if failed
            else ""
        )
        said = f"{len(failed)} of {count(len(calls), 'call')} failed: {shown}." if failed else ""
        return RowScore(
            {
                "tool_errors": len(failed) / len(calls),
                "recovered": 1 - len(lasting) / len(failed) if failed else no_errors,
                "ignored": ignored,
            },
            Evidence(
                said,
                tuple(
                    call_span(calls, number, "not recovered from" if number in lasting else "recovered from")
                    for number in failed[:MOST_SHOWN]
                ),
            ),
        )


def _recovered(calls: Sequence[MadeCall], number: int) -> bool:
    """Return whether the tool of a call that failed is called with success later in the turn."""
    name, turn, message = calls[number].name, calls[number].turn, calls[number].message
    later = (call for call in calls[number + 1 :] if call.turn == turn and call.message > message)
    return any(call.name == name and call.error is None for call in later)


def _answered(row: Row, call: MadeCall) -> bool:
    """Return whether the assistant says something behind a call before the user's next message."""
    end = next((turn.end for turn in turns_of(row.messages) if turn.first <= call.message < turn.end), 0)
    behind = row.messages[call.message + 1 : end]
    return any(message["role"] == "assistant" and message["content"] for message in behind)
