"""A conversation from its spans: each message once, in the order in which it was said.

Every call of a model has most of what was said before in its prompt. Prompts are laid over what is known already,
message by message: what is new in one follows, the rest is history. Texts are never compared alone, so that a user who
says "yes" twice has said it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from operator import is_
from typing import Any, Final, TypeAlias

import orjson

from leadline.evaluators.data import GivenChunk, Json, Message, Tool, TraceStep, Turn, turns_of
from leadline.evaluators.ground import UsageError
from leadline.plugins.traces.span import ELSEWHERE, IDS_ONLY, NOT_CAPTURED, Annotated, TraceCounts, TraceSpan
from leadline.tasks.load.conversation import Conversation, total
from leadline.tasks.load.label import GivenLabel, read_value, value_range
from leadline.tasks.load.messages import renumbered

_Key: TypeAlias = tuple[str, str, bytes]

_PARALLEL: Final = 50
"""Calls of a tool among which the one with a span's arguments is looked for."""
_NOT_PLACED: Final = -2
_ON_PATH: Final = -1
_ALIGNED: Final = 100
"""Messages at the end of a rewritten history that are laid over the end of the known one."""


def assemble(spans: Sequence[TraceSpan], counts: TraceCounts) -> Conversation | None:
    """Return the conversation that spans are of, ``None`` where they say nothing.

    Args:
        spans: All spans of a conversation; those of traces whose root has not ended are counted and left out.
    """
    tree = _Tree(spans, counts)
    if not tree.nodes:
        return None
    transcript = _Transcript()
    asked = tree.main_calls()
    last = {node.span.trace: node for node in asked}
    for node in asked:
        transcript.take(node, node.span.outputs or ())
        if node is last[node.span.trace]:
            transcript.close(node.outermost().span)
    if not transcript.messages:
        asked = _outer_turns(tree, transcript)
    if not transcript.messages:
        counts.empty += 1
        return None
    counts.rewritten += transcript.rewritten
    _attach_results(tree, transcript, counts)
    turns = [turn for turn in turns_of(transcript.messages) if turn.first >= transcript.given]
    tree.find_turns(transcript, turns)
    _attach_documents(tree, transcript, turns)
    counts.conversations += 1
    return _conversation(tree, transcript, asked)


class _Node:
    """A span at its place in the tree.

    Attributes:
        parent: Its parent, if that was recorded.
        children: Those that it is the parent of, in the order in which they began.
        begun: When it began, as it says, but never before its parent.
        depth: How many stand above it.
        number: Its place among all.
        turn: The turn that it belongs to, 0 for none.
        within_tool: Whether a call of a tool that does not pass control on stands above it.
        within_llm: Whether a call of a model stands above it.
        transferred: Whether it, or what stands above it, was passed control.
    """

    __slots__ = (
        *("begun", "children", "depth", "number", "parent", "span"),
        *("transferred", "turn", "within_llm", "within_tool"),
    )

    def __init__(self, span: TraceSpan) -> None:
        self.span = span
        self.parent: _Node | None = None
        self.children: list[_Node] = []
        self.begun, self.depth, self.number, self.turn = 0, _NOT_PLACED, 0, 0
        self.within_tool = self.within_llm = self.transferred = False

    def outermost(self) -> _Node:
        """Return the outermost above it that says what was answered, else the root."""
        at, answered = self, None
        while at.parent is not None:
            at = at.parent
            answered = at if at.span.outputs else answered
        return answered or at


class _Tree:
    """Spans in the order in which they began, parents first, with what stands above each."""

    def __init__(self, spans: Sequence[TraceSpan], counts: TraceCounts) -> None:
        known: dict[tuple[str, str], _Node] = {}
        for span in spans:
            if (node := known.setdefault((span.trace, span.id), _Node(span))).span is not span:
                # An exporter sends a span again, or first as it begins and then as it has ended.
                counts.repeated += 1
                if span.end_ns and not node.span.end_ns:
                    node.span = span
        for (trace, _), node in known.items():
            if node.span.parent:
                node.parent = known.get((trace, node.span.parent))
                node.span = _with_prompt(node)
        for node in known.values():
            if node.depth == _NOT_PLACED:
                _place(node, counts)
        pending = {node.span.trace for node in known.values() if node.parent is None and not node.span.end_ns}
        counts.traces += len({trace for trace, _ in known})
        counts.pending += len(pending)
        placed = (node for node in known.values() if node.span.trace not in pending)
        self.nodes = sorted(placed, key=lambda node: (node.begun, node.depth))
        for number, node in enumerate(self.nodes):
            node.number = number
            if node.parent is not None:
                _look_above(node, node.parent)
            _count_missing(node.span, counts)

    def main_calls(self) -> list[_Node]:
        """Return the calls of the model that speaks to the user, each once.

        A call within a tool is one of a sub-agent, whose answer the tool returns, unless control is passed on. Of calls
        within each other, which two instrumentations record, the innermost that has a content counts.
        """
        calls = [node for node in self.nodes if node.span.kind == "llm" and not node.within_tool]
        return _innermost([node for node in calls if node.span.inputs is not None or node.span.outputs is not None])

    def tool_calls(self) -> list[tuple[_Node, TraceSpan]]:
        """Return the calls of tools, each once: the client of an MCP server records the call of its tool again.

        So does one whose tool asked for more before it went on; the result is that of the last.
        """
        found: dict[Any, tuple[_Node, TraceSpan]] = {}
        for node in self.nodes:
            span = node.span
            if span.kind == "tool" and not node.within_tool:
                place = (span.trace, span.call_id) if span.call_id else node
                own = _with_inner_result(node)
                first, known = found.setdefault(place, (node, own))
                if first is not node and known.result is None and known.error is None:
                    found[place] = first, replace(known, result=own.result, error=own.error)
        return list(found.values())

    def find_turns(self, transcript: _Transcript, turns: Sequence[Turn]) -> None:
        """Find the turn of each span: that of the call of the model that follows in its trace, or of the last one.

        Args:
            turns: Those that are recorded, without what was said before.
        """
        first_of = {at: number for number, turn in enumerate(turns, 1) for at in range(turn.first, turn.end)}
        for node, at in transcript.answers:
            node.turn = first_of.get(at, 0)
        for nodes in (self.nodes[::-1], self.nodes):
            latest: dict[str, int] = {}
            for node in nodes:
                node.turn = latest[node.span.trace] = node.turn or latest.get(node.span.trace, 0)


def _place(node: _Node, counts: TraceCounts) -> None:
    """Find depth and beginning of a span and of all above it; one whose parents lead back to it becomes a root."""
    path: list[_Node] = []
    at: _Node | None = node
    while at is not None and at.depth == _NOT_PLACED:
        at.depth = _ON_PATH
        path.append(at)
        at = at.parent
    if at is not None and at.depth == _ON_PATH:
        counts.circles += 1
        at.parent = None
        path.remove(at)
        path.append(at)
    for at in reversed(path):
        begun, above = (at.parent.begun, at.parent.depth) if at.parent is not None else (0, -1)
        own, ended = at.span.start_ns, at.span.end_ns
        counts.clocks += (own < begun) or (0 < ended < own)
        at.begun, at.depth = max(own, begun), above + 1


def _look_above(node: _Node, parent: _Node) -> None:
    """Note of a span what stands above it, which is known of its parent."""
    parent.children.append(node)
    passes = parent.span.passes_control or node.span.passes_control
    node.within_tool = parent.within_tool or (parent.span.kind == "tool" and not passes)
    node.within_llm = parent.within_llm or parent.span.kind == "llm"
    node.transferred = parent.transferred or passes


def _count_missing(span: TraceSpan, counts: TraceCounts) -> None:
    if span.missing:
        counts.not_captured += span.missing == NOT_CAPTURED
        counts.elsewhere += span.missing == ELSEWHERE
        counts.ids_only += span.missing == IDS_ONLY
    if span.kind == "llm" and span.inputs and span.outputs is None and span.error is None:
        counts.unanswered += span.inputs[-1]["role"] != "assistant"  # Logfire's has its answer there


def _innermost(nodes: Sequence[_Node]) -> list[_Node]:
    """Return those of some spans that have none of the others below them."""
    above: set[_Node] = set()
    for node in nodes:
        at = node.parent
        while at is not None and at not in above:
            above.add(at)
            at = at.parent
    return [node for node in nodes if node not in above]


def _with_inner_result(node: _Node) -> TraceSpan:
    """Return a call of a tool with the result and the error that only the same call below it has."""
    span = node.span
    for other in (child.span for child in node.children):
        if other.kind == "tool" and (other.name == span.name or "" != other.call_id == span.call_id):
            result = other.result if span.result is None else span.result
            return replace(span, result=result, error=other.error if span.error is None else span.error)
    return span


class _Transcript:
    """The messages of a conversation, as far as they are known.

    Attributes:
        system: Instructions of the first call that has some.
        messages: All others.
        answers: The calls of the model, each with the place of its first message.
        given: How many of the messages were said before the first call that is recorded.
        rewritten: Whether a prompt had another history than the one that is known.
    """

    def __init__(self) -> None:
        self.system: list[Message] = []
        self.messages: list[Message] = []
        self.answers: list[tuple[_Node, int]] = []
        self.given = 0
        self.rewritten = False
        self._keys: list[_Key] = []
        self._last: dict[str, tuple[_Node, Sequence[Message], list[_Key]]] = {}
        self._prompt: tuple[list[Message], list[_Key]] = ([], [])

    def take(self, node: _Node, said: Sequence[Message]) -> None:
        """Add what a call of the model says that is new.

        Args:
            node: The call. Where another agent has passed control on, what it says to this one is not the user's.
            said: What came out.
        """
        span = node.span
        given = span.inputs or ()
        prompt = [message for message in given if message["role"] != "system"]
        if not self.system and len(prompt) < len(given):
            self.system = [message for message in given if message["role"] == "system"]
        keys = self._keys_of(prompt)
        self.rewritten = self.rewritten or bool(span.metadata.get("history_rewritten"))
        new = len(prompt) if self._again(node, prompt, keys) else self._known(prompt, keys, node.transferred)
        if not self.answers:
            self.given = _said_before(prompt)
        told = [at for at in range(new, len(prompt)) if not self._is_retold(prompt[at])]
        self._add([prompt[at] for at in told], [keys[at] for at in told])
        self.answers.append((node, len(self.messages) if said else len(self.messages) - 1))
        self._add(said, list(map(_key, said)))
        self._last[span.trace] = (node, said, keys)

    def close(self, root: TraceSpan) -> None:
        """Add what the root of a trace answered, where the last call of the model in it is one of tools.

        The call that made an answer of their results is not recorded then, or there was none.
        """
        last = self.messages[-1] if self.messages else None
        if last is None or not (last["role"] == "tool" or last.get("tool_calls")):
            return
        said = list(root.outputs or ())[-1:]  # of LangGraph's state all before may be of earlier turns
        if said and said[0]["role"] == "assistant" and said[0]["content"] and not said[0].get("tool_calls"):
            self._add(said, list(map(_key, said)))

    def _keys_of(self, prompt: list[Message]) -> list[_Key]:
        """Return the keys of a prompt; most go on where the one before ended."""
        last, keys = self._prompt
        known = len(last) if len(prompt) >= len(last) and all(map(is_, last, prompt)) else 0
        keys = [*keys[:known], *map(_key, prompt[known:])]
        self._prompt = prompt, keys
        return keys

    def _add(self, messages: Sequence[Message], keys: list[_Key]) -> None:
        self.messages += messages
        self._keys += keys

    def _again(self, node: _Node, prompt: list[Message], keys: list[_Key]) -> bool:
        """Return whether a call asks what the last one did: because that failed, beside it, or as another agent."""
        if node.span.trace not in self._last:
            return False
        last, said, asked = self._last[node.span.trace]
        if asked != keys or not keys:
            return False
        has_history = any(message["role"] == "assistant" for message in prompt)
        return has_history or not said or last.span.end_ns > node.begun or last.span.parent != node.span.parent

    def _known(self, prompt: list[Message], keys: list[_Key], transferred: bool) -> int:
        """Return how many of the first messages of a prompt are known already."""
        known = self._keys
        if len(keys) >= len(known) and keys[: len(known)] == known:
            return len(known)
        if keys == known[: len(keys)] and self._is_open():
            return len(keys)
        if len(prompt) == 1 and prompt[0]["role"] == "user":
            return len(keys) if transferred else 0
        # The user's last message is new wherever the one before it is answered, however often its text was said.
        asked = len(keys)
        if not self._is_open():
            while asked and prompt[asked - 1]["role"] == "user":
                asked -= 1
        matcher = SequenceMatcher(None, known[-_ALIGNED:], keys[:asked][-_ALIGNED:], autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        if blocks:
            self.rewritten = True
            return max(0, asked - _ALIGNED) + blocks[-1].b + blocks[-1].size
        if transferred:
            return len(keys)
        told = 0 < asked < len(keys)
        self.rewritten = self.rewritten or told
        return asked if told else 0

    def _is_retold(self, message: Message) -> bool:
        """Return whether a message repeats some of the calls that the model has just made together.

        Some frameworks put each result behind its own call, so that the calls stand apart.
        """
        made = self.messages[-1].get("tool_calls", ()) if self.messages else ()
        calls = message.get("tool_calls", ())
        if message["content"] or not 0 < len(calls) < len(made):
            return False
        known = [(call["name"], call["arguments"]) for call in made]
        return all((call["name"], call["arguments"]) in known for call in calls)

    def _is_open(self) -> bool:
        """Return whether the last message waits for the model: one of the user, or a tool's."""
        last = self.messages[-1] if self.messages else None
        return last is None or last["role"] in ("user", "tool") or bool(last.get("tool_calls"))


def _said_before(prompt: Sequence[Message]) -> int:
    """Return how many messages of a first prompt stand before its last turn, where the model has said some of them."""
    turn = turns_of(prompt)[-1].first if prompt else 0
    return turn if any(message["role"] == "assistant" for message in prompt[:turn]) else 0


def _with_prompt(node: _Node) -> TraceSpan:
    """Return the span, if it is a call that failed and has no prompt, with that of the agent that failed by it."""
    span, above = node.span, node.parent.span if node.parent is not None else None
    failed = span.kind == "llm" and span.missing == NOT_CAPTURED and span.error is not None
    if failed and above is not None and above.error is not None and above.inputs:
        return replace(span, inputs=above.inputs, missing="")
    return span


def _outer_turns(tree: _Tree, transcript: _Transcript) -> list[_Node]:
    """Take the outermost spans that have a question or an answer where no call of a model has; return them."""
    turn_of: dict[_Node, _Node] = {}
    for node in tree.nodes:
        found = turn_of.get(node.parent) if node.parent is not None else None
        span = node.span
        if found is None and span.kind in ("agent", "chain") and (span.inputs is not None or span.outputs is not None):
            found = node
        if found is not None:
            turn_of[node] = found
    made: dict[_Node, list[Message]] = {node: [] for node in turn_of.values()}
    for node, call in tree.tool_calls():
        if node.parent is not None and node.parent in turn_of:
            made[turn_of[node.parent]] += _as_messages(call)
    for node, messages in made.items():
        transcript.take(node, [*messages, *(node.span.outputs or ())])
    return list(made)


def _as_messages(call: TraceSpan) -> list[Message]:
    """Return a call of a tool as the messages that a model would have exchanged with it."""
    id_ = call.call_id or call.id
    asked: Message = {"role": "assistant", "content": ""}
    asked["tool_calls"] = [{"id": id_, "name": call.name, "arguments": call.arguments or {}}]
    if call.result is None:
        return [asked]
    return [asked, {"role": "tool", "content": call.result, "name": call.name, "tool_call_id": id_}]


def _attach_results(tree: _Tree, transcript: _Transcript, counts: TraceCounts) -> None:
    """Give each call of a tool the result and error that its span has, by id, else by name and order."""
    ids = [call["id"] for message in transcript.messages for call in message.get("tool_calls", ())]
    messages = transcript.messages = renumbered(transcript.messages)
    calls = [(place, call) for place, message in enumerate(messages) for call in message.get("tool_calls", ())]
    answers = {message["tool_call_id"]: message for message in messages if "tool_call_id" in message}
    open_ = set(range(len(calls)))
    called: dict[tuple[str, str], list[int]] = {}
    for number in reversed(range(len(calls))):
        called.setdefault(("id", ids[number]), []).append(number)
        called.setdefault(("name", calls[number][1]["name"]), []).append(number)

    def first(how: str, what: str, arguments: Mapping[str, Json] | None) -> int | None:
        """Return the first call that no span has been found for, rather one with the same arguments."""
        numbers = called.get((how, what), [])
        while numbers and numbers[-1] not in open_:
            numbers.pop()
        alike = (n for n in reversed(numbers[-_PARALLEL:]) if n in open_ and calls[n][1]["arguments"] == arguments)
        return next(alike, numbers[-1] if numbers else None)

    late: list[tuple[int, Message]] = []
    for _, span in tree.tool_calls():
        chosen = first("id", span.call_id, span.arguments) if span.call_id else None
        chosen = first("name", span.name, span.arguments) if chosen is None else chosen
        if chosen is None:
            counts.unmatched += 1
            continue
        open_.remove(chosen)
        place, call = calls[chosen]
        if (answer := answers.get(call["id"])) is None:
            if span.result is None and span.error is None:
                continue
            answer = {"role": "tool", "content": span.result or "", "name": call["name"], "tool_call_id": call["id"]}
            late.append((place, answer))
        if span.error is not None:
            answer.setdefault("error", span.error)
    for place, answer in sorted(late, key=lambda each: -each[0]):
        end = place + 1
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        messages.insert(end, answer)
        transcript.answers = [(node, at + (at >= end)) for node, at in transcript.answers]


def _attach_documents(tree: _Tree, transcript: _Transcript, turns: Sequence[Turn]) -> None:
    """Give what was retrieved in a turn to its answer: the last message of the assistant that has a text, or any."""
    for node in tree.nodes:
        if not node.span.documents or not node.turn or node.within_llm:
            continue
        turn = transcript.messages[turns[node.turn - 1].first : turns[node.turn - 1].end]
        said = [message for message in turn if message["role"] == "assistant"]
        if said := [message for message in said if message["content"]] or said:
            context: list[GivenChunk] = [*said[-1].get("retrieved_context", ()), *node.span.documents]
            said[-1]["retrieved_context"] = context


def _conversation(tree: _Tree, transcript: _Transcript, asked: list[_Node]) -> Conversation:
    usages = [node.span.usage for node in _innermost([node for node in tree.nodes if node.span.kind == "llm"]) or asked]
    spans = [node.span for node in tree.nodes]
    last = asked[-1].span
    labels, metadata = _opinions(spans)
    for span in reversed(spans):
        metadata |= span.metadata
    metadata.pop("history_rewritten", None)
    if transcript.rewritten:
        metadata["history_rewritten"] = True
    offered = [node.span.tools for node in asked if node.span.tools is not None]
    tools: dict[str, Tool] = {tool["name"]: tool for each in offered for tool in each}
    answered = any(message["role"] == "assistant" for message in last.outputs or ())
    return Conversation(
        messages=[*transcript.system, *transcript.messages],
        given=len(transcript.system) + transcript.given if transcript.given else 0,
        key=next((span.session for span in spans if span.session), ""),
        model=next((node.span.model for node in reversed(asked) if node.span.model), ""),
        tools=list(tools.values()) if offered else None,
        steps=_steps(tree),
        error=None if answered or last.error is None else last.error or "the model's host returned an error",
        duration_s=_duration(tree.nodes),
        cost_usd=total(usage.cost_usd for usage in usages),
        input_tokens=total(usage.input_tokens for usage in usages),
        output_tokens=total(usage.output_tokens for usage in usages),
        metadata=metadata,
        labels=labels,
    )


def steps_of(spans: Sequence[TraceSpan], turns: Mapping[str, int], counts: TraceCounts) -> list[TraceStep]:
    """Return spans as steps, where their turns are known by their ids."""
    tree = _Tree(spans, counts)
    for node in tree.nodes:
        node.turn = turns.get(node.span.id, 0)
    return _steps(tree)


def _steps(tree: _Tree) -> list[TraceStep]:
    return [_step(node, tree.nodes[0].begun) for node in tree.nodes]


def _step(node: _Node, first: int) -> TraceStep:
    span = node.span
    step: TraceStep = {"step": node.number, "kind": span.kind, "name": span.name}
    if node.parent is not None:
        step["parent"] = node.parent.number
    if node.turn:
        step["turn"] = node.turn
    if span.error is not None:
        step["error"] = span.error
    if node.begun:
        step["start_ms"] = (node.begun - first) / 1e6
    if span.end_ns >= node.begun > 0:
        step["duration_ms"] = (span.end_ns - node.begun) / 1e6
    if span.model:
        step["model"] = span.model
    for name in ("input_tokens", "output_tokens", "cost_usd"):
        if (value := getattr(span.usage, name)) is not None:
            step[name] = value
    return step


def _duration(nodes: Sequence[_Node]) -> float | None:
    """Return the seconds that all traces took together."""
    times: dict[str, tuple[int, int]] = {}
    for node in nodes:
        if (end := node.span.end_ns) >= node.begun > 0:
            first, latest = times.get(node.span.trace, (node.begun, end))
            times[node.span.trace] = (min(first, node.begun), max(latest, end))
    return sum(end - first for first, end in times.values()) / 1e9 if times else None


def _opinions(spans: Iterable[TraceSpan]) -> tuple[list[GivenLabel], dict[str, Json]]:
    """Return the labels that people gave, and all other opinions as metadata."""
    labels: dict[tuple[str, str], GivenLabel] = {}
    others: list[Json] = []
    for said in (each for span in spans for each in span.annotations):
        value = _labelled(said)
        if said.human and value is not None:
            person = said.person or "unnamed"
            labels.setdefault((said.name, person), GivenLabel(said.name, value, person, said.note))
        else:
            other: dict[str, Json] = {"name": said.name, "value": said.value, "note": said.note, "person": said.person}
            others.append({name: each for name, each in other.items() if each != ""})
    return list(labels.values()), {"annotations": others} if others else {}


def _labelled(said: Annotated) -> float | None:
    """Return the value of a person's label; ``None`` where it is no number or outside of the metric's range."""
    try:
        value = read_value(said.value, said.name)
    except UsageError:
        return None
    low, high = value_range(said.name)
    return value if value is not None and low <= value <= high else None


def _key(message: Message) -> _Key:
    """Return what tells a message from others: not its ids, thoughts and names, nor blanks around its text."""
    calls = [(call["name"], call["arguments"]) for call in message.get("tool_calls", ())]
    packed = orjson.dumps(calls, option=orjson.OPT_SORT_KEYS) if calls else b""
    return message["role"], message["content"].strip(), packed
