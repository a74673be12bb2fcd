"""The base class of formats some of whose records are conversations, and what such records have in common."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

from leadline.evaluators.data import Message, Messages, turns_of
from leadline.tasks.load.columns import Columns
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import ANSWER_COLUMNS, CASE_COLUMNS, DEFAULTS, PEOPLE, DatasetFormat, Values
from leadline.tasks.load.messages import expected_calls, given_chunks, messages_of, renumbered, tools_of
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import ValueFault, as_json, count, filled, text, texts, unpacked

_OF_ONE_ANSWER: Final = frozenset({"question", "relationships", "expected_annotations", "predicted_annotations"})
"""Fields that a conversation does not have; in the record of one they are metadata."""

_LISTS: Final = (list, dict)


def read_messages(value: Any) -> Messages:
    """Read the messages of a conversation, also from JSON text; another text is a question."""
    value = unpacked(value)
    return messages_of([{"role": "user", "content": value}] if isinstance(value, str) else value)


def replied(value: Any) -> list[Message]:
    """Return what a model replied after the last message of the user: any object but messages is an answer as JSON."""
    if isinstance(value, dict | list):
        try:
            found = messages_of(value)
        except ValueFault:
            return [{"role": "assistant", "content": text(as_json(value))}]
        asked = [place for place, message in enumerate(found, start=1) if message["role"] == "user"]
        return found[max(asked, default=0) :]
    return [{"role": "assistant", "content": text(value)}]


CONVERSATION_COLUMNS: Final[Columns] = {
    **{name: target for name, target in {**CASE_COLUMNS, **ANSWER_COLUMNS}.items() if name not in _OF_ONE_ANSWER},
    "messages": ("messages", read_messages),
    "given_messages": ("given", count),
    "tools": ("tools", lambda value: tools_of(unpacked(value))),
    "expected_tool_calls": ("expected_calls", lambda value: expected_calls(unpacked(value))),
    "expected_outcome": ("outcome", filled),
    "scenario": ("scenario", unpacked),
    "user_description": ("user_description", filled),
    "chatbot_role": ("chatbot_role", filled),
    "topics": ("topics", texts),
}
"""Leadline's columns of a conversation."""

_SCENARIO: Final = ("user_description", "chatbot_role", "topics")
_OTHERS: Final = {name: target for name, target in DEFAULTS.items() if name not in {*_OF_ONE_ANSWER, "actual_answer"}}


def is_conversation(messages: Messages) -> bool:
    """Return whether messages are more than one question and its answer, which formats read as a row."""
    said = [message for message in messages if message["role"] != "system"]
    return (
        len(turns_of(said)) != 1
        or said[0]["role"] != "user"
        or any(message["role"] == "tool" or "tool_calls" in message for message in said)
    )


def last_turn(messages: Messages) -> int:
    """Return the position of the first message of the last turn, 0 where there is none."""
    turns = turns_of(messages)
    return turns[-1].first if turns else 0


def conversation_of(values: Values, others: Mapping[str, Any], *, is_case: bool = False) -> Conversation:
    """Return the conversation that the fields of a record describe.

    Messages that end with the user are given where the reply to them stands apart, as messages or as a text.

    Args:
        others: The record's other columns.
        is_case: Whether a model is yet to reply.
    """
    get = values.get
    messages, given, answer = list(values.get("messages", ())), get("given", 0), get("answer")
    reply: list[Message] = get("reply") or ([] if answer is None else [{"role": "assistant", "content": answer}])
    if messages and messages[-1]["role"] == "user" and (reply or is_case):
        given = last_turn(messages)
        if reply and "context" in values:
            reply = [*reply[:-1], {**reply[-1], "retrieved_context": given_chunks(values["context"])}]
        messages = renumbered([*messages, *reply])
    facts = dict(others) | get("row_metadata", {})
    answered = any(message["role"] == "assistant" for message in messages[given:])  # the facts are the answer's then
    told = get("scenario")
    scenario = dict(told) if isinstance(told, Mapping) else {} if told is None else {"scenario": told}
    return Conversation(
        messages=messages,
        key=get("case") or "",
        given=given,
        model=get("model") or "",
        tools=get("tools"),
        error=get("error"),
        duration_s=get("duration_s"),
        cost_usd=get("cost_usd"),
        input_tokens=get("input_tokens"),
        output_tokens=get("output_tokens"),
        expected_answers=get("expected", ()),
        expected_documents=get("documents", ()),
        condition=get("condition"),
        expected_tool_calls=get("expected_calls"),
        expected_outcome=get("outcome"),
        scenario=(scenario | {name: values[name] for name in _SCENARIO if name in values}) or None,
        categories=get("categories", ()),
        case_metadata=get("case_metadata", {}) | (facts if is_case and not answered else {}),
        metadata={} if is_case else facts,
        labels=get(PEOPLE, ()),
    )


class ConversationFormat(DatasetFormat):
    """Reads records that may be conversations; any other record is read as it would be without them.

    Class attributes:
        conversation_columns: The columns of a record that is a conversation.
        messages_column: That of them which has the messages.
        marks: Columns that only a conversation has.
    """

    conversation_columns: ClassVar[Columns] = CONVERSATION_COLUMNS
    messages_column: ClassVar[str] = "messages"
    marks: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conversations = self.table(self.conversation_columns, _OTHERS)

    @classmethod
    def may_hold_conversations(cls, names: Set[str]) -> bool:
        """Return whether records with these fields may be conversations."""
        return cls.messages_column in names or bool(cls.marks & names)

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the types of the values that make a record a conversation."""
        if name in self.marks:
            return (object,)
        return _LISTS if name == self.messages_column else super().opens(name)

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record: a conversation, or one case with one answer."""
        if self.has_conversation(record):
            self.stage_record(item.place, record)
        else:
            super().convert_record(item, record)

    def has_conversation(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has more than a question and its answer."""
        if any(record.get(name) not in (None, "") for name in self.marks):
            return True
        try:
            value = record.get(self.messages_column)
            value = unpacked(value) if self._cells else value
            read = self.conversation_columns[self.messages_column][1]
            return isinstance(value, _LISTS) and is_conversation(read(value))
        except ValueFault:
            return False  # the reading of a single answer tells what is wrong with it

    def stage_record(self, place: Place, record: dict[str, Any]) -> None:
        """Stage a record that is a conversation."""
        values, others = self.read_answer(place, record, self.conversations)
        if record.get(self.messages_column) is not None and "messages" not in values:
            return  # a fault, which is noted
        try:
            self.refine_conversation(values, others)
        except ValueFault as error:
            self.faults.add(place, self.messages_column, str(error))
            return
        if "model_name" in values or "model_version" in values:
            self._describe_model(place, values)
        self.stage_conversation(place, conversation_of(values, others, is_case=self.cases_only))

    def refine_conversation(self, values: Values, others: dict[str, Any]) -> None:
        """Derive fields of a conversation from others, where a format needs it; changes both in place."""
