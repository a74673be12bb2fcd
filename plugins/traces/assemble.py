"""A conversation from its spans: each message once, in the order in which it was said.

Every call of a model has most of what was said before in its prompt. Prompts are laid over what is known already,
message by message: what is new in one follows, the rest is history. Texts are never compared alone, so that a user who
says "yes" twice has said it twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Final

import orjson

from leadline.evaluators.data import GivenChunk, Json, Message, Tool, TraceStep, turns_of
from leadline.evaluators.ground import UsageError
from leadline.plugins.traces.counts import TraceCounts
from leadline.plugins.traces.span import ELSEWHERE, IDS_ONLY, NOT_CAPTURED, Annotated, TraceSpan
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.label import GivenLabel, read_value, value_range
from leadline.tasks.load.messages import renumbered

_PARALLEL: Final = 50
"""Calls of a tool among which the one with a span's arguments is looked for."""
_ALIGNED: Final = 100
"""Messages at the end of a rewritten history that are laid over the end of the known one."""


def assemble(spans: Sequence[TraceSpan], counts: TraceCounts) -> Conversation | None:
    """Return the conversation that spans are of, ``None`` where they say nothing.

    Args:
        spans: All spans of a conversation; those of traces whose root has not ended are counted and left out.
    """
    tree = _Tree(spans, counts)
    if not tree.spans:
        return None
    transcript = _Transcript()
    asked = tree.main_calls()
    last = {span.trace: span for span in asked}
    for span in asked:
        transcript.take(span, transferred=id(span) in tree.transferred)
        if span is last[span.trace]:
            transcript.close(tree.outermost(span))
    if not transcript.messages:
        asked = _outer_turns(tree, transcript)
    if not transcript.messages:
        counts.empty += 1
        return None
    counts.rewritten += transcript.rewritten
    _attach_results(tree, transcript, counts)
    tree.find_turns(transcript)
    _attach_documents(tree, transcript)
    counts.conversations += 1
    return _conversation(tree, transcript, asked)


class _Tree:
    """Spans in the order in which they began, parents first, with what stands above each."""

    def __init__(self, spans: Sequence[TraceSpan], counts: TraceCounts) -> None:
        known: dict[tuple[str, str], TraceSpan] = {}
        for span in spans:
            place = (span.trace, span.id)
            if (first := known.get(place)) is None:
                known[place] = span
            else:  # an exporter sends a span again, or first as it begins and then as it has ended
                counts.repeated += 1
                known[place] = span if span.end_ns and not first.end_ns else first
        self._parents: dict[tuple[str, str], tuple[str, str]] = {
            place: parent
            for place, span in known.items()
            if span.parent and (parent := (span.trace, span.parent)) in known
        }
        self._open_circles(counts)
        pending = {place[0] for place, span in known.items() if place not in self._parents and not span.end_ns}
        counts.traces += len({span.trace for span in spans})
        counts.pending += len(pending)
        starts: dict[tuple[str, str], tuple[int, int]] = {}
        for place in self._from_the_roots(known):
            begun, depth = starts.get(self._parents.get(place, ("", "")), (0, -1))
            own = known[place].start_ns
            ended = known[place].end_ns
            counts.clocks += (own < begun) or (0 < ended < own)
            starts[place] = (max(own, begun), depth + 1)
        order = {place: number for number, place in enumerate(known)}
        self.spans = [
            _begun(known[place], starts[place][0])
            for place in sorted(known, key=lambda place: (*starts[place], order[place]))
            if place[0] not in pending
        ]
        self._by_place = {(span.trace, span.id): span for span in self.spans}
        self.within_tool: set[int] = set()
        self.within_llm: set[int] = set()
        self.transferred: set[int] = set()
        self.turns: list[int] = []
        self._look_above_and_below()
        for span in self.spans:
            counts.not_captured += span.missing == NOT_CAPTURED
            counts.elsewhere += span.missing == ELSEWHERE
            if span.kind == "llm" and span.inputs and span.outputs is None and span.error is None:
                counts.unanswered += span.inputs[-1]["role"] != "assistant"  # Logfire's has its answer there
            counts.ids_only += span.missing == IDS_ONLY

    def _open_circles(self, counts: TraceCounts) -> None:
        """Make a root of each span whose parents lead back to it."""
        safe: set[tuple[str, str]] = set()
        for place in list(self._parents):
            path: dict[tuple[str, str], None] = {}
            at: tuple[str, str] | None = place
            while at is not None and at not in safe and at not in path:
                path[at] = None
                at = self._parents.get(at)
            if at is not None and at in path:
                counts.circles += 1
                del self._parents[at]
            safe.update(path)

    def _from_the_roots(self, known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return all places, each after its parent."""
        out: dict[tuple[str, str], None] = {}
        for place in known:
            path = []
            at: tuple[str, str] | None = place
            while at is not None and at not in out:
                path.append(at)
                at = self._parents.get(at)
            out.update(dict.fromkeys(reversed(path)))
        return list(out)

    def parent(self, span: TraceSpan) -> TraceSpan | None:
        """Return the parent of a span, if it was recorded."""
        return self._by_place.get(self._parents.get((span.trace, span.id), ("", "")))

    def outermost(self, span: TraceSpan) -> TraceSpan:
        """Return the root that a span stands below."""
        while (parent := self.parent(span)) is not None:
            span = parent
        return span

    def _look_above_and_below(self) -> None:
        """Note of each span what stands above and below it: a parent always comes before its children."""
        self.below: dict[int, list[TraceSpan]] = {}
        for span in self.spans:
            if (parent := self.parent(span)) is None:
                continue
            self.below.setdefault(id(parent), []).append(span)
            passes = parent.passes_control or span.passes_control
            for within, begins in (
                (self.within_tool, parent.kind == "tool" and not passes),
                (self.within_llm, parent.kind == "llm"),
                (self.transferred, passes),
            ):
                if begins or id(parent) in within:
                    within.add(id(span))

    def innermost(self, calls: Sequence[TraceSpan]) -> list[TraceSpan]:
        """Return those of some spans that have none of the others below them."""
        chosen, above = {id(span) for span in calls}, set()
        for span in reversed(self.spans):
            if (id(span) in chosen or id(span) in above) and (parent := self.parent(span)) is not None:
                above.add(id(parent))
        return [span for span in calls if id(span) not in above]

    def main_calls(self) -> list[TraceSpan]:
        """Return the calls of the model that speaks to the user, each once.

        A call within a tool is one of a sub-agent, whose answer the tool returns, unless control is passed on. Of calls
        within each other, which two instrumentations record, the innermost that has a content counts.
        """
        calls = [span for span in self.spans if span.kind == "llm" and id(span) not in self.within_tool]
        return self.innermost([span for span in calls if span.inputs is not None or span.outputs is not None])

    def tool_calls(self) -> list[TraceSpan]:
        """Return the calls of tools, each once: the client of an MCP server records the call of its tool again.

        So does one whose tool asked for more before it went on; the result is that of the last.
        """
        found: dict[Any, TraceSpan] = {}
        for span in self.spans:
            if span.kind == "tool" and id(span) not in self.within_tool:
                place = (span.trace, span.call_id) if span.call_id else id(span)
                first, own = found.get(place), self._with_inner_result(span)
                if first is None:
                    found[place] = own
                elif first.result is None and first.error is None:
                    found[place] = replace(first, result=own.result, error=own.error)
        return list(found.values())

    def _with_inner_result(self, span: TraceSpan) -> TraceSpan:
        """Return a call of a tool with the result and the error that only the same call below it has."""
        for other in self.below.get(id(span), ()):
            if other.kind == "tool" and (other.name == span.name or "" != other.call_id == span.call_id):
                result = other.result if span.result is None else span.result
                return replace(span, result=result, error=other.error if span.error is None else span.error)
        return span

    def find_turns(self, transcript: _Transcript) -> None:
        """Find the turn of each span: that of the call of the model that follows in its trace, or of the last one."""
        first_of = {at: number for number, turn in enumerate(transcript.turns(), 1) for at in range(*turn)}
        own = {id(span): first_of.get(at, 0) for span, at in transcript.answers}
        self.turns = [0] * len(self.spans)
        ahead: dict[str, int] = {}
        for number in range(len(self.spans) - 1, -1, -1):
            span = self.spans[number]
            ahead[span.trace] = own.get(id(span)) or ahead.get(span.trace, 0)
            self.turns[number] = ahead[span.trace]
        behind: dict[str, int] = {}
        for number, span in enumerate(self.spans):
            self.turns[number] = self.turns[number] or behind.get(span.trace, 0)
            behind[span.trace] = self.turns[number]


def _begun(span: TraceSpan, start_ns: int) -> TraceSpan:
    return span if span.start_ns == start_ns else replace(span, start_ns=start_ns)


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
        self.answers: list[tuple[TraceSpan, int]] = []
        self.given = 0
        self.rewritten = False
        self._keys: list[bytes] = []
        self._known_keys: dict[int, tuple[Message, bytes]] = {}
        self._last: dict[str, tuple[TraceSpan, list[bytes]]] = {}

    def turns(self) -> list[tuple[int, int]]:
        """Return first and end of the messages of each turn."""
        return [(turn.first, turn.end) for turn in turns_of(self.messages)]

    def take(self, span: TraceSpan, *, transferred: bool = False) -> None:
        """Add what a call of the model says that is new.

        Args:
            transferred: Whether another agent has passed control on: what it says to this one is not the user's.
        """
        prompt = [message for message in span.inputs or () if message["role"] != "system"]
        self.system = self.system or [message for message in span.inputs or () if message["role"] == "system"]
        keys = [self._key(message) for message in prompt]
        self.rewritten = self.rewritten or bool(span.metadata.get("history_rewritten"))
        new = len(prompt) if self._again(span, prompt, keys) else self._known(prompt, keys, transferred=transferred)
        if not self.answers:
            self.given = _said_before(prompt)
        self._add(prompt[new:], keys[new:])
        said = list(span.outputs or ())
        self.answers.append((span, len(self.messages) if said else len(self.messages) - 1))
        self._add(said, [self._key(message) for message in said])
        self._last[span.trace] = (span, keys)

    def close(self, root: TraceSpan) -> None:
        """Add what the root of a trace answered, where the last call of the model in it is one of tools.

        The call that made an answer of their results is not recorded then, or there was none.
        """
        last = self.messages[-1] if self.messages else None
        if last is None or not (last["role"] == "tool" or last.get("tool_calls")):
            return
        said = [message for message in root.outputs or () if message["role"] == "assistant" and message["content"]]
        self._add(said[-1:], [self._key(message) for message in said[-1:]])

    def _key(self, message: Message) -> bytes:
        """Return the key of a message; prompts share those that they repeat, so that most are known."""
        if (found := self._known_keys.get(id(message))) is None:
            found = self._known_keys[id(message)] = (message, _key(message))
        return found[1]

    def _add(self, messages: list[Message], keys: list[bytes]) -> None:
        self.messages += messages
        self._keys += keys

    def _again(self, span: TraceSpan, prompt: list[Message], keys: list[bytes]) -> bool:
        """Return whether a call asks what the last one did: because that failed, beside it, or as another agent."""
        last, asked = self._last.get(span.trace, (None, None))
        if last is None or asked != keys or not keys:
            return False
        has_history = any(message["role"] == "assistant" for message in prompt)
        return has_history or not last.outputs or last.end_ns > span.start_ns or last.parent != span.parent

    def _known(self, prompt: list[Message], keys: list[bytes], *, transferred: bool) -> int:
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

    def _is_open(self) -> bool:
        """Return whether the last message waits for the model: one of the user, or a tool's."""
        last = self.messages[-1] if self.messages else None
        return last is None or last["role"] in ("user", "tool") or bool(last.get("tool_calls"))


def _said_before(prompt: Sequence[Message]) -> int:
    """Return how many messages of a first prompt stand before its last turn, where the model has said some of them."""
    turn = turns_of(prompt)[-1].first if prompt else 0
    return turn if any(message["role"] == "assistant" for message in prompt[:turn]) else 0


def _outer_turns(tree: _Tree, transcript: _Transcript) -> list[TraceSpan]:
    """Take the outermost spans that have a question or an answer where no call of a model has; return them."""
    turn_of: dict[int, TraceSpan] = {}
    for span in tree.spans:
        above = tree.parent(span)
        found = turn_of.get(id(above)) if above is not None else None
        if found is None and span.kind in ("agent", "chain") and (span.inputs is not None or span.outputs is not None):
            found = span
        if found is not None:
            turn_of[id(span)] = found
    calls: dict[int, list[TraceSpan]] = {}
    for call in tree.tool_calls():
        if (parent := tree.parent(call)) is not None and id(parent) in turn_of:
            calls.setdefault(id(turn_of[id(parent)]), []).append(call)
    taken = list({id(span): span for span in turn_of.values()}.values())
    for span in taken:
        made = [message for call in calls.get(id(span), ()) for message in _as_messages(call)]
        transcript.take(replace(span, outputs=[*made, *(span.outputs or ())]))
        transcript.answers[-1] = (span, transcript.answers[-1][1])
    return taken


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
    for span in tree.tool_calls():
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
        transcript.answers = [(span, at + (at >= end)) for span, at in transcript.answers]


def _attach_documents(tree: _Tree, transcript: _Transcript) -> None:
    """Give what was retrieved in a turn to its answer: the last message of the assistant that has a text, or any."""
    turns = transcript.turns()
    for span, number in zip(tree.spans, tree.turns, strict=True):
        if not span.documents or not number or id(span) in tree.within_llm:
            continue
        said = [at for at in range(*turns[number - 1]) if transcript.messages[at]["role"] == "assistant"]
        if said := [at for at in said if transcript.messages[at]["content"]] or said:
            message = transcript.messages[said[-1]]
            context: list[GivenChunk] = [*message.get("retrieved_context", ()), *span.documents]
            message["retrieved_context"] = context


def _conversation(tree: _Tree, transcript: _Transcript, asked: list[TraceSpan]) -> Conversation:
    leaves = tree.innermost([span for span in tree.spans if span.kind == "llm"]) or asked
    last = asked[-1]
    labels, metadata = _opinions(tree.spans)
    for span in reversed(tree.spans):
        metadata = {**metadata, **{name: value for name, value in span.metadata.items() if name != "history_rewritten"}}
    if transcript.rewritten:
        metadata["history_rewritten"] = True
    tools: dict[str, Tool] = {tool["name"]: tool for span in asked for tool in span.tools or ()}
    answered = any(message["role"] == "assistant" for message in last.outputs or ())
    return Conversation(
        messages=renumbered([*transcript.system, *transcript.messages]),
        given=len(transcript.system) + transcript.given if transcript.given else 0,
        key=next((span.session for span in tree.spans if span.session), ""),
        model=next((span.model for span in reversed(asked) if span.model), ""),
        tools=list(tools.values()) if any(span.tools is not None for span in asked) else None,
        steps=_steps(tree),
        error=None if answered or last.error is None else last.error or "the model's host returned an error",
        duration_s=_duration(tree.spans),
        cost_usd=_sum(span.usage.cost_usd for span in leaves),
        input_tokens=_sum(span.usage.input_tokens for span in leaves),
        output_tokens=_sum(span.usage.output_tokens for span in leaves),
        metadata=metadata,
        labels=labels,
    )


def steps_of(spans: Sequence[TraceSpan], turns: Mapping[str, int], counts: TraceCounts) -> list[TraceStep]:
    """Return spans as steps, where their turns are known by their ids."""
    tree = _Tree(spans, counts)
    tree.turns = [turns.get(span.id, 0) for span in tree.spans]
    return _steps(tree) if tree.spans else []


def _steps(tree: _Tree) -> list[TraceStep]:
    numbers = {id(span): number for number, span in enumerate(tree.spans)}
    begun = tree.spans[0].start_ns
    steps: list[TraceStep] = []
    for number, span in enumerate(tree.spans):
        step: TraceStep = {"step": number, "kind": span.kind, "name": span.name}
        if (parent := tree.parent(span)) is not None:
            step["parent"] = numbers[id(parent)]
        if turn := tree.turns[number]:
            step["turn"] = turn
        if span.error is not None:
            step["error"] = span.error
        if span.start_ns:
            step["start_ms"] = (span.start_ns - begun) / 1e6
        if span.end_ns >= span.start_ns > 0:
            step["duration_ms"] = (span.end_ns - span.start_ns) / 1e6
        if span.model:
            step["model"] = span.model
        for name in ("input_tokens", "output_tokens", "cost_usd"):
            if (value := getattr(span.usage, name)) is not None:
                step[name] = value
        steps.append(step)
    return steps


def _duration(spans: Sequence[TraceSpan]) -> float | None:
    """Return the seconds that all traces took together."""
    times: dict[str, tuple[int, int]] = {}
    for span in spans:
        if span.end_ns >= span.start_ns > 0:
            first, end = times.get(span.trace, (span.start_ns, span.end_ns))
            times[span.trace] = (min(first, span.start_ns), max(end, span.end_ns))
    return sum(end - first for first, end in times.values()) / 1e9 if times else None


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


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


def _key(message: Message) -> bytes:
    """Return what tells a message from others: not its ids, thoughts and names, nor blanks around its text."""
    calls = [(call["name"], call["arguments"]) for call in message.get("tool_calls", ())]
    text = orjson.dumps([message["role"], message["content"].strip(), calls], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()
