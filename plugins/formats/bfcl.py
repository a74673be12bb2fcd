"""Questions of the Berkeley Function Calling Leaderboard (BFCL), with their possible answers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from itertools import islice, product
from typing import Any, Final

from leadline.evaluators.data import ExpectedCall, Json, Message, Tool
from leadline.plugins.formats.foreign_records import ForeignRecords
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of, tools_of
from leadline.tasks.load.values import ValueFault, expected, listed, mapping, text

_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
"""Types of Python in the descriptions of functions, in the words of JSON Schema."""

_MOST: Final = 100
"""Sets of arguments that are accepted of a call; one that accepts more is expected with any arguments."""

_LONGEST: Final = 10_000
_KEPT: Final = ("initial_config", "involved_classes", "excluded_function", "path")


@register
class Bfcl(ForeignRecords):
    """Reads questions as cases. Their possible answers, which are another file, stand in a field ``ground_truth``."""

    name = "bfcl"
    title = "BFCL"
    recognised_by = "`question` beside `function` or `involved_classes`"

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are questions of the leaderboard."""
        return 0.8 if "question" in names and names & {"function", "involved_classes"} and not sections else 0

    def conversation(self, record: dict[str, Any], section: str) -> Conversation:
        """Return a question."""
        return bfcl_question(record)


def bfcl_question(record: dict[str, Any]) -> Conversation:
    """Return a question: of several turns, those of the model are empty."""
    turns = [messages_of(each) for each in listed(record.get("question"))]
    empty: Message = {"role": "assistant", "content": ""}
    messages = [message for turn in turns for message in (*turn, empty)][:-1]
    truth = record.get("ground_truth")
    texts = [text(each) for each in truth] if isinstance(truth, list) and _is_told(truth) else []
    return Conversation(
        messages,
        key=text(record.get("id") or ""),
        tools=[_schema(tool) for tool in tools_of(record["function"])] if record.get("function") else None,
        expected_answers=texts,
        expected_tool_calls=None if truth is None or texts else list(_calls(listed(truth))),
        case_metadata={name: record[name] for name in _KEPT if name in record},
    )


def _is_told(truth: list[Any]) -> bool:
    """Return whether an answer is expected, as in the categories of memory and search, and no call."""
    return bool(truth) and all(isinstance(each, str) for each in truth)


def _calls(truth: list[Any]) -> Iterator[ExpectedCall]:
    for number, each in enumerate(truth, start=1):
        if isinstance(each, list):
            for source in each:
                call = _written_call(text(source))
                call["turn"] = number
                yield call
        else:
            yield from (_accepted_call(name, mapping(values)) for name, values in mapping(each).items())


def _written_call(source: str) -> ExpectedCall:
    """Return a call written in Python; any arguments will do where some have no name."""
    try:
        call = ast.parse(source.strip(), mode="eval").body if len(source) <= _LONGEST else None
        if not isinstance(call, ast.Call):
            raise expected("a call in Python", source)
        name = ast.unparse(call.func)
        if call.args:
            return {"name": name}
        return {"name": name, "arguments": {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise error if isinstance(error, ValueFault) else expected("a call in Python", source) from None


def _accepted_call(name: str, values: Mapping[str, Any]) -> ExpectedCall:
    """Return a call each of whose arguments has several accepted values; an empty text says that it may be absent."""
    choices = [[(each, value) for value in listed(accepted)] for each, accepted in values.items()]
    sets: list[dict[str, Json]] = [
        {argument: value for argument, value in chosen if value != ""}
        for chosen in islice(product(*choices), _MOST + 1)
    ]
    if len(sets) > _MOST or not sets:
        return {"name": name}
    call: ExpectedCall = {"name": name, "arguments": sets[0]}
    if len(sets) > 1:
        call["any_of"] = sets[1:]
    return call


def _schema(tool: Tool) -> Tool:
    """Return a tool whose parameters are JSON Schema."""
    return {**tool, "parameters": _typed(tool["parameters"])} if "parameters" in tool else tool


def _typed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_typed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {name: _typed(value) for name, value in schema.items() if (name, value) != ("type", "any")}
    if isinstance(kind := out.get("type"), str):
        out["type"] = _TYPES.get(kind, kind)
    return out
