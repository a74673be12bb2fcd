"""Raw spans into :class:`~leadline.plugins.traces.span.TraceSpan`, by the tables of the dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from leadline.evaluators.data import Message, Role, Tool
from leadline.plugins.traces.content import (
    added,
    amount,
    arguments_of,
    count,
    documents_in,
    failure_of,
    messages_in,
    opened,
    result_of,
)
from leadline.plugins.traces.dialect import DIALECTS, Dialect, Field
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.span import ELSEWHERE, NOT_CAPTURED, Annotated, Kind, TraceCounts, TraceSpan, Usage
from leadline.tasks.load.messages import tools_of
from leadline.tasks.load.values import ValueFault, as_json

_THREADS: Final = frozenset(
    {"session_id", "thread_id", "conversation_id", "chat_id", "sessionid", "threadid", "conversationid", "chatid"}
)
"""Members of metadata that name a conversation, in small letters."""
_WRAPPERS: Final = frozenset(
    {"message", "tool_call", "message_content", "document", "tool", "json_schema", "annotation", "evaluation"}
    | {"prompt", "completion"}
)
"""Members that are all of an element of numbered attributes."""
_NOTHING: Final = (None, "", "__REDACTED__")
"""Values that say nothing; OpenInference's stands for what it was told to hide."""
_ALL_KEPT: Final = ("metadata", "annotations")
_MOST_SHAPES: Final = 5_000
"""Names, and sets of names, of which is kept what they mean."""
_MOST_NAMES: Final = 100
"""Names in such a set; numbered attributes are more, and others in each span."""
_COUNTED: Final = frozenset({"input_tokens", "output_tokens", "cost_usd"})
_CHOICE: Final = "gen_ai.choice"
_OF_MESSAGE: Final = ("role", "content", "tool_calls", "id", "name")
_COMPACTED: Final = '"compaction"'


class _Shape(NamedTuple):
    """The meaning of the attributes of a span by their names, which the spans of an instrumentation share.

    Attributes:
        kinds: Those that tell what a span is, with what their values mean.
        sessions: Those that may name the conversation, with their ranks, the most telling first.
        joined: Attributes that are made of others.
        fields: By kind, those that hold what a span says, the most telling first: rank, field, attribute, and its name
            in the tables.
    """

    kinds: list[tuple[str, Mapping[str, Kind]]]
    sessions: list[tuple[int, str]]
    joined: dict[str, Mapping[str, str]]
    fields: dict[Kind, list[tuple[int, Field, str, str]]]


class Translator:
    """Translates spans.

    Args:
        dialects: Tables in the order in which they are asked: the first that knows a name wins.
    """

    def __init__(self, dialects: Sequence[Dialect] = DIALECTS, counts: TraceCounts | None = None) -> None:
        self.counts = counts or TraceCounts()
        self._last_instructions: tuple[Any, list[Message] | None] = (None, None)
        self._last_tools: tuple[Any, list[Tool]] = (None, [])
        self._kinds: list[tuple[str, Mapping[str, Kind]]] = [
            (name, {value: kind for kind, values in kinds.items() for value in values})
            for dialect in dialects
            for name, kinds in dialect.kinds.items()
        ]
        self._sessions = [name for dialect in dialects for name in dialect.sessions]
        self._session_rank = lru_cache(maxsize=_MOST_SHAPES)(self._rank)
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._merged = frozenset().union(*(dialect.merged for dialect in dialects))
        self._collected = {name: into for dialect in reversed(dialects) for name, into in dialect.collected.items()}
        self._elements = {name: of for dialect in reversed(dialects) for name, of in dialect.elements.items()}
        self._joined = {name: parts for dialect in dialects for name, parts in dialect.joined.items()}
        self._renamed = {name: new for dialect in dialects for name, new in dialect.renamed.items()}
        self._tables = {
            kind: _table(dialects, kind) for kind in ("llm", "tool", "retriever", "agent", "chain", "other")
        }

    def session(self, attributes: Mapping[str, Any]) -> tuple[int, str] | None:
        """Return the conversation that a span names, with the rank of the attribute that names it, lower is better."""
        return _session(attributes, self._shape(attributes))

    def _shape(self, attributes: Mapping[str, Any]) -> _Shape:
        names = tuple(attributes)
        if (shape := self._shapes.get(names)) is None:
            sessions = sorted((rank, key) for key in names if (rank := self._session_rank(key)) is not None)
            joined = {name: of for name, of in self._joined.items() if not attributes.keys().isdisjoint(of.values())}
            kinds = [each for each in self._kinds if each[0] in attributes]
            shape = _Shape(kinds, sessions, joined, {})
            if len(names) <= _MOST_NAMES and len(self._shapes) < _MOST_SHAPES:
                self._shapes[names] = shape
        return shape

    def _rank(self, key: str) -> int | None:
        for rank, name in enumerate(self._sessions):
            if key == name or (name[-1] == "*" and _names_thread(key, name[:-1])):
                return rank
        return None

    def span(self, raw: RawSpan, events: Iterable[tuple[str, dict[str, Any]]] = ()) -> TraceSpan:
        """Return a span.

        Args:
            events: Log records that belong to it.
        """
        attributes, shape = raw.attributes, self._shape(raw.attributes)
        session = _session(attributes, shape)
        if events or raw.events or "events" in attributes:
            attributes = self._complete(raw, events)
            shape = self._shape(attributes)
        for name, parts in shape.joined.items():
            members = {member: attributes.get(part) for member, part in parts.items()}
            calls = opened(members.get("tool_calls"))
            attributes = {**attributes, name: [{**members, "role": "assistant", "tool_calls": calls}]}
        shape = self._shape(attributes) if shape.joined else shape
        kind = _kind(attributes, shape)
        found = self._found(attributes, shape, kind)
        get = found.get
        error = raw.error
        if error is not None or "error" in found:
            thrown = (each.get("exception.message") for name, each in raw.events if name == "exception")
            error = failure_of(next((str(text) for text in thrown if text), None) or error or str(get("error") or ""))
        span = TraceSpan(raw.trace, raw.id, raw.parent, kind, str(get("name") or raw.name), raw.start_ns, raw.end_ns)
        span.error, span.session, span.model = error, session[1] if session else "", str(get("model") or "")
        span.metadata = {**raw.resource, **found["metadata"]} if "metadata" in found else raw.resource
        if kind == "llm":
            self._take_messages(span, found)
        elif kind in ("agent", "chain"):
            span.inputs = self._messages(get("inputs"), "user", counted=False)
            outputs = span.outputs = added(span.inputs, self._messages(get("outputs"), "assistant", counted=False))
            if span.inputs and outputs and span.inputs[-1] == outputs[-1]:
                span.inputs = span.inputs[:-1]  # pydantic-ai has all messages of a run in one list
        elif kind == "tool":
            span.result, failed, call_id = result_of(get("result"))
            span.call_id = str(get("call_id") or call_id)
            span.error = failed if error is None else error
            span.arguments = arguments_of(get("arguments"))
        elif kind == "retriever" and "documents" in found:
            told = opened(found["documents"])
            span.documents, span.missing = documents_in([told] if isinstance(told, str) else told)
        if "tools" in found:
            span.tools = self._tools(found["tools"])
        if not _COUNTED.isdisjoint(found):
            input_tokens, output_tokens = count(get("input_tokens")), count(get("output_tokens"))
            span.usage = Usage(input_tokens, output_tokens, amount(get("cost_usd")))
        span.passes_control = get("transfer") == "pass_control"
        if "annotations" in found:
            span.annotations = _annotations(found["annotations"])
        return span

    def _take_messages(self, span: TraceSpan, found: Mapping[Field, Any]) -> None:
        """Give the span of a model what was said to it and what it said, or why that is not here."""
        given, returned = found.get("inputs"), found.get("outputs")
        inputs, outputs = self._messages(given, "user"), self._messages(returned, "assistant")
        if "system" in found:
            inputs = [*self._instructions(found["system"]), *(inputs or ())]
        if span.error is not None and not any(each["content"] or each.get("tool_calls") for each in outputs or ()):
            outputs = None
        span.inputs, span.outputs = inputs, outputs
        if inputs is None and outputs is None:
            span.missing = ELSEWHERE if "elsewhere" in found else NOT_CAPTURED
        if _COMPACTED in str(given) or _COMPACTED in str(returned):
            span.metadata = {**span.metadata, "history_rewritten": True}

    def _complete(self, raw: RawSpan, logged: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        """Return the attributes of a span with what its events say."""
        attributes = dict(raw.attributes)
        lists: dict[str, list[Any]] = {}
        inside = opened(attributes.get("events"))
        kept = [each for each in inside if isinstance(each, dict)] if isinstance(inside, list) else []
        own = [(str(each.get("event.name")), each) for each in kept]
        for name, told in (*own, *raw.events, *logged):
            if name in self._merged:
                attributes = {**told, **attributes}
            elif name in self._collected:
                members = self._elements.get(name)
                element = {member: told.get(of) for member, of in members.items()} if members else _message(name, told)
                if name != _CHOICE or not told.get("index"):
                    lists.setdefault(self._collected[name], []).append(element)
        return {**attributes, **lists}

    def _found(self, attributes: Mapping[str, Any], shape: _Shape, kind: Kind) -> dict[Field, Any]:
        """Return what a span says, of each field the value of the first name; of metadata and annotations all."""
        if (telling := shape.fields.get(kind)) is None:
            telling = shape.fields[kind] = _telling(attributes, self._tables[kind])
        found: dict[Any, Any] = {}
        for _, field, key, name in telling:
            value = attributes[key]
            if value in _NOTHING:
                continue
            into, under = (found.setdefault(field, {}), name) if field in _ALL_KEPT else (found, field)
            if under not in into:
                into[under] = self._numbered(attributes, name[:-1]) if name[-2:] == ".N" else value
        return found

    def _numbered(self, attributes: Mapping[str, Any], prefix: str) -> list[Any]:
        """Return the list that numbered attributes make."""
        root: dict[str, Any] = {}
        for key, value in attributes.items():
            if key.startswith(prefix):
                at = root
                *path, last = key[len(prefix) :].split(".")
                for part in path:
                    inner = at.setdefault(part, {})
                    at = inner if isinstance(inner, dict) else at
                at[last] = value
        made = self._listed(root)
        return made if isinstance(made, list) else [made]

    def _listed(self, value: Any) -> Any:
        """Return objects whose members are numbers as lists, without what is only around their elements."""
        if not isinstance(value, dict):
            return value
        if value and all(key.isdecimal() for key in value):
            elements = [self._listed(value[key]) for key in sorted(value, key=int)]
            return [next(iter(each.values())) if _is_wrapped(each) else each for each in elements]
        made = {self._renamed.get(key, key): self._listed(inner) for key, inner in value.items()}
        if _are_parts(parts := opened(made.get("content"))):
            made["content"] = parts
        return next(iter(made.values())) if _is_wrapped(made) and isinstance(next(iter(made.values())), str) else made

    def _instructions(self, value: Any) -> list[Message]:
        if value != self._last_instructions[0]:
            self._last_instructions = (value, self._messages([{"role": "system", "content": opened(value)}], "system"))
        return self._last_instructions[1] or []

    def _messages(self, value: Any, role: Role, *, counted: bool = True) -> list[Message] | None:
        """Return the messages in a value; what is none of the known forms is one text, and counted where asked."""
        if value is None or value == "{}":  # what Google's ADK writes where it captures no content
            return None
        messages, rest = messages_in(value, role)
        if messages is None:
            rest = opened(rest)
            is_text = isinstance(rest, str)
            self.counts.unreadable += counted and not is_text
            messages = [{"role": role, "content": rest if is_text else as_json(rest)}]
        return messages

    def _tools(self, value: Any) -> list[Tool] | None:
        if value is None or value == self._last_tools[0]:
            return None if value is None else self._last_tools[1]
        try:
            parsed = opened(value)
            read = tools_of(parsed.get("function_tools", parsed) if isinstance(parsed, dict) else parsed)
        except (ValueFault, TypeError, AttributeError, RecursionError):
            self.counts.unreadable += 1
            return None
        self._last_tools = (value, read)
        return read


def _session(attributes: Mapping[str, Any], shape: _Shape) -> tuple[int, str] | None:
    for rank, key in shape.sessions:
        found = attributes[key]
        if key == "metadata":
            inside = opened(found)
            members = inside.items() if isinstance(inside, dict) else ()
            found = next((value for name, value in members if name.lower() in _THREADS), None)
        if found and isinstance(found, str | int):
            return rank, str(found)
    return None


def _message(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that an event is; a choice has it inside."""
    inside = opened(attributes.get("message"))
    found = {**attributes, **inside} if isinstance(inside, dict) else attributes
    role = "assistant" if name == _CHOICE else name.split(".")[1]
    message = {"role": role} | {member: found[member] for member in _OF_MESSAGE if found.get(member) is not None}
    if isinstance(inside, str):
        message["content"] = inside
    message["content"] = opened(message.get("content"), marks=("[",))
    return {**message, "tool_calls": opened(message["tool_calls"])} if "tool_calls" in message else message


def _kind(attributes: Mapping[str, Any], shape: _Shape) -> Kind:
    for name, kinds in shape.kinds:
        value = attributes[name]
        if kind := kinds.get(value.lower() if isinstance(value, str) else "*") or kinds.get("*"):
            return kind
    return "other"


def _telling(names: Iterable[str], table: Mapping[str, tuple[int, Field]]) -> list[tuple[int, Field, str, str]]:
    found = []
    for key in names:
        name = key if key in table or ".0." not in key else key[: key.index(".0.")] + ".N"
        if name in table:
            found.append((*table[name], key, name))
    return sorted(found)


def _table(dialects: Sequence[Dialect], kind: Kind) -> dict[str, tuple[int, Field]]:
    """Return the names that say something of spans of a kind, with their ranks and fields."""
    table: dict[str, tuple[int, Field]] = {}
    for dialect in dialects:
        for names in (dialect.of_kind.get(kind, {}), dialect.fields):
            for field, keys in names.items():
                for key in keys:
                    table.setdefault(key, (len(table), field))
    return table


def _names_thread(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and key[len(prefix) :].lower() in _THREADS


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and not _WRAPPERS.isdisjoint(value)


def _are_parts(content: Any) -> bool:
    """Return whether a content is a list of a message's parts, which OpenLLMetry writes as a text."""
    return isinstance(content, list) and all(isinstance(each, dict) and "type" in each for each in content)


def _annotations(found: Mapping[str, Any]) -> list[Annotated]:
    said = []
    for values in found.values():
        for each in values if isinstance(values, list) else ():
            if not isinstance(each, dict) or not each.get("name"):
                continue
            score, label = each.get("score"), each.get("label")
            value = score if isinstance(score, bool | int | float) else label
            if isinstance(value, bool | int | float | str):
                human = str(each.get("annotator_kind")).upper() == "HUMAN"
                person, note = str(each.get("identifier") or ""), str(each.get("explanation") or "")
                said.append(Annotated(str(each["name"]), value, person, human, note))
    return said
