"""Samples of inspect's logs, as conversations."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.evaluators.data import calls_of, turns_of
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.formats.inspect_sample import inspect_sample
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile
from leadline.tasks.load.values import ValueFault

LOGS: Final = Path(__file__).parent / "inspect_logs"


def conversations(name: str) -> list[Conversation]:
    source, faults = SourceFile.at(LOGS / name), Faults(name)
    items = [item for item in read_items(source, layout_of(source), faults) if item.section == "samples"]
    assert not faults
    return [inspect_sample(item.value) for item in items]


@pytest.mark.parametrize(
    ("name", "messages", "turns", "calls", "failed", "expected"),
    [
        ("log_formats.eval", 3, 1, 0, 0, [" Yes"]),
        ("log_message_deduplication.eval", 12, 1, 5, 0, ["42.7"]),
        ("log_tool_call_error.json", 11, 1, 0, 11, ["..."]),
    ],
)
def test_samples_of_real_logs_are_conversations(
    name: str, messages: int, turns: int, calls: int, failed: int, expected: list[str]
) -> None:
    (found,) = conversations(name)
    assert len(found.messages) == messages
    assert len(turns_of(found.messages)) == turns
    made = calls_of(found.messages)
    assert len(made) == calls
    assert all(call.result is not None for call in made)
    assert sum("error" in message for message in found.messages) == failed
    assert (found.given, list(found.expected_answers)) == (0, expected)


def test_calls_results_and_what_was_spent_are_read() -> None:
    (found,) = conversations("log_message_deduplication.eval")
    first = calls_of(found.messages)[0]
    assert (first.name, first.arguments, (first.result or "")[:8]) == ("bash", {"cmd": "ls"}, "bin\nboot")
    assert (found.key, found.error) == ("0", None)
    (failed,) = conversations("log_tool_call_error.json")
    assert (failed.key, failed.messages[0].get("name"), failed.messages[0].get("error")) == ("1 epoch 4", "bash", "...")


def sample(**more: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "source": "input"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "When?", "source": "input"},
        {"role": "assistant", "content": "At seven.", "source": "generate"},
    ]
    return {"id": "a", "epoch": 1, "target": ["seven", "7"], "messages": messages} | more


def test_what_stood_in_the_input_was_not_said_by_the_model() -> None:
    found = inspect_sample(sample())
    assert found.given == 3
    assert inspect_sample(sample(messages=sample()["messages"][:2])).given == 0
    assert inspect_sample({"id": 1, "input": "When?"}).messages == [{"role": "user", "content": "When?"}]
    chat = inspect_sample({"input": sample()["messages"][:4], "output": {"choices": [{"message": {"content": "7"}}]}})
    assert (chat.given, chat.messages[-1], chat.key) == (3, {"role": "assistant", "content": "7"}, "")


def test_scores_context_usage_and_tools_are_kept() -> None:
    usage = {"input_tokens": 6, "output_tokens": 5}
    event = {"event": "model", "tools": [{"name": "clock", "description": "Tells the time."}]}
    found = inspect_sample(
        sample(
            metadata={"lang": "en", "retrieved_context": ["It starts at seven."]},
            scores={"match": {"value": "C"}},
            model_usage={"openai/m": usage},
            output={"model": "m"},
            events=[{"event": "step"}, event],
            working_time=2,
            total_time=9,
        )
    )
    assert turns_of(found.messages)[-1].retrieved_context == ({"content": "It starts at seven."},)
    assert (found.case_metadata, found.metadata) == ({"metadata.lang": "en"}, {"inspect.match": "C"})
    assert (found.input_tokens, found.output_tokens, found.duration_s, found.model) == (6, 5, 2, "m")
    assert found.tools == [{"name": "clock", "description": "Tells the time."}]
    graded = inspect_sample(sample(model_usage={"openai/m": usage, "openai/grader": usage}, output={"usage": usage}))
    assert (graded.input_tokens, graded.output_tokens) == (None, None)


def test_a_limit_is_an_error_only_where_nothing_was_answered() -> None:
    limit = {"type": "token", "limit": 10}
    asked = sample()["messages"][:4]
    assert inspect_sample(sample(messages=asked, limit=limit)).error == "the limit of token was reached"
    answered = inspect_sample(sample(limit=limit))
    assert (answered.error, answered.metadata) == (None, {"inspect.limit": "token"})
    assert inspect_sample(sample(error={"message": "time is up"}, limit=limit)).error == "time is up"


@pytest.mark.parametrize("messages", [[3], [{"role": "captain", "content": "x"}], [None], ["x"]])
def test_messages_that_are_none_are_refused_by_number(messages: list[Any]) -> None:
    with pytest.raises(ValueFault, match="message 1: "):
        inspect_sample(sample(messages=messages))


@pytest.mark.parametrize("absurd", [None, True, 7, "x", [], [None], {}, {"a": 1}])
def test_absurd_members_are_left_out_or_refused(absurd: Any) -> None:
    names = ("epoch", "input", "target", "metadata", "store", "output", "error", "limit", "scores", "model_usage")
    for name in (*names, "events", "working_time", "id"):
        with suppress(ValueFault):
            assert inspect_sample(sample(**{name: absurd})).messages


def test_what_a_sample_leaves_in_its_store_is_the_state_and_its_metadata_says_what_is_expected() -> None:
    told = {"expected_state": {"berth": 7}, "expected_facts": ["5.4 m"], "port": "Lisbon"}
    found = inspect_sample(sample(store={"berth": 7.0, "retrieved_context": ["A"]}, metadata=told))
    assert found.metadata["final_state"] == {"berth": 7.0}
    assert found.scenario == {"expected_state": {"berth": 7}, "expected_facts": ["5.4 m"]}
    assert found.case_metadata == {"metadata.port": "Lisbon"}
    assert "final_state" not in inspect_sample(sample(store=[7], metadata=7)).metadata
