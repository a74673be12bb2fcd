"""Conversations of other tools, and Leadline's own: the messages of each, what is given, and what is expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.data import calls_of, turns_of
from leadline.tasks.load.conversation import Conversation
from tests.support.datasets.conversations import conversations_of
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, faults, load, rows, tables

SAMPLES = Path(__file__).parent / "conversations"


def sample(name: str) -> list[dict[str, Any]]:
    """Return the records of a sample."""
    content = (SAMPLES / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in content.splitlines()] if name.endswith("jsonl") else json.loads(content)  # type: ignore[no-any-return]


def counts(found: list[Conversation]) -> tuple[int, int, int]:
    """Return how many conversations there are, and their turns and calls."""
    turns = sum(len(turns_of(each.messages)) for each in found)
    return len(found), turns, sum(len(calls_of(each.messages)) for each in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai_tools.jsonl", (1, 1, 1)),
        ("ragas.jsonl", (1, 2, 1)),
        ("deepeval.json", (1, 1, 1)),
        ("deepeval_goldens.json", (15, 15, 0)),
    ],
)
def test_samples_have_as_many_conversations_turns_and_calls(name: str, expected: tuple[int, int, int]) -> None:
    assert counts(conversations_of(sample(name))) == expected


def test_openai_chats_bring_their_tools() -> None:
    (found,) = conversations_of(sample("openai_tools.jsonl"))
    schema = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
    assert found.tools == [{"name": "get_weather", "parameters": schema}]
    assert calls_of(found.messages) == [("get_weather", {"location": "Paris"}, "rainy, 57°F", None, 1, 1)]
    assert (found.given, found.metadata) == (0, {"parallel_tool_calls": False})


def test_chats_of_several_turns_or_without_a_question_are_conversations() -> None:
    _, several, greeting = sample("openai_chat.jsonl")
    found = conversations_of([several, greeting])
    assert [len(turns_of(each.messages)) for each in found] == [4, 1]
    assert turns_of(found[1].messages)[0][2:4] == (None, "You're great!")


def test_messages_that_end_with_the_user_are_given_where_the_reply_stands_apart_or_is_yet_to_come() -> None:
    said = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user")]
    record = {"messages": said, "id": 7}
    (recorded,) = conversations_of([record])
    (case,) = conversations_of([record], cases_only=True)
    (replied,) = conversations_of([record | {"expected_answer": "E", "actual_answer": "A"}], kind="leadline")
    assert [each.given for each in (recorded, case, replied)] == [0, 3, 3]
    assert [(each.key, len(each.messages)) for each in (recorded, case, replied)] == [("7", 4), ("7", 4), ("7", 5)]


@pytest.mark.parametrize("name", ["conversations", "conversation"])
def test_sharegpt(name: str) -> None:
    told = [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]
    (found,) = conversations_of([{"id": "s1", name: told}])
    said = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    assert (found.key, found.messages) == ("s1", said)


def test_instructions_beside_the_messages_stand_in_front_of_them() -> None:
    told = [*SEVERAL, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    record = {"system": "Help.", "messages": told, "given_messages": 2}
    found, own, odd = conversations_of(
        [record, {**record, "messages": [{"role": "system", "content": "No."}, *told]}, {**record, "system": ["Help."]}]
    )
    assert (found.messages[0], found.given, found.metadata) == ({"role": "system", "content": "Help."}, 3, {})
    assert (own.messages[0]["content"], own.given, own.metadata) == ("No.", 2, {"system": "Help."})
    assert (odd.messages[0]["content"], odd.given, odd.metadata) == (told[0]["content"], 2, {"system": ["Help."]})


def test_ragas() -> None:
    (found,) = conversations_of(sample("ragas.jsonl"))
    arguments = {"name": "Golden Dragon", "time": "8:00pm"}
    assert calls_of(found.messages) == [("restaurant_book", arguments, "Table booked", None, 1, 1)]
    assert found.expected_tool_calls == [{"name": "restaurant_book", "arguments": arguments}]
    assert found.expected_outcome == "A table is booked at a Chinese restaurant for 8 pm"
    assert (found.scenario, found.given) == ({"topics": ["restaurants"]}, 0)


def test_the_reference_of_ragas_is_that_of_the_answer_where_there_is_one_apart() -> None:
    said = [{"content": text, "type": kind} for text, kind in (("hi", "human"), ("yes?", "ai"), ("Q2", "human"))]
    record = {"user_input": said, "response": "A2", "reference": "R", "retrieved_contexts": ["x"]}
    (found,) = conversations_of([record])
    assert (found.given, found.expected_answers, found.expected_outcome) == (2, ["R"], None)
    assert found.messages[-1] == {"role": "assistant", "content": "A2", "retrieved_context": [{"content": "x"}]}


def test_deepeval() -> None:
    (found,) = conversations_of(sample("deepeval.json"))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert calls_of(found.messages) == [("get_tide", {"harbour": "Lisbon"}, "5.4 m", None, 1, 1)]
    assert found.messages[-1].get("retrieved_context") == [{"content": "High water springs is 5.4 m."}]
    assert (found.key, found.expected_outcome) == ("tides", "The height is told")
    assert found.scenario == {
        "scenario": "A skipper asks for the tide",
        "user_description": "a hurried skipper",
        "chatbot_role": "harbour master",
    }


def test_deepevals_goldens_may_have_turns_as_text_or_none_yet() -> None:
    golden, *_ = sample("deepeval_goldens.json")
    found, without = conversations_of([golden, {name: golden[name] for name in golden if name != "turns"}])
    assert (found.key, len(found.messages)) == ("Name 1", 2)
    assert (found.metadata["context"], without.messages) == (["Weather", "Paris"], [])
    assert without.expected_outcome == "User receives accurate weather forecast"


CALLS = [{"id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]
ASKS, RESULT = {"role": "assistant", "content": None, "tool_calls": CALLS}, {"role": "tool", "content": "5.4 m"}


def test_databricks_gives_the_messages_before_the_last_question() -> None:
    said = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    response = {"choices": [{"message": {"role": "assistant", "content": "5.4 m."}}]}
    record = {"request_id": "r", "request": {"messages": said}, "response": response, "expected_facts": ["high"]}
    query = {
        "request": {"query": "user", "history": said[:2]},
        "response": [ASKS, RESULT, {"role": "assistant", "content": "5.4 m."}],
    }
    plain = {"request": "How high?", "response": {"messages": [said[0], ASKS, RESULT]}}
    first, second, third = conversations_of([record, query, plain])
    assert (first.key, first.given, first.case_metadata) == ("r", 2, {"expected_facts": ["high"]})
    assert [each.given for each in (second, third)] == [2, 0]
    assert [turns_of(each.messages)[-1].answer for each in (first, second, third)] == ["5.4 m.", "5.4 m.", None]
    assert counts([first, second, third]) == (3, 5, 2)


def test_leadlines_own_record_says_all_that_a_case_can() -> None:
    record = {
        "case": "c1",
        "model": "m",
        "messages": [
            {"role": "user", "content": "How high?"},
            ASKS,
            RESULT,
            {"role": "assistant", "content": "5.4 m."},
        ],
        "tools": [{"name": "tide"}],
        "expected_answer": "5.4 m",
        "expected_tool_calls": [{"name": "tide", "turn": 1, "any_of": [{"harbour": "Lisbon"}]}],
        "expected_outcome": "The height is told",
        "scenario": {"scenario": "at sea", "facts": ["tall mast"]},
        "chatbot_role": "pilot",
        "categories": ["tides"],
        "duration_s": 2,
        "cost_usd": 0.01,
        "metadata": {"seed": 7},
    }
    (found,) = conversations_of([record])
    assert (found.key, found.model, found.given, found.duration_s, found.cost_usd) == ("c1", "m", 0, 2, 0.01)
    assert (found.tools, found.expected_answers, found.categories) == ([{"name": "tide"}], ["5.4 m"], ["tides"])
    assert found.expected_tool_calls == [{"name": "tide", "turn": 1, "any_of": [{"harbour": "Lisbon"}]}]
    assert found.scenario == {"scenario": "at sea", "facts": ["tall mast"], "chatbot_role": "pilot"}
    assert (found.expected_outcome, found.metadata) == ("The height is told", {"seed": 7})


def test_a_question_that_expects_calls_is_a_conversation_of_one_turn() -> None:
    (found,) = conversations_of([{"question": "How high?", "actual_answer": "5.4 m.", "expected_tool_calls": []}])
    assert [message["content"] for message in found.messages] == ["How high?", "5.4 m."]
    assert (found.expected_tool_calls, found.given) == ([], 0)


SEVERAL = [{"role": role, "content": f"{role} {n}"} for n in (1, 2) for role in ("user", "assistant")]
SINGLE = SEVERAL[:2]


def test_conversations_and_single_answers_stand_in_one_file(tmp_path: Path) -> None:
    loaded = load(tmp_path, "d.jsonl", as_jsonl([{"id": "a", "messages": SEVERAL}, {"id": "b", "messages": SINGLE}]))
    found = rows(loaded)
    assert (loaded.format, loaded.cases, loaded.rows) == ("chat", 2, 2)
    assert (found["a", "d"]["question"], found["a", "d"]["actual_answer"]) == ("user 1", "assistant 2")
    assert (found["b", "d"]["question"], found["b", "d"]["actual_answer"]) == ("user 1", "assistant 1")


def test_conversations_load_alike_from_every_container(tmp_path: Path) -> None:
    records = [
        {"case": "a", "model": "m", "messages": SEVERAL, "expected_outcome": "told", "expected_tool_calls": []},
        {"case": "b", "model": "m", "messages": SEVERAL[:3], "actual_answer": "assistant 2", "condition": '"2"'},
        {"case": "c", "model": "m", "question": "Q", "actual_answer": "A", "expected_documents": ["d1"]},
    ]
    packed = [
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in each.items()}
        for each in records
    ]
    contents = [as_jsonl(records), json.dumps(records), as_csv(packed), as_parquet(packed[:2], tmp_path)]
    loaded = [load(tmp_path, "d", content) for content in contents]
    assert {(one.format, one.rows) for one in loaded[:3]} == {("leadline", 3)}
    first = {case: dict(row) for case, row in rows(loaded[0]).items()}
    assert [{case: dict(row) for case, row in rows(one).items()} for one in loaded[1:3]] == [first, first]
    assert rows(loaded[3]).keys() == {("a", "m"), ("b", "m")}
    assert (first["b", "m"]["question"], first["b", "m"]["condition"]) == ("user 2", '"2"')
    assert first["c", "m"]["expected_documents"] == ["d1"]


def test_single_questions_in_the_shape_of_messages_have_the_keys_that_they_always_had(tmp_path: Path) -> None:
    chat = [{"messages": SINGLE}]
    plain = [{"question": "user 1", "actual_answer": "assistant 1"}]
    databricks = [{"request": {"messages": SINGLE[:1]}, "response": {"choices": [{"message": SINGLE[1]}]}}]
    ragas = [{"user_input": SINGLE[:1], "response": "assistant 1"}]
    loaded = [load(tmp_path, "d.json", each) for each in (plain, chat, databricks, ragas)]
    assert len({case for one in loaded for case, _ in rows(one)}) == 1
    assert len({json.dumps(tables(one)["rows"], default=str) for one in loaded}) == 1


def test_a_file_of_goldens_is_one_of_cases(tmp_path: Path) -> None:
    loaded = load(tmp_path, "d.json", sample("deepeval_goldens.json"), cases_only=True)
    assert (loaded.format, loaded.cases, loaded.rows) == ("deepeval-conversations", 15, 0)


def test_what_is_wrong_with_a_conversation_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = [{"case": "a", "expected_answer": "E", "messages": [*SEVERAL, {"role": "critic", "content": "No"}]}]
    told = 'message 5: it is of no known role: \'{"role":"critic","content":"No"}\''
    assert faults(tmp_path, "d.json", wrong) == [f"row 1, messages: {told}"]
    single = [{"request": [{"role": "critic", "content": "No"}, SINGLE[0]], "response": "assistant 1"}]
    assert faults(tmp_path, "d.json", single) == [f"row 1, request: {told.replace('5', '1')}"]
    calls = [{"case": "a", "messages": SEVERAL, "expected_tool_calls": [{"name": "tide"}, {"arguments": {}}]}]
    assert faults(tmp_path, "d.json", calls) == ["row 1, expected_tool_calls: call 2: a call names no tool"]
    turns = [{"turns": ["Ahoy"], "scenario": "at sea"}]
    assert faults(tmp_path, "d.json", turns) == ["row 1, turns: expected an object as turn 1, found a text: 'Ahoy'"]


def test_a_model_that_only_calls_tools_has_answered(tmp_path: Path) -> None:
    asked, call = {"role": "user", "content": "How high?"}, {"function": {"name": "tide", "arguments": "{}"}}
    said = [asked, {"role": "assistant", "tool_calls": [call]}]
    [fault] = faults(tmp_path, "given.json", [{"messages": [*said, asked], "given_messages": 2}])
    assert "no record has an answer" in fault
    loaded = load(tmp_path, "said.json", [{"messages": said}])
    assert (loaded.rows, loaded.warnings) == (1, ())


def test_a_chat_that_names_tools_is_a_conversation_without_calls(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "An assistant."}]
    (found,) = conversations_of([{"messages": said, "tools": [], "expected_tool_calls": []}])
    assert (calls_of(found.messages), found.expected_tool_calls) == ([], [])
    assert load(tmp_path, "one.jsonl", as_jsonl([{"messages": said}])).warnings == ()
