"""Logs of evaluation tools, one object a sample: those of inspect (JSON or ``.eval``) and promptfoo's results."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any, ClassVar, Final

from leadline.evaluators.data import Message
from leadline.tasks.load.columns import Columns, field_of
from leadline.tasks.load.formats.conversations import CONVERSATION_COLUMNS, ConversationFormat, replied
from leadline.tasks.load.formats.inspect_sample import inspect_sample
from leadline.tasks.load.formats.records import Other
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import ValueFault, unpacked

_OWN_NAMES: Final = frozenset({"epoch", "target"})
_CONTEXT: Final = "retrieved_context"


@register
class Inspect(Other):
    """Reads one answer a sample: its input, its targets, and the completion of the model.

    A sample in which tools were called, or the user spoke more than once, is a conversation. Retrieved chunks are those
    at ``retrieved_context`` in the sample's store or metadata, as Leadline's own scorers take them. The values of
    inspect's scorers are kept as metadata; events and attachments are left out. Each epoch but the first is a case of
    its own.
    """

    name = "inspect"
    title = "inspect"
    recognised_by = "a list `samples` of objects with `epoch` and `target`; an archive `.eval`"
    answer_column = "output"
    sections = ("samples",)
    is_flat = False

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are samples of a log."""
        return 0.95 if "samples" in sections and names >= _OWN_NAMES else 0

    @classmethod
    def may_hold_conversations(cls, names: Set[str]) -> bool:
        """Return that a sample may be one."""
        return True

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a sample."""
        if _is_dialogue(record.get("messages")):
            try:
                self.stage_conversation(item.place, inspect_sample(record))
                return
            except ValueFault:
                self.warn("samples whose messages are in no known form are read as single answers")
        output, error, epoch = _object(record.get("output")), _object(record.get("error")), record.get("epoch")
        usage = _object(output.get("usage"))
        metadata = dict(_object(record.get("metadata")))
        context = _object(record.get("store")).get(_CONTEXT) or metadata.get(_CONTEXT)
        metadata.pop(_CONTEXT, None)
        id_ = record.get("id")
        flat = {
            **{f"metadata.{name}": value for name, value in metadata.items()},
            "case": f"{id_} epoch {epoch}" if isinstance(epoch, int) and epoch > 1 else id_,
            "model": output.get("model"),
            "question": _question(record.get("input")),
            "expected_answer": record.get("target") or None,
            "actual_answer": None if error else _completion(output),
            "retrieved_context": context,
            "error": error.get("message"),
            "duration_s": output.get("time"),
            "input_tokens": usage.get("input_tokens"),
            "output_tokens": usage.get("output_tokens"),
            **{f"inspect.{name}": _object(score).get("value") for name, score in _object(record.get("scores")).items()},
        }
        super().convert_record(item, {name: value for name, value in flat.items() if value is not None})


def _is_dialogue(messages: Any) -> bool:
    """Return whether messages are more than an instruction, a question and its answer."""
    found = [_object(message) for message in messages] if isinstance(messages, list) else []
    asked = sum(message.get("role") == "user" for message in found)
    return asked > 1 or any(message.get("role") == "tool" or message.get("tool_calls") for message in found)


def _question(found: Any) -> Any:
    """Return the input: a text, or what was said last by the user of a conversation."""
    if not isinstance(found, list):
        return found
    said = [_text(message.get("content")) for message in map(_object, found) if message.get("role") == "user"]
    return said[-1] if said else None


def _completion(output: dict[str, Any]) -> str | None:
    """Return the model's answer; older logs have it in their choices only."""
    if isinstance(output.get("completion"), str):
        return str(output["completion"])
    choices = output.get("choices")
    first = _object(choices[0]) if isinstance(choices, list) and choices else {}
    return _text(_object(first.get("message")).get("content"))


def _text(content: Any) -> str | None:
    """Return the text of a message, whose content may be in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "\n".join(part["text"] for part in map(_object, content) if isinstance(part.get("text"), str))


_OF_CASE: Final = ("question", "expected_answer", "retrieved_context", "categories")
_TOLD: Final = 10
"""Kinds of assertions that are named."""
_KEPT: Final = ("success", "score", "namedScores")


def _prompt(raw: Any) -> Any:
    """Return the messages that a prompt is, or any other prompt as it is."""
    try:
        found = unpacked(raw)
        return found if any(message["role"] == "user" for message in messages_of(found)) else raw
    except ValueFault:
        return raw


def _output(value: Any) -> list[Message]:
    """Read what a provider returned: a text, any object, or the calls that the model made."""
    calls = isinstance(value, list) and value and all(isinstance(each, dict) and "function" in each for each in value)
    return replied([{"role": "assistant", "tool_calls": value}] if calls else value)


@register
class Promptfoo(ConversationFormat, Other):
    """Reads one answer a result: what was asked and expected are variables with known names.

    Without a variable that is known to be the question, the only one is it, else the prompt as it was sent. A prompt of
    messages is the history with the question, where the user spoke more than once. The model is the provider; further
    prompts of it are models of their own. The error of a failed assertion is none of the host. Assertions about the
    text of an answer are the condition, and ``equals`` is the expected answer.
    """

    name = "promptfoo"
    title = "promptfoo"
    recognised_by = "an object `results` with a list `results`"
    answer_column = "response"
    sections = ("results.results",)
    conversation_columns: ClassVar[Columns] = {**CONVERSATION_COLUMNS, "actual_answer": ("reply", _output)}
    is_flat = False

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are promptfoo's results."""
        return 0.95 if "results.results" in sections else 0

    @classmethod
    def may_hold_conversations(cls, names: Set[str]) -> bool:
        """Return that a prompt may be one."""
        return True

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a result."""
        response, provider = _object(record.get("response")), record.get("provider")
        provider = _object(provider).get("label") or _object(provider).get("id") or provider
        number = record.get("promptIdx")
        usage = _object(response.get("tokenUsage"))
        answered = response.get("output") is not None
        prompt = _prompt(_object(record.get("prompt")).get("raw"))
        of_case = _of_case(_object(record.get("vars")), prompt)
        if self.has_conversation({"messages": prompt}):
            of_case = {name: value for name, value in of_case.items() if name != "question"} | {"messages": prompt}
        flat = {
            **self._asserted(record),
            **of_case,
            "model": f"{provider} prompt {number + 1}" if isinstance(number, int) and number else provider,
            "actual_answer": response.get("output"),
            "error": None if answered else response.get("error") or record.get("error"),
            "latency_ms": record.get("latencyMs"),
            "cost_usd": response.get("cost", record.get("cost")),
            "input_tokens": usage.get("prompt"),
            "output_tokens": usage.get("completion"),
            **{name: record[name] for name in _KEPT if record.get(name)},
        }
        super().convert_record(item, flat)

    def _asserted(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the condition and the expected answer of a test; assertions that say neither are left out and told."""
        condition, equal, others = [], [], set()
        for each in _list(_object(record.get("testCase")).get("assert")):
            kind, value = str(_object(each).get("type")), _object(each).get("value")
            if kind == "equals" and isinstance(value, str | int | float):
                equal.append(value)
            elif (term := _term(kind, value)) is not None:
                condition.append(term)
            else:
                others.add(kind)
        for kind in sorted(others)[:_TOLD]:
            self.warn(f"assertions {kind[:40]!r} of promptfoo were left out")
        found = {"condition": " AND ".join(condition)} if condition else {}
        return found | ({"expected_answer": equal} if equal else {})


def _term(kind: str, value: Any) -> str | None:
    """Return the part of a condition that says the same as an assertion, ``None`` where none does."""
    from leadline.evaluators.text.conditions import ConditionError, parse, quote, quote_regexp

    negated, plain = kind.startswith("not-"), kind.removeprefix("not-")
    several = plain.endswith(("-any", "-all"))
    values = value.split(",") if several and isinstance(value, str) else _list(value) if several else [value]
    if not values or not all(isinstance(each, str | int | float) and "{{" not in str(each) for each in values):
        return None  # a template, which is filled in when the test runs
    texts = [str(each).strip() if several else str(each) for each in values]
    match plain.removesuffix("-any").removesuffix("-all"):
        case "contains":
            terms = [quote(text) for text in texts]
        case "icontains":
            terms = [quote_regexp(f"(?i){re.escape(text)}") for text in texts]
        case "starts-with":
            terms = [quote_regexp(rf"\A{re.escape(text)}") for text in texts]
        case "regex":
            terms = [quote_regexp(text) for text in texts]
        case _:
            return None
    joined = (" AND " if plain.endswith("-all") else " OR ").join(terms)
    term = f"{'NOT ' if negated else ''}({joined})" if negated or len(terms) > 1 else joined
    try:
        parse(term)
    except ConditionError:  # a regular expression of JavaScript's, for example
        return None
    return term


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _of_case(variables: dict[str, Any], prompt: Any) -> dict[str, Any]:
    """Return the fields of the case; variables of no known name are kept under their own."""
    named = {match.field: name for name in variables if (match := field_of(name)) and match.field in _OF_CASE}
    others = [name for name in variables if name not in named.values()]
    if "question" not in named and len(others) == 1 and isinstance(variables[others[0]], str):
        named["question"] = others[0]
    found = {field: variables[name] for field, name in named.items()}
    kept = {name: value for name, value in variables.items() if name not in named.values()}
    return {"question": prompt, **found, **({"vars": kept} if kept else {})}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
