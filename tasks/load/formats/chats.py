"""Formats of conversations: OpenAI's chats, ShareGPT's, and the conversational test cases of deepeval."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

from leadline.evaluators.data import Messages
from leadline.tasks.load.columns import Columns, field_of
from leadline.tasks.load.formats.base import IDENTITY_COLUMNS, Values
from leadline.tasks.load.formats.conversations import CONVERSATION_COLUMNS, ConversationFormat
from leadline.tasks.load.formats.records import Other
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of
from leadline.tasks.load.values import anything, expected, filled, key, listed, mapping, texts, unpacked

_NAMES: Final = ("conversations", "conversation")
_CHATS: Final = frozenset({"messages", *_NAMES})
_CLEAR: Final = frozenset({"question", "actual_answer"})


@register
class Chat(ConversationFormat, Other):
    """Reads chats, a list of messages a record as OpenAI's fine-tuning has them, also those of ShareGPT."""

    name = "chat"
    title = "Chats"
    recognised_by = "a list `messages`, `conversations` or `conversation`"
    columns: ClassVar[Columns] = {**Other.columns, "messages": ("chat", anything)}
    marks = frozenset({"tools", "functions", "expected_tool_calls", "expected_outcome"})
    conversation_columns: ClassVar[Columns] = {
        **CONVERSATION_COLUMNS,
        **dict.fromkeys(_NAMES, CONVERSATION_COLUMNS["messages"]),
        "system": ("system", anything),
        "functions": CONVERSATION_COLUMNS["tools"],
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that records are chats: those that name a question or an answer are none."""
        clear = {match.field for match in map(field_of, names) if match and match.clear}
        return 0.2 if names & _CHATS and not clear & _CLEAR and not sections else 0

    def has_conversation(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has more than a question and its answer."""
        return any(isinstance(record.get(name), list) for name in _NAMES) or super().has_conversation(record)

    def refine_conversation(self, values: Values, others: dict[str, Any]) -> None:
        """Put instructions that stand beside the messages, as Anthropic's and some of ShareGPT's do, in front."""
        system, messages = values.pop("system", None), values.get("messages", [])
        if not isinstance(system, str) or any(message["role"] == "system" for message in messages):
            others |= {} if system is None else {"system": system}
        elif system:
            values["messages"] = [{"role": "system", "content": system}, *messages]
            values["given"] = values["given"] + 1 if values.get("given") else 0


def deepeval_turns(value: Any) -> Messages:
    """Read turns of deepeval's, each a message with the tools that were called for it and what they returned."""
    items: list[Any] = []
    for number, turn in enumerate(listed(unpacked(value)), start=1):
        if not isinstance(turn, Mapping):
            raise expected(f"an object as turn {number}", turn)
        calls = [mapping(call) for call in listed(turn.get("tools_called") or [])]
        if calls:
            items.append({"role": "assistant", "tool_calls": calls})
            items += [
                {"role": "tool", "name": call.get("name"), "content": call["output"]}
                for call in calls
                if call.get("output") is not None
            ]
        items.append(turn)
    return messages_of(items)


@register
class DeepevalConversations(ConversationFormat):
    """Reads deepeval's conversational test cases and goldens, in which ``turns`` may be JSON text."""

    name = "deepeval-conversations"
    title = "deepeval's conversations"
    recognised_by = "`turns`; `scenario` beside `expected_outcome`"
    answer_column = "turns"
    columns: ClassVar[Columns] = {}
    messages_column = "turns"
    conversation_columns: ClassVar[Columns] = {
        **{name: CONVERSATION_COLUMNS[name] for name in ("expected_outcome", "user_description", "chatbot_role")},
        **IDENTITY_COLUMNS,
        "name": ("case", key),
        "turns": ("messages", deepeval_turns),
        "scenario": ("scenario", filled),
        "expected_tools": CONVERSATION_COLUMNS["expected_tool_calls"],
        "tags": ("categories", texts),
    }
    keeps = frozenset({"context"})

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are conversations of deepeval's."""
        return 0.4 if "turns" in names or {"scenario", "expected_outcome"} <= names else 0

    def has_conversation(self, record: Mapping[str, Any]) -> bool:
        """Return that every record is a conversation, of a golden for a simulated user one that is yet to be held."""
        return True
