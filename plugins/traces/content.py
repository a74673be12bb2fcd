"""The content of a span as exports write it: what went in and what came out, for each kind of span.

Tools that export traces agree on little but this: a span has one value that went in and one that came out, each JSON,
a text that holds JSON, or a text. :func:`with_content` reads the two by the kind of the span. What it cannot read it
leaves out, and says so in :attr:`~leadline.plugins.traces.span.TraceSpan.missing`.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from leadline.evaluators.data import GivenChunk, Json, Message, Role, Tool
from leadline.plugins.traces.span import IDS_ONLY, NOT_CAPTURED, Annotated, TraceSpan
from leadline.tasks.load.limits import MAX_TEXT, MIB
from leadline.tasks.load.messages import as_arguments, given_chunks, messages_with_ids, role_of, tools_of
from leadline.tasks.load.readers.json_values import Broken, decode
from leadline.tasks.load.values import ValueFault, printed_by_python

_NAMED: Final[Mapping[Role, tuple[str, ...]]] = {
    "user": ("input", "inputs", "query", "question", "prompt", "prompts", "messages", "contents", "text"),
    "assistant": ("output", "outputs", "answer", "response", "generations", "choices", "result", "text", "content"),
}
"""Names under which an object has what was asked, and what was answered."""

_CONTENTS: Final = ("page_content", "pageContent", "content", "text")
_URIS: Final = ("doc_uri", "uri", "url", "source", "id", "document_id")
_IDS: Final = ("id", "document_id")
"""Names that come first where there is no text: a corpus has it by the id."""
_LISTS: Final = ("documents", "output", "results", "matches")
_CALLED_WITH: Final = frozenset({"inputs", "input", "input_str", "args", "kwargs", "tags", "metadata"})
"""Members of the object that LangChain's callbacks and decorators record around a tool's arguments."""
_DEEPEST: Final = 5
"""Objects around a text, a document or an argument that are opened one after another."""

_SHORT: Final = MIB
"""Characters of a JSON text that has too few values to be refused."""

_PACKED_TWICE: Final = ('"{', '"[')
"""Beginnings of a JSON text that is a JSON text of a text, as decorators write the objects of a provider's library."""

_ID_LENGTHS: Final = {24: 16, 12: 8}
"""Characters of an id in base64, with its bytes; in hex it is longer."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))
"""The least number of a unit since 1970 that is later than 1973, and its nanoseconds: of nano- to whole seconds."""


def inside(value: Any, *path: str) -> dict[str, Any]:
    """Return the object at a path of names, of which some may be texts that hold JSON; empty where there is none."""
    for name in path:
        value = opened(value)
        value = value.get(name) if isinstance(value, dict) else None
    value = opened(value)
    return value if isinstance(value, dict) else {}


def first(record: Mapping[str, Any], *names: str) -> Any:
    """Return the first value of some names that is there."""
    for name in names:
        if (found := record.get(name)) is not None:
            return found
    return None


def text(value: Any) -> str:
    """Return a text or a number as text, ``""`` for anything else."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def listed(value: Any) -> list[Any]:
    """Return a list, or one in a text; empty for anything else."""
    value = opened(value)
    return value if isinstance(value, list) else []


def opened(value: Any, *, marks: Sequence[str] = ("[", "{")) -> Any:
    """Return a value, or what it holds as a JSON text.

    Args:
        marks: What a text begins with that is looked into; empty for all, where every value is a JSON text.
    """
    if not isinstance(value, str) or (marks and value.lstrip()[:1] not in marks):
        is_packed = isinstance(value, str) and value.startswith(_PACKED_TWICE)
        return opened(inner) if is_packed and isinstance(inner := opened(value, marks=()), str) else value
    try:
        if len(value) <= _SHORT:
            return orjson.loads(value)
    except orjson.JSONDecodeError:
        pass  # it may still be what json.loads reads
    try:
        return decode(value.encode("utf-8", "replace"))
    except Broken:
        return value


def moment(value: Any) -> int:
    """Return a time as nanoseconds since 1970, 0 for none: a number of any unit, ISO 8601, or a date of a table."""
    try:
        if isinstance(value, str) and value.strip():
            value = int(value) if value.strip().isdecimal() else datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):
            at = value if value.tzinfo else value.replace(tzinfo=UTC)
            return max(0, (at - _EPOCH) // timedelta(microseconds=1) * 1000)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**63:
            return int(value * next(factor for least, factor in _UNITS if value >= least))
    except (ValueError, OverflowError):
        pass
    return 0


def amount(value: Any) -> float | None:
    """Return a number that is not negative, or such a number in a text; ``None`` for anything else."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < math.inf else None


def count(value: Any) -> int | None:
    """Return a whole number of at most 64 bits that is not negative; ``None`` for anything else."""
    found = amount(value)
    return int(found) if found is not None and found.is_integer() and found < 2**63 else None


def annotated(name: Any, value: Any, person: Any = "", *, human: bool = False, note: Any = "") -> Annotated | None:
    """Return an opinion; ``None`` for one without a name, or whose value is no number, truth value or word."""
    is_told = isinstance(value, int | float) or (isinstance(value, str) and value)
    if not is_told or not text(name) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return Annotated(text(name), value, text(person), human, text(note))


def hexed(value: str) -> str:
    """Return an id in hex, as which OTLP in JSON has it; MLflow and what protobuf's own JSON writes have base64."""
    if (size := _ID_LENGTHS.get(len(value))) is None:
        return value.lower().removeprefix("0x")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value.lower()
    return data.hex() if len(data) == size else value.lower()


def with_content(span: TraceSpan, given: Any, returned: Any) -> TraceSpan:
    """Give a span what went in and what came out, or why that is not here, and return it.

    Agents and roots have messages, too, as far as there are any; other spans repeat what stands elsewhere.
    """
    why = ""
    if span.kind == "tool":
        span.arguments, (span.result, failed, call) = arguments_of(given), result_of(returned)
        span.error = failed if span.error is None else span.error
        span.call_id = span.call_id or call
        why = NOT_CAPTURED if span.arguments is None and span.result is None and span.error is None else ""
    elif span.kind == "retriever":
        span.documents, why = documents_in(returned)
        why = why if span.error is None else ""
    elif span.kind == "llm":
        _take_messages(span, given, returned)
        why = NOT_CAPTURED if span.inputs is None or (span.outputs is None and span.error is None) else ""
    elif span.kind == "agent" or not span.parent:
        span.inputs = said(given, "user")
        span.outputs = added(span.inputs, said(returned, "assistant"))
    span.missing = span.missing or why
    return span


def _take_messages(span: TraceSpan, given: Any, returned: Any) -> None:
    """Give the span of a model its messages and the tools that were offered."""
    given, among = _without_tools(opened(given))
    inputs, outputs = said(given, "user"), said(returned, "assistant")
    told = [message for message in outputs or () if message["role"] == "system"]
    if told:  # a response of OpenAI's repeats the instructions, which are not among what was sent
        outputs = [message for message in outputs or () if message["role"] != "system"]
        inputs = inputs if inputs is None or inputs[0]["role"] == "system" else [*told, *inputs]
    span.inputs, span.outputs = inputs, added(inputs, outputs)
    span.tools = span.tools or next(filter(None, map(tools_in, (among, given, returned))), None)


def added(inputs: list[Message] | None, outputs: list[Message] | None) -> list[Message] | None:
    """Return what came out without what went in, where it is repeated in front, as LangGraph's state is."""
    if inputs and outputs and outputs[: len(inputs)] == inputs:
        return outputs[len(inputs) :]
    return outputs


def said(value: Any, role: Role) -> list[Message] | None:
    """Return messages of any shape; a text alone is a message of whoever says it there; ``None`` for no messages.

    Args:
        value: What went in or came out.
        role: Who says a text that has no role.
    """
    messages, rest = messages_in(value, role)
    if messages is None and isinstance(rest, str) and rest.strip():
        return [{"role": role, "content": rest}]
    return messages or None


def messages_in(value: Any, role: Role) -> tuple[list[Message] | None, Any]:
    """Return messages of any shape, or ``None`` and what the objects around it hold that is none.

    Args:
        value: What went in or came out.
        role: Who says it, which tells the names under which it stands.
    """
    for _ in range(_DEEPEST):
        if role == "user" and (messages := _PROMPTS.read(value)):
            return messages, value
        found = opened(value)
        if isinstance(found, list):  # OpenLLMetry's word for who said it where the provider's library does not
            found = [{**each, "role": role} if _has_no_role(each) else each for each in found]
        if isinstance(found, dict | list):
            try:
                if (messages := _united(messages_with_ids(found))) or found == []:
                    return _PROMPTS.keep(value, messages) if role == "user" else messages, value
            except ValueFault:
                pass
        if isinstance(found, dict) and "args" in found and found.keys() <= {"args", "kwargs"}:  # a function's
            value = [*listed(found["args"]), *inside(found, "kwargs").values()]
        elif isinstance(found, dict) and (inner := first(found, *_NAMED[role])) is not None:
            told = {"role": "system", "content": found.get("system")}
            value = [told, {"role": role, "content": inner}] if told["content"] and isinstance(inner, str) else inner
        elif isinstance(found, list) and len(found) == 1:
            value = found[0]
        else:
            break
    return None, value


def _has_no_role(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "unknown"


def _united(messages: list[Message]) -> list[Message]:
    """Return messages in which the calls of one response stand together, and with its text.

    An instrumentation may write a message for each. Before the next response all calls have a result.
    """
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        calls = message.get("tool_calls") if message["role"] == "assistant" and not message["content"] else None
        if calls and last is not None and last["role"] == "assistant":
            out[-1] = {**last, "tool_calls": [*last.get("tool_calls", ()), *calls]}
        else:
            out.append(message)
    return out


class _Prompts:
    """The last prompt that was read. Most go on where the one before ended, which is not read again then."""

    def __init__(self) -> None:
        self._last: tuple[Any, list[Message]] = ("", [])

    def keep(self, value: Any, messages: list[Message]) -> list[Message]:
        """Keep a prompt that was read as messages; return these."""
        self._last = (value, messages)
        return messages

    def read(self, value: Any) -> list[Message] | None:
        """Return the messages of a prompt that begins as the last one; ``None`` for any other."""
        known, messages = self._last
        if value == known:
            return messages
        further = _further(known, value)
        first = further[0] if further else None
        # Items of OpenAI's Responses may go on with the message that stands before them.
        if not isinstance(first, dict) or "role" not in first or first.get("type") == "message":
            return None
        try:
            return self.keep(value, [*messages[:-1], *_united([*messages[-1:], *messages_with_ids(further)])])
        except ValueFault:
            return None


_PROMPTS: Final = _Prompts()


def _further(known: Any, value: Any) -> list[Any]:
    """Return what a list, or one in a text, has after another that it begins with."""
    if isinstance(value, list) and isinstance(known, list) and value[: len(known)] == known:
        return value[len(known) :]
    if isinstance(value, str) and isinstance(known, str) and known[:1] == "[" and value.startswith(f"{known[:-1]},"):
        return listed(f"[{value[len(known) :]}")
    return []


def arguments_of(value: Any) -> Mapping[str, Json] | None:
    """Return what a tool was called with; a text that is no object stands under the name for such texts."""
    value = _object_in(value)
    if isinstance(value, dict) and value.keys() <= _CALLED_WITH:
        among = (_object_in(value.get(name)) for name in ("inputs", "input", "input_str", "kwargs"))
        value = next((inner for inner in among if inner and isinstance(inner, dict)), value)
    return None if value is None else as_arguments(value)


def _object_in(value: Any) -> Any:
    """Return what a text holds as JSON or as Python prints it; any other value as it is."""
    value = opened(value)
    printed = printed_by_python(f"[{value}]") if isinstance(value, str) and value[:1] == "{" else None
    return printed[0] if printed else value


def result_of(value: Any) -> tuple[str | None, str | None, str]:
    """Return the text that a tool returned, what failed where it says so, and the id of the call where it is there."""
    for _ in range(_DEEPEST):
        if "output" not in (around := inside(value)) or around.keys() - {"output", "kwargs"}:
            break
        value = inside(value)["output"]
    if value is None:
        return None, None, ""
    if isinstance(value, str) and value.lstrip()[:1] not in ("[", "{") and len(value) <= MAX_TEXT:
        return value, None, ""
    given = inside(value, "kwargs") or inside(value, "data") or inside(value)
    is_message = role_of(given) == "tool"
    try:
        message = messages_with_ids([opened(value) if is_message else {"role": "tool", "content": value}])[0]
    except (ValueFault, IndexError):
        return None, None, ""
    return message["content"], message.get("error"), text(given.get("tool_call_id"))


def failure_of(told: str) -> str:
    """Return what failed, without the code that it failed in; OpenAI's Agents SDK tells it in an object."""
    told = told.partition("Traceback (most recent call last):")[0].strip() or told
    found = _object_in(told[max(told.find("{"), 0) :])
    found = inside(found, "data") or inside(found)
    return text(found.get("error")) or told if "tool_name" in found else told


def documents_in(value: Any) -> tuple[list[GivenChunk], str]:
    """Return the texts that were found, in rank order, and why others are not here."""
    for _ in range(_DEEPEST):
        value = opened(value)
        if not isinstance(value, dict):
            break
        value = first(value, *_LISTS) or [value]
    if not isinstance(value, list):
        return [], NOT_CAPTURED
    chunks: list[GivenChunk] = []
    missing = ""
    for element in value:
        content, uri = (element, "") if isinstance(element, str) else _document(inside(element))
        if content or uri:
            chunks += given_chunks([(content, uri)])
        if not content:
            missing = IDS_ONLY if uri or missing == IDS_ONLY else NOT_CAPTURED
    return chunks, missing


def _document(record: dict[str, Any]) -> tuple[str, str]:
    record = inside(record, "kwargs") or inside(record, "document") or record
    further, content = inside(record, "metadata"), text(first(record, *_CONTENTS))
    names = _URIS if content else (*_IDS, *_URIS)
    uris = (text(its.get(name)) for name in names for its in (record, further))
    return content, next(filter(None, uris), "")


def _without_tools(given: Any) -> tuple[Any, list[Any]]:
    """Return what went in without the tools that Langfuse keeps among the messages, and these tools."""
    if not isinstance(given, list):
        return given, []
    among = [inside(each, "content") for each in given if _is_tool(each)]
    return [each for each in given if not _is_tool(each)] if among else given, among


def _is_tool(message: Any) -> bool:
    """Say whether a message is a tool that was offered, as Langfuse's handler for LangChain writes them."""
    content = inside(message, "content") if inside(message).get("role") == "tool" else {}
    return content.get("type") == "function" and isinstance(content.get("function"), dict)


def tools_in(value: Any) -> list[Tool] | None:
    """Return the tools in a list, or of an object that names some; ``None`` where there are none."""
    value = opened(value)
    tools = listed(value.get("tools")) if isinstance(value, dict) else value
    try:
        return tools_of(tools) or None if isinstance(tools, list) else None
    except ValueFault:
        return None


def kept(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Json]:
    """Return the members of some names that say something."""
    return {name: record[name] for name in names if record.get(name) not in (None, "", [], {})}
