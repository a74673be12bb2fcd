"""What real instrumentations record of one conversation is one conversation (instrumentors/README.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leadline.evaluators.data import Message, calls_of, turns_of
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.tasks.load.conversation import Conversation

RECORDED = Path(__file__).parent / "instrumentors"
TOOLS = ["get_tide", "book_berth", "search_manual"]
BOOKED = {"harbour": "Lisbon", "length_m": 120}
LOST = {
    "agents_chat_openllmetry_0.62.4": "6 calls of models have no answer recorded",
    "langchain_openllmetry_0.62.4": "1 conversation has no message",  # the span of making the agent
}
"""What is told of a file, beside how much it has."""
TODAY = {
    "langchain_openinference": ("langchain", "openinference"),
    "langchain_openllmetry_0.62.4": ("langchain", "openllmetry"),
    "agents_openinference": ("agents", "openinference", "responses"),
    "agents_openllmetry": ("agents", "openllmetry", "responses"),
    "agents_chat_openllmetry_0.62.4": ("agents", "openllmetry"),
    "agents_logfire_5.4.0": ("agents", "logfire", "responses"),
    "pydantic_ai_openinference": ("pydantic_ai", "openinference"),
    "pydantic_ai_logfire": ("pydantic_ai", "logfire"),
    "pydantic_ai_6": ("pydantic_ai", "v6"),
}
"""Recordings that the environment of bridges makes, with what the recorder is told."""


def read(path: Path) -> tuple[Conversation, str]:
    """Return the one conversation of a file, and what is told of it."""
    counts = TraceCounts()
    [found] = conversations([path], counts=counts)
    return found, " ".join(list(counts.sentences())[1:])


def recorded(name: str) -> Conversation:
    return read(RECORDED / f"{name}.json.gz")[0]


def told(conversation: Conversation) -> list[Message]:
    """Return the messages without instructions and in which words a tool failed: not all record these."""
    messages = [message for message in conversation.messages if message["role"] != "system"]
    return [{**each, "error": "yes"} if "error" in each else each for each in messages]


def names(framework: str = "") -> list[str]:
    return sorted(path.name.removesuffix(".json.gz") for path in RECORDED.glob(f"{framework}*.gz"))


@pytest.mark.parametrize("name", names())
def test_a_recorded_conversation_has_its_turns_calls_contexts_and_failure(name: str) -> None:
    check(RECORDED / f"{name}.json.gz", name)


@pytest.mark.bridges
@pytest.mark.timeout(300)  # frameworks take long to be imported
@pytest.mark.parametrize("name", TODAY)
def test_what_is_recorded_today_has_them_too(name: str, tmp_path: Path) -> None:
    pytest.importorskip("logfire", reason="make test-bridges has the tools")
    recording = (sys.executable, Path(__file__).with_name("record_traces.py"), tmp_path / name, *TODAY[name])
    subprocess.run(recording, check=True, capture_output=True, timeout=240)
    check(tmp_path / f"{name}.json", name)
    assert read(tmp_path / f"{name}.json") == read(tmp_path / f"{name}.pb")


def check(path: Path, name: str) -> None:
    """Check what a recording has.

    Args:
        name: Tells what the instrumentation loses.
    """
    found, said = read(path)
    turns, calls = turns_of(found.messages), calls_of(found.messages)
    assert (found.key, found.model, found.given) == ("lisbon", "scripted", 0)
    assert [turn.question for turn in turns] == ["How high is the tide at Lisbon and at Porto?", "yes", "yes"]
    assert [call.name for call in calls] == ["get_tide", "get_tide", "book_berth", "search_manual"]
    assert [call.result for call in calls[:2]] == ["5.4 m", "3.9 m"]
    assert calls[0].message == calls[1].message
    assert [bool(call.error) for call in calls] == [False, False, True, False]
    assert calls[2].arguments == BOOKED
    has_contexts = name.startswith("langchain") and name != "langchain_openllmetry_0.49.6"
    assert [len(turn.retrieved_context) for turn in turns] == [0, 0, 2 if has_contexts else 0]
    assert turns[2].answer == (
        None if "chat" in name else "Ships of more than 50 m moor at the roads, east of the mole."
    )
    assert (said or "nothing").startswith(LOST.get(name, "nothing"))
    has_tools = name not in ("agents_chat_openllmetry_0.62.4", "agents_logfire_5.4.0")
    assert [tool["name"] for tool in found.tools or ()] == (TOOLS if has_tools else [])
    assert (found.input_tokens, found.output_tokens) == ((None, None) if "chat" in name else (2100, 210))


@pytest.mark.parametrize(
    ("framework", "less"),
    [
        ("langchain", ["langchain_openllmetry_0.49.6"]),
        ("agents", ["agents_chat_openllmetry_0.62.4"]),
        ("pydantic_ai", ["pydantic_ai_1_1.25.1"]),  # this version of the agent tells the model more of a refusal
    ],
)
def test_all_instrumentations_of_a_framework_make_equal_conversations(framework: str, less: list[str]) -> None:
    found = [recorded(name) for name in names(framework) if name not in less]
    assert len(found) > 3 or framework == "langchain"
    assert all(told(each) == told(found[0]) for each in found)
    assert len({str(each.tools) for each in found if each.tools}) == 1


def test_one_instrumentation_makes_equal_conversations_to_the_last_word() -> None:
    for framework in ("langchain_openinference", "pydantic_ai_"):
        found = [recorded(name) for name in names(framework) if name != "pydantic_ai_1_1.25.1"]
        assert all(each.messages == found[0].messages for each in found)
