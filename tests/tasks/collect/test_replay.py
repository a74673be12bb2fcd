"""Conversations that are held anew, over real HTTP, with recorded tools and with such that are not recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.collect import ReplayRules, Target
from leadline.tasks.collect.cases import Case
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.load.dataset import load_dataset
from tests.support.datasets.collecting import HASTY, Bench, llm
from tests.support.judges.judge_endpoint import Question, broken, serving
from tests.support.processes.tool_agent import AS_HTTP, TOOLS, ToolAgent, harbour_agent, recorded_booking

pytestmark = pytest.mark.slow


@pytest.fixture
def agent() -> Iterator[ToolAgent]:
    with serving(ToolAgent(reply=harbour_agent)) as endpoint:
        yield endpoint  # type: ignore[misc]


def http(endpoint: ToolAgent, **fields: Any) -> Target:
    address = f"{endpoint.url}/chat/completions"
    return Target.model_validate({"key": "app", "url": address, **AS_HTTP, **HASTY, **fields})


def said(row: Mapping[str, Any]) -> list[str]:
    return [message["content"] for message in row["messages"] if message["role"] == "assistant" and message["content"]]


def sent(endpoint: ToolAgent) -> list[list[str]]:
    """Return the roles of the messages of each request."""
    return [[message["role"] for message in line.question.body["messages"]] for line in endpoint.log]


@pytest.mark.parametrize("target", [llm, http])
def test_the_users_turns_are_replayed_and_the_models_own_answers_are_the_history(
    tmp_path: Path, agent: ToolAgent, target: Callable[..., Target]
) -> None:
    done, (row,) = Bench(tmp_path, [recorded_booking(12)]).collect(target(agent))
    assert (done.answered, done.failed) == (1, 0)
    assert said(row) == ["Berth 12 is free.", "Booked."], "the recorded answers were others"
    assert [call["arguments"] for message in row["messages"] for call in message.get("tool_calls", [])] == [
        {"length_m": 12.0},
        {"nights": 2},
    ]
    assert row["metadata"] == {"tool_results": {"recorded": 2}}
    assert row["expected_tool_calls"] == recorded_booking(12)["expected_tool_calls"]
    assert sent(agent)[-1] == ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    last = agent.log[-1].question.body
    assert last["tools"] == [{"type": "function", "function": tool} for tool in TOOLS]
    assert last["messages"][3] == {"role": "tool", "tool_call_id": "call00001", "content": "Berth 12 is free."}


def test_what_was_collected_is_evaluated_as_conversations(tmp_path: Path, agent: ToolAgent) -> None:
    bench = Bench(tmp_path, [recorded_booking(12), {"case": "single", "question": "Who are you?"}])
    bench.collect(http(agent))
    with connect() as connection:
        attach_dataset(connection, load_dataset(bench.store, tmp_path / "answers.jsonl").path)
        units = connection.execute("SELECT case_key, unit FROM all_rows JOIN cases USING (case_id) ORDER BY ALL")
        assert units.fetchall() == [
            ("berth-12", "conversation"), ("berth-12", "turn"), ("berth-12", "turn"), ("single", "row")
        ]  # fmt: skip


def test_with_recorded_history_each_turn_is_a_row_behind_what_was_said_before_it(
    tmp_path: Path, agent: ToolAgent
) -> None:
    forced = ReplayRules(history="teacher-forced")
    booking = recorded_booking(12, expected_outcome="Booked.")
    single = {**booking, "case": "single", "messages": booking["messages"][:5]}
    bench = Bench(tmp_path, [booking, single])
    done, (*rows, alone) = bench.collect(llm(agent), rules=forced)
    assert done.answered == 3
    assert (alone["case"], alone["expected_tool_calls"]) == ("single", booking["expected_tool_calls"])
    assert [row["case"] for row in rows] == ["berth-12 turn 1", "berth-12 turn 2"]
    assert [row["given_messages"] for row in rows] == [1, 5]
    assert said(rows[1]) == ["Berth 12 is free; for how many nights?", "Booked."], "the first is the recorded one"
    assert [row.get("expected_outcome") for row in rows] == [None, "Booked."]
    assert {row["metadata"]["replay"] for row in rows} == {"teacher-forced"}


def test_each_copy_is_a_case_and_a_conversation_of_its_own(tmp_path: Path, agent: ToolAgent) -> None:
    bench = Bench(tmp_path, [recorded_booking(12)])
    _, rows = bench.collect(http(agent), copies=3)
    assert [row["case"] for row in rows] == ["berth-12", "berth-12 copy 2", "berth-12 copy 3"]
    sessions = {line.question.body["session"] for line in agent.log}
    assert (len(sessions), len(agent.log)) == (3, 12)
    bench.collect(http(agent), copies=4)
    assert len(agent.log) == 16, "a further copy is all that is asked"


def test_equal_messages_to_a_server_that_keeps_the_conversation_are_each_sent(tmp_path: Path, agent: ToolAgent) -> None:
    agent.reply = lambda question: f"Reply {question.number}."
    body = '{"messages": [{"role": "user", "content": {{ question }}}], "session": {{ conversation_id }}}'
    turns = [{"role": role, "content": "Yes."} for role in ("user", "assistant") * 3]
    bench = Bench(tmp_path, [{"case": "a", "messages": turns}])
    _, (row,) = bench.collect(http(agent, body=body))
    assert said(row) == ["Reply 0.", "Reply 1.", "Reply 2."]
    assert len({line.question.body["session"] for line in agent.log}) == 1
    _, again = bench.collect(http(agent, body=body))
    assert (again, len(agent.log)) == ([row], 3)


def unrecorded(agent: ToolAgent) -> None:
    """Have the agent call a tool with arguments that are in no recording, and say what it returned."""

    def reply(question: Question) -> str:
        last = question.body["messages"][-1]
        if "tools" not in question.body:
            return "I am the harbour's assistant."
        return f"Tool: {last['content']}" if last["role"] == "tool" else json.dumps([["find_berth", {"length_m": 99}]])

    agent.reply = reply


def test_a_call_that_is_not_recorded_is_an_error_of_the_instrument_and_ends_the_conversation(
    tmp_path: Path, agent: ToolAgent
) -> None:
    unrecorded(agent)
    bench = Bench(tmp_path, [recorded_booking(12), {"case": "other", "question": "Who are you?"}])
    done, (row, _) = bench.collect(llm(agent))
    assert (done.answered, done.failed) == (1, 1)
    assert row["error"] == "no result of find_berth is recorded for its arguments"
    assert row["messages"][-1]["error"] == row["messages"][-1]["content"] == "No result of this call is recorded."
    assert len(agent.log) == 2, "nothing more is bought for it"


def by_function(case: Case) -> Any:
    """Answer calls of tools, as the source of their results."""
    assert case.tool_call is not None
    if case.tool_call["arguments"]["length_m"] > 50:
        return {"error": "No berth is longer than 50 m."}
    return [case.tool_call["name"], case.conversation_id != ""]


@pytest.mark.parametrize(
    ("length", "said_last", "error"),
    [(99, "Tool: No berth is longer than 50 m.", True), (45, 'Tool: ["find_berth", true]', False)],
)
def test_a_live_source_is_called_for_what_is_not_recorded_and_its_refusal_is_a_result(
    tmp_path: Path, agent: ToolAgent, length: int, said_last: str, error: bool
) -> None:
    unrecorded(agent)
    told = agent.reply
    agent.reply = lambda question: told(question).replace("99", str(length))
    source = Target(key="tools", function=f"{__name__}:by_function")
    live = ReplayRules(on_unrecorded="live", tool_source=source)
    done, (row,) = Bench(tmp_path, [recorded_booking(12)]).collect(llm(agent), rules=live)
    assert done.failed == 0
    assert said(row)[0] == said_last
    assert ("error" in row["messages"][3]) == error
    assert row["metadata"]["tool_results"] == {"live": 2}


def test_a_model_writes_the_result_and_the_data_says_so(tmp_path: Path, agent: ToolAgent) -> None:
    unrecorded(agent)
    with serving(ToolAgent(reply=lambda question: "Berth 7 is free.")) as writer:
        source = llm(writer, "writer")
        simulated = ReplayRules(on_unrecorded="simulate", tool_source=source)
        _, (row,) = Bench(tmp_path, [recorded_booking(12)]).collect(llm(agent), rules=simulated)
    assert said(row)[0] == "Tool: Berth 7 is free."
    assert row["metadata"] == {"tool_results": {"simulated": 2}, "simulated_calls": ["1", "2"]}
    asked = writer.log[0].question.text
    assert "Berth 12 is free." in asked, "the form of recorded results"
    assert '"length_m": 99' in asked


def test_equal_calls_get_what_they_returned_in_their_order(tmp_path: Path, agent: ToolAgent) -> None:
    def call(id_: str, result: str) -> list[dict[str, Any]]:
        told = {"id": id_, "name": "get_tide", "arguments": {"hour": 1.0, "harbour": "Dover"}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [told]},
            {"role": "tool", "tool_call_id": id_, "content": result},
        ]

    def reply(question: Question) -> str:
        done = [message for message in question.body["messages"] if message["role"] == "tool"]
        return json.dumps([["get_tide", {"harbour": "Dover", "hour": 1}]]) if len(done) < 3 else "Done."

    agent.reply = reply
    messages = [{"role": "user", "content": "Watch the tide."}, *call("a", "5 m"), *call("b", "6 m")]
    _, (row,) = Bench(tmp_path, [{"case": "a", "messages": messages}]).collect(llm(agent))
    assert [message["content"] for message in row["messages"] if message["role"] == "tool"] == ["5 m", "6 m", "6 m"]


def test_all_recordings_of_a_case_have_results(tmp_path: Path, agent: ToolAgent) -> None:
    agent.reply = lambda question: harbour_agent(question).replace("12.0", "13.0")
    other = recorded_booking(13, case="berth-12", model="other")
    other["messages"][1] = recorded_booking(12)["messages"][1]
    other["expected_tool_calls"] = recorded_booking(12)["expected_tool_calls"]
    done, (row,) = Bench(tmp_path, [recorded_booking(12), other]).collect(llm(agent))
    assert (done.failed, said(row)[0]) == (0, "Berth 13 is free.")


def test_limits_end_a_conversation_and_its_row_says_which(tmp_path: Path, agent: ToolAgent) -> None:
    bench = Bench(tmp_path, [recorded_booking(12), {"case": "b", "question": "Who are you?"}])
    for rules, ended, answers in (
        (ReplayRules(max_turns=1), "max_turns", 1),
        (ReplayRules(max_seconds=1e-9), "max_seconds", 0),
        (ReplayRules(max_rounds=1), "max_rounds", 0),
    ):
        done, (row, _) = bench.collect(llm(agent), rules=rules)
        assert (done.stopped, done.failed, row["metadata"]["ended"], len(said(row))) == (1, 0, ended, answers)


def test_an_endpoint_that_fails_in_the_middle_is_an_error_and_only_what_is_missing_is_asked_again(
    tmp_path: Path, agent: ToolAgent
) -> None:
    agent.fault = lambda question: (
        broken(400, "too long") if question.body["messages"][-1]["content"] == "Booked." else None
    )
    bench = Bench(tmp_path, [recorded_booking(12), {"case": "b", "question": "Who are you?"}])
    done, rows = bench.collect(llm(agent))
    assert (done.answered, done.failed) == (1, 1)
    assert "too long" in rows[0]["error"]
    assert said(rows[0]) == ["Berth 12 is free."]
    agent.fault = lambda question: None
    before = len(agent.log)
    done, _ = bench.collect(llm(agent))
    assert (done.answered, len(agent.log) - before) == (2, 1)


def test_given_messages_are_history_and_stay_so(tmp_path: Path, agent: ToolAgent) -> None:
    agent.reply = lambda question: "Two."
    messages = [
        {"role": role, "content": text} for role, text in (("user", "Hi"), ("assistant", "Hello"), ("user", "1+1?"))
    ]
    bench = Bench(tmp_path, [{"case": "a", "messages": messages}])
    _, (row,) = bench.collect(llm(agent))
    assert (row["given_messages"], said(row)) == (2, ["Hello", "Two."])
    with connect() as connection:
        attach_dataset(connection, load_dataset(bench.store, tmp_path / "answers.jsonl").path)
        found = connection.execute(
            "SELECT unit, cases.question, all_rows.actual_answer FROM all_rows JOIN cases USING (case_id)"
        )
        assert found.fetchall() == [("row", "1+1?", "Two.")]


def own_tools(case: Case) -> dict[str, Any]:
    """Answer as an application that calls its tools itself."""
    call = {"id": "x", "name": "get_tide", "arguments": {"turn": len(case.messages)}}
    return {
        "answer": f"{case.question} {len(case.messages)} {case.tools[0]['function']['name']}",
        "messages": [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "x", "content": "5 m"},
        ],
        "retrieved_context": ["High water is 5 m."],
    }


def test_a_function_gets_the_conversation_and_may_say_what_it_called_itself(tmp_path: Path) -> None:
    target = Target(key="f", function=f"{__name__}:own_tools")
    _, (row,) = Bench(tmp_path, [recorded_booking(12)]).collect(target)
    assert said(row) == ["A berth for 12 metres? 2 find_berth", "2 nights. 6 find_berth"]
    assert [message["content"] for message in row["messages"] if message["role"] == "tool"] == ["5 m", "5 m"]
    assert row["messages"][-1]["retrieved_context"] == [{"content": "High water is 5 m."}]
