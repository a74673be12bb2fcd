"""Sessions of coding agents as conversations: the lines that Claude Code and Codex keep of what was said and done.

A session is one file, those of its sub-agents may be others. What a sub-agent said and did are steps. Lines that the
user did not write (reminders, outputs of commands, the summary of a history that grew too long) are no messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import DatasetError
from leadline.plugins.traces.assemble import steps_of
from leadline.plugins.traces.content import amount, count, first, inside, moment, opened, text
from leadline.plugins.traces.span import TraceCounts, TraceSpan, Usage
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.messages import messages_of
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile
from leadline.tasks.load.values import ValueFault

LOOKED_AT: Final = 1 << 16
"""Bytes at the beginning of a file that tell what it is."""
_MARK: Final = re.compile(
    rb'(?<!\\)"(?:parentUuid|leafUuid|parent_tool_use_id|isSidechain|toolUseResult|gitBranch)"\s*:'
    rb'|(?<!\\)"(?:record_)?type"\s*:\s*"(?:session_meta|response_item|thread\.started|state)"'
)
_NOT_SAID: Final = (
    "<system-reminder>",
    "<local-command-",
    "<bash-std",
    "[Request interrupted by user",
    "<environment_context>",
    "<user_instructions>",
    "<recommended_plugins>",
    "<turn_aborted",
    "# AGENTS.md instructions",
)
"""Beginnings of texts that stand under the user's role, and that the agent's program wrote there."""
_ELEMENT: Final = re.compile(r"<([\w-]++)[^>]*+>.*</\1>\s*", re.DOTALL)
_SENT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MOST_LINES: Final = 500_000
"""Lines of one session that are put together."""


def is_of_session(head: bytes) -> bool:
    """Return whether a file that begins so is a session of a coding agent."""
    return head.lstrip()[:1] in (b"{", b"[") and _MARK.search(head[:LOOKED_AT]) is not None


def sessions(files: Sequence[Path], counts: TraceCounts) -> Iterator[Conversation]:
    """Yield the conversations in files of coding agents; what cannot be read of one is counted."""
    whose: dict[str, list[Path]] = {}
    for file in files:
        named = next(filter(None, map(_session_id, _records(file, TraceCounts()))), str(file))
        whose.setdefault(named, []).append(file)
    for its in whose.values():
        known: dict[str, _Session] = {}
        homes: dict[str, _Session] = {}
        for file in its:
            _take_file(_records(file, counts), known, homes, counts)
        for session in known.values():
            if (found := session.conversation(counts)) is not None:
                counts.conversations += 1
                yield found


def _take_file(
    records: Iterator[dict[str, Any]], known: dict[str, _Session], homes: dict[str, _Session], counts: TraceCounts
) -> None:
    """Give each line to its session.

    Args:
        homes: The session of each line that has an id.
    """
    session = known.setdefault("", _Session(""))
    begun = False
    for record in records:
        if record.get("type") == "session_meta":
            if begun:  # of the session that this one goes on with
                continue
            begun = True
        # Claude Code goes on under a new id behind the lines of a session that is resumed.
        if (above := homes.get(text(record.get("parentUuid")))) is not None:
            session = above
        elif id_ := _session_id(record):
            session = known.setdefault(id_, _Session(id_))
        if uuid := text(record.get("uuid")):
            if uuid in homes:
                counts.repeated += 1
                continue
            homes[uuid] = session
        session.take(record)


def _session_id(record: Mapping[str, Any]) -> str:
    """Return the session that a line names; that of a sub-agent of Codex is its parent's."""
    payload = inside(record, "payload") if record.get("type") == "session_meta" else {}
    told = first(record, "sessionId", "session_id", "thread_id") or first(payload, "id", "session_id")
    return _codex_parent(payload) or text(told or (record.get("id") if "instructions" in record else None))


def _codex_parent(payload: Mapping[str, Any]) -> str:
    return text(inside(payload, "source", "subagent", "thread_spawn").get("parent_thread_id"))


def _records(file: Path, counts: TraceCounts) -> Iterator[dict[str, Any]]:
    try:
        source, faults = SourceFile.at(file), Faults(file.name)
        for item in read_items(source, layout_of(source), faults):
            if isinstance(item.value, dict):
                yield item.value
            else:
                counts.fault("a line is no object")
        if faults:
            faults.refuse()
    except DatasetError as error:
        for fault in error.faults:
            counts.fault(fault.message)


@dataclass(slots=True)
class _Session:
    """One session, as far as its lines were read.

    Attributes:
        key: Its id.
        items: Messages of the user, the agent and its tools, by the ids of their lines or messages.
        turn: The turn that is being held, from 1.
        turns: The turn of each message and of each call, by its id.
        spans: Calls of models and tools.
        callers: The call that started a sub-agent, by the agent's id, and by what it was asked.
        chains: The sub-agent of a line, where only the line before it tells.
        prompts: The turn of a prompt, by the line that it follows.
        agent: The sub-agent that writes, where all lines of a file are one's.
    """

    key: str
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    turn: int = 0
    turns: dict[str, int] = field(default_factory=dict)
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    spans: dict[str, TraceSpan] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)
    chains: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, int] = field(default_factory=dict)
    agent: str = ""
    role: str = ""
    model: str = ""
    error: str | None = None
    cost_usd: float | None = None
    rewritten: bool = False
    lines: int = 0

    def take(self, record: Mapping[str, Any]) -> None:
        """Take a line."""
        self.lines += 1
        if self.lines > _MOST_LINES:
            return
        if "payload" in record or _OF_CODEX.match(text(record.get("type"))):
            self._take_codex(record, moment(record.get("timestamp")))
        elif record.get("type") == "result":
            self.cost_usd = amount(record.get("total_cost_usd"))
        elif record.get("isCompactSummary") or record.get("subtype") == "compact_boundary":
            self.rewritten = True
        elif not record.get("isMeta"):
            self._take_claude(record, inside(record, "message"), moment(record.get("timestamp")))

    def conversation(self, counts: TraceCounts) -> Conversation | None:
        """Return what was said, ``None`` where nothing was."""
        counts.too_large += self.lines > _MOST_LINES
        items = [item for item in self.items.values() if _is_readable(item, counts)]
        if not items:
            counts.empty += bool(self.key)
            return None
        callers = {agent: agent if agent in self.spans else self.callers.get(agent, "") for agent in self._agents()}
        spans = [replace(span, parent=callers.get(span.parent, "")) for span in self.spans.values()]
        turns = self.turns | {span.id: self.turns[span.parent] for span in spans if span.parent in self.turns}
        used = [span.usage for span in spans]
        sent = [usage.input_tokens for usage in used if usage.input_tokens is not None]
        received = [usage.output_tokens for usage in used if usage.output_tokens is not None]
        counts.spans += len(spans)
        times = [end - start for start, end in self.times.values() if start]
        return Conversation(
            messages_of(items),
            key=self.key,
            model=self.model,
            steps=steps_of(spans, turns, counts),
            error=self.error,
            duration_s=sum(times) / 1e9 if times else None,
            cost_usd=self.cost_usd,
            input_tokens=sum(sent) if sent else None,
            output_tokens=sum(received) if received else None,
            metadata={"history_rewritten": True} if self.rewritten else {},
        )

    def _agents(self) -> set[str]:
        return {span.parent for span in self.spans.values() if span.parent}

    def _say(self, id_: str, item: Mapping[str, Any], role: str, at: int) -> None:
        """Add a message, or further parts of one."""
        if id_ in self.items:
            self.items[id_]["content"] = [*_blocks(self.items[id_]), *_blocks(item)]
        else:
            self.items[id_] = dict(item)
        if role != "system":
            self.turn += not self.turn or (role == "user" != self.role)
            self.role, self.error = role, None
            start, end = self.times.get(self.turn, (at, at))
            self.times[self.turn] = (start or at, max(end, at))
        self.turns.setdefault(id_, self.turn)

    def _forget(self, turn: int) -> None:
        """Forget a turn that the user took back, and those behind it."""
        self.items = {id_: item for id_, item in self.items.items() if self.turns[id_] < turn}
        self.spans = {id_: span for id_, span in self.spans.items() if self.turns[id_] < turn}
        self.times = {number: time for number, time in self.times.items() if number < turn}
        self.turn, self.role = min(self.turn, turn - 1), ""

    def _step(self, span: TraceSpan) -> None:
        """Add a call of a model or a tool; of one that is there, what its later line says counts."""
        known = self.spans.get(span.id, span)
        self.spans[span.id] = replace(span, start_ns=known.start_ns, end_ns=max(known.end_ns, span.end_ns, 1))
        self.turns.setdefault(span.id, max(self.turn, 1))

    def _called(self, id_: str, name: str, at: int, agent: str) -> None:
        self._step(TraceSpan(self.key, id_, agent, "tool", name, start_ns=at, end_ns=at))

    def _returned(self, id_: str, at: int, error: str | None = None) -> None:
        if (known := self.spans.get(id_)) is not None:
            self._step(replace(known, end_ns=max(at, known.start_ns), error=error))

    def _take_claude(self, record: Mapping[str, Any], message: Mapping[str, Any], at: int) -> None:
        """Take a line of Claude Code, as it keeps them or writes them with ``--output-format stream-json``."""
        uuid, above = text(record.get("uuid")) or str(self.lines), text(record.get("parentUuid"))
        agent = text(record.get("parent_tool_use_id") or (record.get("isSidechain") and record.get("agentId")))
        if record.get("isSidechain"):
            self.chains[uuid] = agent = agent or self.chains.get(above) or uuid
        if message.get("role") == "assistant":
            self._take_answer(record, message, uuid, agent, at)
            return
        blocks = list(_said(_blocks(message)))
        results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
        for block in results:
            id_ = text(block.get("tool_use_id"))
            self._returned(id_, at, text(block.get("content")) if block.get("is_error") is True else None)
            if started := text(inside(record, "toolUseResult").get("agentId")):
                self.callers[started] = id_
        if message.get("role") != "user" or not blocks:
            return
        if agent:  # what a sub-agent is asked is what it was called with
            asked = text(inside(blocks[0]).get("text"))
            self.callers.setdefault(agent, agent if agent in self.spans else self.callers.get(asked, ""))
            return
        role = "user" if len(blocks) > len(results) else "tool"
        if role == "user" and above in self.prompts:
            self._forget(self.prompts[above])
        self._say(uuid, {"role": "user", "content": blocks}, role, at)
        if role == "user" and above:
            self.prompts[above] = self.turn

    def _take_answer(
        self, record: Mapping[str, Any], message: Mapping[str, Any], uuid: str, agent: str, at: int
    ) -> None:
        blocks = _blocks(message)
        if record.get("isApiErrorMessage"):
            self.error = "\n".join(text(inside(block).get("text")) for block in blocks) or "the request failed"
            return
        # Each block of an answer may be a line of its own.
        id_, model, used = text(message.get("id")) or uuid, text(message.get("model")), inside(message, "usage")
        sent = [tokens for name in _SENT if (tokens := count(used.get(name))) is not None]
        usage = Usage(sum(sent) if sent else None, count(used.get("output_tokens")))
        self._step(TraceSpan(self.key, id_, agent, "llm", model, start_ns=at, end_ns=at, model=model, usage=usage))
        for block in map(inside, blocks):
            if text(block.get("type")).endswith("tool_use") and (call := text(block.get("id"))):
                self._called(call, text(block.get("name")), at, agent)
                if asked := text(inside(block, "input").get("prompt")):
                    self.callers[asked] = call
        if not agent:
            self.model = model or self.model
            self._say(id_, {"role": "assistant", "content": blocks}, "assistant", at)

    def _take_codex(self, record: Mapping[str, Any], at: int) -> None:
        """Take a line of Codex, as it keeps them or writes them with ``exec --json``."""
        kind, payload = text(record.get("type")), inside(record, "payload")
        if kind == "session_meta":
            self.agent = text(payload.get("id")) if _codex_parent(payload) else ""
        elif kind == "turn_context":
            self.model = text(payload.get("model")) or self.model
        elif kind == "compacted":
            self.rewritten = True
        elif kind == "event_msg":
            self._take_event(payload, at)
        elif kind == "turn.completed":
            self._take_usage(inside(record, "usage"), at)
        elif kind == "turn.failed":
            self.error = text(inside(record, "error").get("message")) or "the request failed"
        elif kind == "item.completed":
            for item in _as_responses(inside(record, "item")):
                self._take_item(item, at)
        elif kind == "response_item" or "payload" not in record:
            self._take_item(payload or record, at)

    def _take_event(self, event: Mapping[str, Any], at: int) -> None:
        kind = event.get("type")
        if kind == "token_count":
            self._take_usage(inside(event, "info", "last_token_usage"), at)
        elif kind == "thread_rolled_back":
            self._forget(self.turn + 1 - (count(event.get("num_turns")) or 0))
        elif kind in ("error", "stream_error"):
            self.error = text(event.get("message")) or "the request failed"

    def _take_usage(self, used: Mapping[str, Any], at: int) -> None:
        if used:
            usage = Usage(count(used.get("input_tokens")), count(used.get("output_tokens")))
            id_, model = f"model {self.lines}", self.model
            self._step(TraceSpan(self.key, id_, self.agent, "llm", model, at, at, model=model, usage=usage))

    def _take_item(self, item: Mapping[str, Any], at: int) -> None:
        kind, call = text(item.get("type")), text(item.get("call_id"))
        role = {"developer": "system"}.get(text(item.get("role")), text(item.get("role")) or "assistant")
        blocks = list(_said(_blocks(item)))
        if kind == "message" and not blocks:
            return
        if kind.endswith("_call") and call:
            name = text(item.get("name")) or kind.removesuffix("_call")
            self._called(call, name, at, self.agent)
        elif kind.endswith("_output"):
            output = opened(item.get("output"))
            code = inside({"": output}, "", "metadata").get("exit_code")
            if code is not None:
                item = {**item, "output": text(output.get("output")), "is_error": code != 0}
            self._returned(call, at, text(item.get("output")) if item.get("is_error") else None)
            role = "tool"
        if not self.agent:
            told = {**item, "content": blocks} if kind == "message" else item
            self._say(str(self.lines) if role != "tool" else f"result {self.lines}", told, role, at)


_OF_CODEX: Final = re.compile(r"message$|reasoning$|item\.|turn\.|\w+_call(_output)?$")
"""Types of lines of Codex without a payload: items as its first versions wrote them, and events."""


def _as_responses(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what an item of ``exec --json`` is among those of OpenAI's Responses: a text, or a call with its result."""
    kind, said = text(item.get("type")), item.get("text")
    if kind in ("agent_message", "reasoning"):
        message = {"type": "message", "role": "assistant", "content": said}
        yield message if kind == "agent_message" else {"type": "reasoning", "content": said}
        return
    given = item.get("arguments") or {name: item[name] for name in ("command", "query", "changes") if name in item}
    call = {"call_id": item.get("id"), "name": text(item.get("tool")) or kind}
    yield {"type": "function_call", **call, "arguments": given}
    output = first(item, "aggregated_output", "result", "error")
    failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
    if output is not None:
        yield {"type": "function_call_output", **call, "output": output, "is_error": failed}


def _blocks(item: Mapping[str, Any]) -> list[Any]:
    content = item.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": text(content)}] if content else []


def _said(blocks: list[Any]) -> Iterator[Any]:
    """Yield the parts of a message without what a program put there, or in front, in the user's name."""
    for block in blocks:
        told = whole = text(inside(block).get("text")).lstrip()
        while told.startswith(_NOT_SAID):
            element = _ELEMENT.match(told)
            told = told[element.end() :] if element else ""
        if told or not whole:
            yield block if told == whole else {**block, "text": told}


def _is_readable(item: Mapping[str, Any], counts: TraceCounts) -> bool:
    try:
        return bool(messages_of([item]))
    except ValueFault as error:
        counts.fault(str(error))
        return False
