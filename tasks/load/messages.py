"""Messages, calls and tools in one form, from the shapes in which other tools write them.

The shape is told by content, message by message: OpenAI's chats and the items of its Responses, Anthropic's and the
Vercel AI SDK's blocks, LangChain's objects, Google's contents, the parts of OpenTelemetry's conventions for generative
AI, ShareGPT, and Leadline's own (:mod:`leadline.evaluators.data.messages`), which stays as it is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from leadline.evaluators.data import RAW, ExpectedCall, GivenChunk, Json, Message, Role, Tool, ToolCall
from leadline.tasks.load.limits import MAX_TEXT
from leadline.tasks.load.values import ValueFault, as_json, chunks, count, expected, listed, shown, text, texts

_ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "bot", "gpt", "agent"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
"""Roles, those of LangChain, Google and ShareGPT among them."""

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text", "refusal"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text", "compaction"})
"""Parts that the user does not see; a compaction is the provider's summary of what was said before."""
_CALLS: Final = frozenset({"tool_use", "tool_call", "tool-call", "function_call", "server_tool_use", "mcp_tool_use"})
_RESULTS: Final = ("tool_result", "tool-result", "_call_output", "_call_response")
"""Ends of the types of parts that are results, such as ``function_call_output`` and ``tool_call_response``."""
_OF_GOOGLE: Final = {"functionCall": "tool_call", "functionResponse": "tool_result"} | {
    "function_call": "tool_call",
    "function_response": "tool_result",
}
"""Members that hold all of a part in Google's contents, with the types of such parts."""

_OF_MCP: Final = frozenset({"content", "isError", "structuredContent", "resultType", "_meta"})
"""Members of a tool's result in the Model Context Protocol."""

_MEDIA: Final = ("modality", "type", "mimeType", "mime_type", "mediaType", "media_type")
_FILES: Final = frozenset({"file", "document", "blob", "uri"})
_CALL_IDS: Final = ("call_id", "tool_call_id", "toolCallId", "tool_use_id", "source_call_id", "id")
_TOOL_NAMES: Final = ("name", "tool_name", "toolName", "function_name")
_CONTENTS: Final = ("content", "value")
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
_COMMON: Final = frozenset({"role", "content", "parts", "finish_reason", "name", "id"})
_OF_TEXT: Final = frozenset({"type", "text", "content"})
_OF_CALL: Final = frozenset({"type", "id", "name", "arguments"})
_OF_RESPONSE: Final = frozenset({"type", "id", "name", "response"})
"""Members of nearly all messages and of nearly all parts: what has no others says nothing else."""
_SYSTEM: Final = ("system", "systemInstruction", "system_instruction", "instructions")
_LISTS: Final = ("messages", "contents", "conversations", "input", "output")


_Part: TypeAlias = tuple[str, Any]
"""A part of a message: ``text``, ``thought``, ``call`` or ``result``, and what that is."""
_NOTHING: Final[list[_Part]] = [("text", "")]


class _Draft:
    """A message of which further parts may follow.

    Args:
        role: Who says it.
        item: The object that describes it.
    """

    __slots__ = ("calls", "item", "role", "texts", "thoughts")

    def __init__(self, role: Role, item: Mapping[str, Any]) -> None:
        self.role, self.item = role, item
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def take(self, kind: str, part: Any) -> None:
        """Add a part."""
        into: list[Any] = self.texts if kind == "text" else self.thoughts if kind == "thought" else self.calls
        if part:
            into.append(part)

    def message(self) -> Message:
        """Return the message."""
        role, item = self.role, self.item
        message: Message = {"role": role, "content": "\n".join(self.texts)}
        if self.thoughts:
            message["reasoning"] = "\n".join(self.thoughts)
        if role == "assistant":
            if self.calls:
                # LangChain names a call of Anthropic's twice, in the content and beside it.
                once = {call["id"] or str(place): call for place, call in reversed(list(enumerate(self.calls)))}
                message["tool_calls"] = list(once.values())[::-1]
            if isinstance(name := item.get("name"), str) and name:
                message["name"] = name
            if context := _first(item, "retrieved_context", "retrieval_context"):
                message["retrieved_context"] = given_chunks(chunks(context))
        elif role == "user" and (answers := _first(item, "expected_answers", "expected_answer")) is not None:
            message["expected_answers"] = texts(answers)
        return message


def messages_of(value: Any) -> list[Message]:
    """Return the messages in a list, in an object around one such as a request or a completion, or a single message.

    Raises:
        ValueFault: Something in it is no message; the fault says which.
    """
    return renumbered(messages_with_ids(value))


def messages_with_ids(value: Any) -> list[Message]:
    """Return the messages in a value as :func:`messages_of` does, but with the ids that calls have in their source.

    Raises:
        ValueFault: Something in it is no message; the fault says which.
    """
    found: list[_Draft | Message] = []
    for number, item in enumerate(_items(value), start=1):
        try:
            if (plain := _plain_message(item)) is not None:
                found.append(plain)
            else:
                _take(found, _unwrapped(item))
        except ValueFault as error:
            raise ValueFault(f"message {number}: {error}") from None
    return [each.message() if isinstance(each, _Draft) else each for each in found]


def _plain_message(item: Any) -> Message | None:
    """Return a message of a known role and one text, call or result, as most are; ``None`` for any other.

    It is what :func:`_take` makes of it, found without asking for all that a message could be.
    """
    if type(item) is not dict or len(item) > 2 + ("finish_reason" in item) or type(role := item.get("role")) is not str:
        return None
    known, content, parts = _ROLES.get(role), item.get("content"), item.get("parts")
    if type(parts) is list and len(parts) == 1 and content is None and type(part := parts[0]) is dict:
        kind = part.get("type")
        if kind == "text" and len(part) == 2:
            content = part.get("content")
        elif kind == "tool_call" and known == "assistant" and part.keys() <= _OF_CALL and part.get("name") is not None:
            return {"role": known, "content": "", "tool_calls": [call_of(part)]}
        elif kind == "tool_call_response" and known is not None and part.keys() <= _OF_RESPONSE:
            said, id_, name = part.get("response"), part.get("id"), part.get("name")
            if type(said) is str and type(id_) is str and len(said) <= MAX_TEXT and not asks_for_input(said):
                result: Message = {"role": "tool", "content": said}
                if id_:
                    result["tool_call_id"] = id_
                if isinstance(name, str):
                    result["name"] = name
                return result
    if known is None or known == "tool" or type(content) is not str or len(content) > MAX_TEXT:
        return None
    return {"role": known, "content": content}


def _take(found: list[_Draft | Message], item: Mapping[str, Any]) -> None:
    """Add what a message says, or an item of OpenAI's Responses, several of which make one message."""
    role = known_role(item)
    parts = _read(item) if role is None else _parts(item)
    if role == "tool" and isinstance(said := item.get("content"), list) and said and all(map(_is_call, said)):
        role = "assistant"  # Koog repeats under this role what the model called
    if role == "tool" and not any(kind == "result" for kind, _ in parts):
        if asks_for_input(content := _first(item, *_CONTENTS, "parts")):
            return
        parts = [("result", _result(item, content))]
    single = role is None or item.get("type") == "message"
    described, role = item if role else {}, role or "assistant"
    last = _reopened(found) if single else None
    for kind, part in parts or _NOTHING:
        if kind == "result":
            found.append(part)
            last = None
            continue
        if last is None or last.role != role or (single and kind != "call" and (last.texts or last.calls)):
            last = _Draft(role, described)
            found.append(last)
        last.take(kind, part)


def _reopened(found: list[_Draft | Message]) -> _Draft | None:
    """Return the last message, if it is no tool's, as one of which further parts may follow."""
    last = found[-1] if found else None
    if isinstance(last, dict):
        if last["role"] == "tool":
            return None
        found[-1] = draft = _Draft(last["role"], {})
        draft.take("text", last["content"])
        return draft
    return last


def role_of(message: Mapping[str, Any]) -> Role | None:
    """Return who says a message, ``None`` where it does not say so in a word that is known."""
    for name in ("role", "type", "from"):
        if isinstance(word := message.get(name), str):
            role = _ROLES.get(word) or _ROLES.get(word.lower().removesuffix("chunk").removesuffix("message"))
            if role is not None:
                return role
    return None


def known_role(message: Mapping[str, Any]) -> Role | None:
    """Return who says a message, ``None`` for a part that stands alone, such as an item of OpenAI's Responses.

    Raises:
        ValueFault: It is neither.
    """
    role = role_of(message)
    if role is None and not _is_part(message):
        raise ValueFault(f"it is of no known role: {shown(as_json(message))}")
    return role


def as_arguments(value: Any) -> Mapping[str, Json]:
    """Return the arguments of a call: an object, or one that is written as JSON text; anything else as raw text."""
    if isinstance(value, dict):
        return {str(name): each for name, each in value.items()}
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return {RAW: as_json(value)}
    try:
        read = orjson.loads(value)
    except orjson.JSONDecodeError:
        return {RAW: value}
    return read if isinstance(read, dict) else {RAW: value}


def tools_of(value: Any) -> list[Tool]:
    """Return the tools in a list, in the form of OpenAI, Anthropic, Google, MCP or the Vercel AI SDK.

    Raises:
        ValueFault: Something in it is no tool; the fault says which.
    """
    if isinstance(value, dict):
        value = value["tools"] if isinstance(value.get("tools"), list) else [value]
    if not isinstance(value, list):
        raise expected("a list of tools", value)
    found: list[Tool] = []
    for number, item in enumerate(listed(value), start=1):
        item = as_arguments(item) if isinstance(item, str) else item
        declared = _first(item, "functionDeclarations", "function_declarations") if isinstance(item, dict) else None
        try:
            found += map(_tool, declared) if isinstance(declared, list) else [_tool(item)]
        except ValueFault as error:
            raise ValueFault(f"tool {number}: {error}") from None
    return found


def _tool(item: Any) -> Tool:
    if not isinstance(item, dict):
        raise expected("a tool", item)
    inner = item["function"] if isinstance(item.get("function"), dict) else item
    name = _first(inner, "name", "type")  # tools of the provider, such as a search of the web, have a type only
    if not isinstance(name, str) or not name:
        raise ValueFault("the tool has no name")
    tool: Tool = {"name": name}
    if isinstance(description := inner.get("description"), str):
        tool["description"] = description
    schema = _first(inner, *_SCHEMAS)
    schema = as_arguments(schema) if isinstance(schema, str) else schema
    if isinstance(schema, dict):
        tool["parameters"] = schema
    hints = item.get("annotations")
    read_only = item.get("read_only", hints.get("readOnlyHint") if isinstance(hints, dict) else None)
    if isinstance(read_only, bool):
        tool["read_only"] = read_only
    return tool


def renumbered(messages: Sequence[Message]) -> list[Message]:
    """Return messages with calls numbered from 1 in their order, and each result with the number and name of its call.

    A result whose id no call has belongs to the first call before it that has no result yet, of its name if it has one.
    """
    out: list[Message] = []
    latest: dict[str, ToolCall] = {}
    waiting: defaultdict[tuple[str, str], deque[ToolCall]] = defaultdict(deque)
    answered: set[str] = set()
    made = 0

    def first(kind: str, name: str) -> ToolCall | None:
        queue = waiting[kind, name]
        while queue and queue[0]["id"] in answered:
            queue.popleft()
        return queue[0] if queue else None

    for message in messages:
        message = message.copy()
        if message["role"] == "tool":
            id_, name = message.pop("tool_call_id", ""), message.get("name", "")
            call = (first("id", id_) or latest.get(id_)) if id_ else None
            if call := call or first("name", name):
                answered.add(call["id"])
                message |= {"tool_call_id": call["id"], "name": name or call["name"]}
        elif calls := message.get("tool_calls"):
            numbered: list[ToolCall] = [{**call, "id": str(made + n)} for n, call in enumerate(calls, start=1)]
            made += len(calls)
            for old, call in zip(calls, numbered, strict=True):
                latest[old["id"]] = call
                for key in (("id", old["id"]), ("name", call["name"]), ("name", "")):
                    waiting[key].append(call)
            message["tool_calls"] = numbered
        out.append(message)
    return out


def _items(value: Any) -> list[Any]:
    """Return the messages in a list or in an object around one, as they are."""
    if isinstance(value, dict):
        for name, inside in (("choices", "message"), ("candidates", "content")):
            if isinstance(chosen := value.get(name), list) and chosen and isinstance(chosen[0], dict):
                return [chosen[0].get(inside)]
        if isinstance(generations := value.get("generations"), list):
            first = generations[0] if generations and isinstance(generations[0], list) else generations
            return [first[0].get("message")] if first and isinstance(first[0], dict) else []
        found = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        if found is None or ("messages" not in value and (role_of(value) or _is_part(value))):
            return [value]
        system = _first(value, *_SYSTEM)
        content = system if isinstance(system, dict) else {"content": system}
        answer = value.get("structured_response")  # what an agent of LangChain ends with where a schema is asked for
        return [
            *([{**content, "role": "system"}] if system else []),
            *_single(found),
            *([{"role": "assistant", "content": as_json(answer)}] if answer is not None else []),
        ]
    if not isinstance(value, list):
        raise expected("a list of messages", value)
    return _single(value)


def _single(value: list[Any]) -> list[Any]:
    """Return the messages of a batch of one conversation, as LangChain records it, or of a conversation."""
    return listed(value[0] if len(value) == 1 and isinstance(value[0], list) else value)


def _unwrapped(item: Any) -> Mapping[str, Any]:
    """Return a message without the object that a library has put around it."""
    if not isinstance(item, dict):
        raise expected("a message", item)
    id_, inside = item.get("id"), item.get("kwargs")
    if isinstance(inside, dict) and isinstance(id_, list) and id_:
        return {**inside, "type": inside.get("type") or id_[-1]}
    if isinstance(inside := item.get("data"), dict) and isinstance(item.get("type"), str):
        return {"type": item["type"], **inside}
    if isinstance(inside := item.get("message"), dict) and role_of(inside):
        return inside
    if item.get("from") == "function_call":
        return {"role": "assistant", "tool_calls": as_arguments(item.get("value"))}
    return item


def given_chunks(found: Sequence[tuple[str, str | None]]) -> list[GivenChunk]:
    """Return retrieved chunks as they stand in a message."""
    return [{"content": content, "doc_uri": uri} if uri else {"content": content} for content, uri in found]


def _parts(item: Mapping[str, Any]) -> list[_Part]:
    """Return all that a message consists of, in order."""
    content = item.get("parts") or _first(item, *_CONTENTS)
    found = [part for each in listed([] if content is None else content) for part in _read(each)]
    if item.keys() <= _COMMON:
        return found
    further = item.get("additional_kwargs")
    further = further if isinstance(further, dict) else {}
    thoughts = (_first(item, "reasoning", "reasoning_content", "thinking"), further.get("reasoning_content"))
    found[:0] = [("thought", thought) for thought in thoughts if isinstance(thought, str)]
    for name in ("refusal", "audio"):
        said = item.get(name)
        said = said.get("transcript") if isinstance(said, dict) else said
        if isinstance(said, str) and not content:
            found.append(("text", said))
    calls = item.get("tool_calls") or further.get("tool_calls") or []
    calls = [*listed(calls), *listed(item.get("invalid_tool_calls") or [])]
    old = item.get("function_call") or (None if calls else further.get("function_call"))
    return [*found, *(("call", call_of(call)) for call in [*calls, *([old] if isinstance(old, dict) else [])])]


def _is_call(part: Any) -> bool:
    """Return whether a part is a call in the form of OpenAI's, which mostly stands beside the content."""
    return isinstance(part, dict) and isinstance(inner := part.get("function"), dict) and "arguments" in inner


def _is_part(value: Mapping[str, Any]) -> bool:
    """Return whether an object is an item of OpenAI's Responses, or another part that says what it is."""
    kind = str(value.get("type"))
    return kind in _CALLS or kind in _THOUGHTS or kind.endswith(("_call", *_RESULTS))


def _read(part: Any) -> list[_Part]:
    """Return what a part of a message says: mostly one thing, of a tool that the provider runs also its result."""
    if not isinstance(part, dict):
        return [("text", text(part))]
    if part.keys() <= _OF_TEXT and part.get("type") in ("text", None):
        return [("text", _written(part))]
    kind = str(_first(part, "type", "part_kind") or "text")
    for name in _OF_GOOGLE:
        if name in part and isinstance(inside := part[name], dict):
            kind, part = _OF_GOOGLE[name], _of_google(inside)
    if kind in _THOUGHTS or part.get("thought") is True:
        return [("thought", _plain(_first(part, "thinking", "text", "content", "summary")))]
    if kind.endswith(_RESULTS):
        content = _first(part, "response", "result", "output", "content")
        return [] if asks_for_input(content) else [("result", _result(part, content))]
    if kind not in _CALLS and not kind.endswith("_call") and not _is_call(part):
        return [("text", _written(part))]
    part = {**part, "name": kind.removesuffix("_call")} if _first(part, *_TOOL_NAMES) is None else part
    found: list[_Part] = [("call", call_of(part))]
    if (output := _first(part, "output", "outputs", "results", "error")) is not None:
        found.append(("result", _result(part, output)))
    return found


def call_of(value: Any) -> ToolCall:
    """Return a call of a tool, with the id that it has in its source, ``""`` where it has none.

    Raises:
        ValueFault: It names no tool.
    """
    if not isinstance(value, dict):
        raise expected("a call of a tool", value)
    name = _first(inner := _inner(value), *_TOOL_NAMES, "function")
    if not isinstance(name, str) or not name:
        raise ValueFault("a call names no tool")
    return {"id": _id(value), "name": name, "arguments": as_arguments(_given(inner))}


def expected_calls(value: Any) -> list[ExpectedCall]:
    """Return the calls that a case expects; any arguments will do for one that names none."""
    found: list[ExpectedCall] = []
    for number, item in enumerate(listed(value), start=1):
        try:
            name = call_of(item)["name"]
            expects: ExpectedCall = {"name": name}
            if (arguments := _given(_inner(item))) is not None:
                expects["arguments"] = as_arguments(arguments)
            if (others := item.get("any_of")) is not None:
                expects["any_of"] = [as_arguments(each) for each in listed(others)]
            if (turn := item.get("turn")) is not None:
                expects["turn"] = count(turn)
        except ValueFault as error:
            raise ValueFault(f"call {number}: {error}") from None
        found.append(expects)
    return found


def _inner(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object that names a tool and the arguments."""
    return next((call[name] for name in ("function", "custom") if isinstance(call.get(name), dict)), call)


def _given(inner: Mapping[str, Any]) -> Any:
    return _first(inner, "arguments", "args", "input", "input_parameters", "tool_input", "server_tool_call", "action")


def _result(value: Mapping[str, Any], content: Any) -> Message:
    """Return the result of a call as a message."""
    content, error = _opened(content)
    if value.get("error") is not None:
        error = value["error"]
    failed = any(value.get(name) is True for name in ("is_error", "isError")) or value.get("status") == "error"
    message: Message = {"role": "tool", "content": _plain(content)}
    if id_ := _id(value):
        message["tool_call_id"] = id_
    if isinstance(name := _first(value, *_TOOL_NAMES), str):
        message["name"] = name
    if isinstance(error, dict):
        error = error.get("message") or as_json(error)
    if isinstance(error, str) or error is True or failed:
        message["error"] = error if isinstance(error, str) else message["content"]
    return message


def asks_for_input(content: Any) -> bool:
    """Return whether what a tool returned is no result yet: in MCP it may ask for more before it goes on."""
    if isinstance(content, str) and '"input_required"' in content:
        content = as_arguments(content)
    return isinstance(content, dict) and content.get("resultType") == "input_required"


def _opened(content: Any) -> tuple[Any, Any]:
    """Return a result without the envelope of the Vercel AI SDK or of MCP, and whether it says that the call failed."""
    if isinstance(content, dict):
        if content.keys() == {"type", "value"}:
            return content["value"], str(content["type"]).startswith("error-")
        if isinstance(content.get("content"), list) and content.keys() <= _OF_MCP:
            return content["content"], content.get("isError")
    return content, None


def _of_google(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result of Google's contents, where what is no object is put into one."""
    response = part.get("response")
    if not isinstance(response, dict) or len(response) != 1 or not response.keys() <= {"output", "result", "error"}:
        return part
    name, value = next(iter(response.items()))
    return {**part, "response": value, "is_error": name == "error"}


def _id(value: Mapping[str, Any]) -> str:
    found = _first(value, *_CALL_IDS)
    return "" if found is None else text(found)


def _plain(content: Any) -> str:
    """Return what a tool returned, or a model thought, as a text: parts joined, anything else as JSON."""
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(each, str) or _is_written(each) for each in content):
        return "\n".join(each if isinstance(each, str) else _written(each) for each in content)
    if isinstance(content, dict | list):
        return text(as_json(content))
    return text(content)


def _is_written(part: Any) -> bool:
    return isinstance(part, dict) and (part.keys() == {"text"} or str(part.get("type")) in _TEXTS | {"image"})


def _written(part: Mapping[str, Any]) -> str:
    """Return the text of a part, or what stands for a picture, a file and the like."""
    kind = str(part.get("type") or next((name for name in part if part[name] is not None), ""))
    if not kind:
        return ""
    for name in ("transcript",) if kind in _FILES else ("text", "refusal", "content", "transcript"):
        if isinstance(said := part.get(name), str):
            return text(said)
    inside = next((each for each in part.values() if isinstance(each, dict)), {})
    if isinstance(said := inside.get("transcript"), str):
        return text(said)
    told = " ".join(str(each.get(name)) for each in (part, inside) for name in _MEDIA) + kind
    return next((f"[{medium}]" for medium in ("image", "audio", "video") if medium in told), _file_or(kind))


def _file_or(kind: str) -> str:
    return "[file]" if kind in _FILES or kind.startswith(("file", "inline", "input_file")) else f"[{kind}]"


def _first(value: Mapping[str, Any], *names: str) -> Any:
    """Return the first member of these names that is not null."""
    for name in names:
        if (found := value.get(name)) is not None:
            return found
    return None
