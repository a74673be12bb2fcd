"""Raw spans into :class:`~leadline.plugins.traces.span.TraceSpan`, by the tables of the dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from leadline.evaluators.data import GivenChunk, Message, Role, Tool
from leadline.plugins.traces.content import added, amount, arguments_of, count, failure_of, result_of, said
from leadline.plugins.traces.counts import TraceCounts
from leadline.plugins.traces.dialects import DIALECTS
from leadline.plugins.traces.dialects.table import Dialect, Field
from leadline.plugins.traces.otlp import RawSpan
from leadline.plugins.traces.span import ELSEWHERE, IDS_ONLY, NOT_CAPTURED, Annotated, Kind, TraceSpan, Usage
from leadline.tasks.load.messages import messages_with_ids, tools_of
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
_SOURCES: Final = ("doc_uri", "uri", "url", "source", "id")
_UNKNOWN: Final = -1
_MOST_NAMES: Final = 10_000
"""Names of attributes of which is kept what they mean for the conversation."""
_COMPACTED: Final = '"compaction"'


class Translator:
    """Translates spans.

    Args:
        dialects: Tables in the order in which they are asked: the first that knows a name wins.
    """

    def __init__(self, dialects: Sequence[Dialect] = DIALECTS, counts: TraceCounts | None = None) -> None:
        self.counts = counts or TraceCounts()
        self._last_prompt: tuple[str, list[Message]] = ("", [])
        self._last_instructions: tuple[Any, list[Message] | None] = (None, None)
        self._last_tools: tuple[Any, list[Tool]] = (None, [])
        self._kinds = [each for dialect in dialects for each in dialect.kinds.items()]
        self._sessions = [name for dialect in dialects for name in dialect.sessions]
        self._session_ranks: dict[str, int | None] = {}
        self._merged = frozenset().union(*(dialect.merged for dialect in dialects))
        self._collected = {name: how for dialect in reversed(dialects) for name, how in dialect.collected.items()}
        self._joined = {name: parts for dialect in dialects for name, parts in dialect.joined.items()}
        self._renamed = {name: new for dialect in dialects for name, new in dialect.renamed.items()}
        self._tables = {
            kind: _table(dialects, kind) for kind in ("llm", "tool", "retriever", "agent", "chain", "other")
        }

    def session(self, attributes: Mapping[str, Any]) -> tuple[int, str] | None:
        """Return the conversation that a span names, with the rank of the attribute that names it, lower is better."""
        best: tuple[int, str] | None = None
        for key, found in attributes.items():
            if (rank := self._session_ranks.get(key, _UNKNOWN)) == _UNKNOWN:
                rank = self._session_ranks[key] = self._session_rank(key)
            if rank is not None and (best is None or rank < best[0]):
                if key == "metadata":
                    inside = _parsed(found)
                    members = inside.items() if isinstance(inside, dict) else ()
                    found = next((value for name, value in members if name.lower() in _THREADS), None)
                if found and isinstance(found, str | int):
                    best = (rank, str(found))
        return best

    def _session_rank(self, key: str) -> int | None:
        if len(self._session_ranks) > _MOST_NAMES:
            self._session_ranks.clear()
        for rank, name in enumerate(self._sessions):
            if key == name or (name[-1] == "*" and _names_thread(key, name[:-1])):
                return rank
        return None

    def span(self, raw: RawSpan, events: Iterable[tuple[str, dict[str, Any]]] = ()) -> TraceSpan:
        """Return a span.

        Args:
            events: Log records that belong to it.
        """
        attributes = (
            self._complete(raw, events) if events or raw.events or "events" in raw.attributes else raw.attributes
        )
        for name, parts in self._joined.items():
            if not attributes.keys().isdisjoint(parts.values()):
                members = {member: attributes.get(part) for member, part in parts.items()}
                calls = _parsed(members.get("tool_calls"))
                attributes = {**attributes, name: [{**members, "role": "assistant", "tool_calls": calls}]}
        kind = self._kind(attributes)
        found = self._found(attributes, self._tables[kind])
        get = found.get
        error = raw.error
        if error is not None or "error" in found:
            told = (each.get("exception.message") for name, each in raw.events if name == "exception")
            error = failure_of(next((str(text) for text in told if text), None) or error or str(get("error") or ""))
        inputs = outputs = None
        if kind == "llm":
            inputs, outputs = self._prompt(get("inputs")), self._messages(get("outputs"), "assistant")
            if "system" in found:
                inputs = [*self._instructions(found["system"]), *(inputs or ())]
        elif kind in ("agent", "chain"):
            inputs = self._messages(get("inputs"), "user", counted=False)
            outputs = added(inputs, self._messages(get("outputs"), "assistant", counted=False))
        result, failed, call_id = result_of(get("result")) if kind == "tool" else (None, None, "")
        documents, ids = _documents(get("documents")) if kind == "retriever" else ([], False)
        missing = IDS_ONLY if ids else ""
        if kind == "llm" and inputs is None and outputs is None:
            missing = ELSEWHERE if "elsewhere" in found else NOT_CAPTURED
        metadata = {**raw.resource, **get("metadata", {})}
        if kind == "llm" and any(_COMPACTED in str(get(name)) for name in ("inputs", "outputs")):
            metadata["history_rewritten"] = True
        session = self.session(raw.attributes)
        return TraceSpan(
            trace=raw.trace,
            id=raw.id,
            parent=raw.parent,
            kind=kind,
            name=str(get("name") or raw.name),
            start_ns=raw.start_ns,
            end_ns=raw.end_ns,
            error=failed if error is None else error,
            session=session[1] if session else "",
            model=str(get("model") or ""),
            inputs=inputs,
            outputs=outputs,
            call_id=str(get("call_id") or call_id),
            arguments=arguments_of(get("arguments")) if kind == "tool" else None,
            result=result,
            documents=documents,
            tools=self._tools(get("tools")),
            passes_control=get("transfer") == "pass_control",
            usage=Usage(count(get("input_tokens")), count(get("output_tokens")), amount(get("cost_usd"))),
            missing=missing,
            annotations=_annotations(get("annotations", {})),
            metadata=metadata,
        )

    def _kind(self, attributes: Mapping[str, Any]) -> Kind:
        for name, kinds in self._kinds:
            value = attributes.get(name)
            if isinstance(value, str) and (kind := kinds.get(value.lower()) or kinds.get("*")):
                return kind
        return "other"

    def _complete(self, raw: RawSpan, logged: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        """Return the attributes of a span with what its events say."""
        attributes = dict(raw.attributes)
        lists: dict[str, list[Any]] = {}
        inside = _parsed(attributes.get("events"))
        kept = [each for each in inside if isinstance(each, dict)] if isinstance(inside, list) else []
        own = [(str(each.get("event.name")), each) for each in kept]
        for name, told in (*own, *raw.events, *logged):
            if name in self._merged:
                attributes = {**told, **attributes}
            elif name in self._collected:
                into, read = self._collected[name]
                if name != "gen_ai.choice" or not told.get("index"):
                    lists.setdefault(into, []).append(read(name, told))
        return {**attributes, **lists}

    def _found(self, attributes: Mapping[str, Any], table: Mapping[str, tuple[int, Field]]) -> dict[Field, Any]:
        """Return what a span says, of each field the value of the first name; of metadata and annotations all."""
        best: dict[Field, tuple[int, str]] = {}
        found: dict[Field, Any] = {}
        for key, value in attributes.items():
            name = key
            if (entry := table.get(key)) is None and ".0." in key:
                entry = table.get(name := key[: key.index(".0.")] + ".N")
            if entry is None or value is None or value == "":
                continue
            rank, field = entry
            if field in ("metadata", "annotations"):
                found.setdefault(field, {})[name] = value
            elif field not in best or rank < best[field][0]:
                best[field] = (rank, name)
        for field, (_, name) in best.items():
            found[field] = self._numbered(attributes, name[:-1]) if name[-2:] == ".N" else attributes[name]
        if annotations := found.get("annotations"):
            found["annotations"] = {
                name: self._numbered(attributes, name[:-1]) if name[-2:] == ".N" else value
                for name, value in annotations.items()
            }
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
        if _are_parts(parts := _parsed(made.get("content"))):
            made["content"] = parts
        return next(iter(made.values())) if _is_wrapped(made) and isinstance(next(iter(made.values())), str) else made

    def _prompt(self, value: Any) -> list[Message] | None:
        """Return the messages of a prompt; what it repeats of the one before is not read again."""
        known, messages = self._last_prompt
        if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
            if value == known:
                return messages
            further = f"[{value[len(known) :]}" if known and value.startswith(f"{known[:-1]},") else ""
            if further and _stand_alone(more := _parsed(further)):
                read = [*messages[:-1], *_united([*messages[-1:], *(self._messages(more, "user") or ())])]
            else:
                read = self._messages(value, "user") or []
            self._last_prompt = (value, read)
            return read
        return self._messages(value, "user")

    def _instructions(self, value: Any) -> list[Message]:
        if value != self._last_instructions[0]:
            self._last_instructions = (value, self._messages([{"role": "system", "content": _parsed(value)}], "system"))
        return self._last_instructions[1] or []

    def _messages(self, value: Any, role: Role, *, counted: bool = True) -> list[Message] | None:
        """Return the messages in a value; what is none of the known forms is one text, and counted where asked."""
        if value is None:
            return None
        value = _parsed(value)
        if isinstance(value, list):  # OpenLLMetry's word for who said it where the provider's library does not
            value = [{**each, "role": role} if _has_no_role(each) else each for each in value]
        try:
            if isinstance(value, dict) and isinstance(prompt := value.get("prompt"), str | list):
                asked = prompt if isinstance(prompt, list) else [{"role": role, "content": prompt}]
                system = [{"role": "system", "content": value["system"]}] if value.get("system") else []
                return messages_with_ids([*system, *asked])
            if not isinstance(value, str):
                return _united(messages_with_ids(value))
        except (ValueFault, TypeError, AttributeError, KeyError, RecursionError):
            if (inside := said(value, role)) is not None:
                return _united(inside)
            self.counts.unreadable += counted
        return [{"role": role, "content": value if isinstance(value, str) else as_json(value)}]

    def _tools(self, value: Any) -> list[Tool] | None:
        if value is None or value == self._last_tools[0]:
            return None if value is None else self._last_tools[1]
        try:
            parsed = _parsed(value)
            read = tools_of(parsed.get("function_tools", parsed) if isinstance(parsed, dict) else parsed)
        except (ValueFault, TypeError, AttributeError, RecursionError):
            self.counts.unreadable += 1
            return None
        self._last_tools = (value, read)
        return read


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


def _parsed(value: Any) -> Any:
    """Return what a text contains as JSON list or object; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _stand_alone(items: Any) -> bool:
    """Return whether messages do not go on with what stands before them, as items of OpenAI's Responses may."""
    first = items[0] if isinstance(items, list) and items else None
    return isinstance(first, dict) and "role" in first and first.get("type") != "message"


def _are_parts(content: Any) -> bool:
    """Return whether a content is a list of a message's parts, which OpenLLMetry writes as a text."""
    return isinstance(content, list) and all(isinstance(each, dict) and "type" in each for each in content)


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


def _documents(value: Any) -> tuple[list[GivenChunk], bool]:
    """Return what was retrieved, and whether it has ids only."""
    value = _parsed(value)
    if isinstance(value, dict):
        value = next((value[name] for name in ("documents", "results") if isinstance(value.get(name), list)), [value])
    if not isinstance(value, list):
        return ([{"content": value}] if isinstance(value, str) and value else []), False
    chunks: list[GivenChunk] = []
    for each in value:
        each = {"content": each} if isinstance(each, str) else each
        if not isinstance(each, dict):
            continue
        text = next((each[name] for name in ("content", "page_content", "text") if isinstance(each.get(name), str)), "")
        further = _parsed(each.get("metadata"))
        further = further if isinstance(further, dict) else {}
        uri = next((str(its[name]) for name in _SOURCES for its in (each, further) if its.get(name)), "")
        if text:
            chunks.append({"content": text, "doc_uri": uri} if uri else {"content": text})
    return chunks, bool(value) and not chunks


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
