"""Conversations of agent frameworks and benchmarks: messages, calls, and what is expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.data import calls_of, turns_of
from leadline.plugins.formats.adk import adk_case, adk_session, old_adk_case
from leadline.plugins.formats.atif import atif_trajectory
from leadline.plugins.formats.bfcl import bfcl_question
from leadline.plugins.formats.tau2 import Tau2, tau2_simulation, tau2_task, tau_result
from leadline.tasks.load.values import ValueFault
from tests.support.datasets.loading import as_jsonl, faults, load, rows

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> Any:
    """Return what is in a sample."""
    content = (SAMPLES / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in content.splitlines()] if name.endswith("jsonl") else json.loads(content)


def bfcl(name: str) -> list[dict[str, Any]]:
    """Return the questions of a category with their possible answers."""
    answers = {each["id"]: each["ground_truth"] for each in sample(f"bfcl_{name}_answers.jsonl")}
    return [each | {"ground_truth": answers[each["id"]]} for each in sample(f"bfcl_{name}.jsonl")]


def test_an_adk_case_expects_what_was_answered_and_called_in_each_turn() -> None:
    found = adk_case(sample("adk_roll_die.json")["eval_cases"][0])
    turns = turns_of(found.messages)
    assert [turn.question for turn in turns] == [
        "Hi who are you?",
        "What can you do?",
        "Can you roll a die with 6 sides",
    ]
    assert turns[-1].answer is None  # its text is null behind the call
    assert all(turn.expected_answers == ((turn.answer,) if turn.answer else ()) for turn in turns)
    assert [(call.name, call.turn) for call in calls_of(found.messages)] == [("roll_die", 3)]
    assert found.expected_tool_calls == [{"name": "roll_die", "arguments": {"sides": 6}, "turn": 3}]
    assert found.key == "tests/integration/fixture/hello_world_agent/roll_die.test.json"


def test_an_adk_case_may_have_events_or_a_scenario() -> None:
    events = [
        {"author": "pilot", "content": {"role": "model", "parts": [{"function_call": {"id": "x", "name": "tide"}}]}},
        {
            "author": "pilot",
            "content": {
                "role": "user",
                "parts": [{"function_response": {"id": "x", "name": "tide", "response": {"result": "5 m"}}}],
            },
        },
    ]
    invocation = {
        "user_content": {"parts": [{"text": "How high?"}]},
        "intermediate_data": {"invocation_events": events},
    }
    found = adk_case({"eval_id": "e", "conversation": [invocation], "final_session_state": {"told": True}})
    assert calls_of(found.messages) == [("tide", {}, "5 m", None, 1, 1)]
    assert (turns_of(found.messages)[0].answer, found.scenario) == (None, {"expected_state": {"told": True}})
    plan = {"starting_prompt": "Hi", "conversation_plan": "Ask for the tide", "user_persona": "skipper"}
    held = adk_case({"eval_id": "e", "conversation_scenario": plan})
    assert held.messages == [{"role": "user", "content": "Hi"}]
    assert held.scenario == {"scenario": "Ask for the tide", "user_description": "skipper"}
    assert held.expected_tool_calls is None


OLD: list[dict[str, Any]] = [
    {"query": "Hi", "expected_tool_use": [], "reference": "Hello."},
    {
        "query": "How high?",
        "expected_tool_use": [{"tool_name": "tide", "tool_input": {"at": "Lisbon"}, "mock_tool_output": "5 m"}],
        "expected_intermediate_agent_responses": [{"author": "pilot", "text": "Let me look."}],
        "reference": "5 m.",
    },
]


def test_turns_of_adk_from_before_evalsets_are_one_case(tmp_path: Path) -> None:
    loaded = load(tmp_path, "tides.test.json", OLD)
    assert (loaded.format, loaded.cases, loaded.rows) == ("adk", 1, 1)
    sets = [{"name": f"tides {n}", "data": OLD, "initial_session": {"state": {"port": n}}} for n in range(2)]
    assert rows(load(tmp_path, "sets.json", sets)).keys() == {("tides 0", "sets"), ("tides 1", "sets")}
    found = old_adk_case(sets[1])
    assert [turn.question for turn in turns_of(found.messages)] == ["Hi", "How high?"]
    assert [turn.answer for turn in turns_of(found.messages)] == ["Hello.", "5 m."]
    assert calls_of(found.messages) == [("tide", {"at": "Lisbon"}, "5 m", None, 4, 2)]
    assert found.expected_tool_calls == [{"name": "tide", "arguments": {"at": "Lisbon"}, "turn": 2}]
    assert found.scenario == {"initial_state": {"port": 1}}


def test_a_session_of_adk_is_a_conversation(tmp_path: Path) -> None:
    call, result = {"id": "c", "name": "tide", "args": {}}, {"id": "c", "name": "tide", "response": {"result": "5 m"}}
    said = [("user", "user", {"text": "How high?"}), ("pilot", "model", {"functionCall": call}),
            ("pilot", "user", {"functionResponse": result}), ("pilot", "model", {"text": "5 m."})]  # fmt: skip
    events = [{"author": author, "content": {"role": role, "parts": [part]}} for author, role, part in said]
    session = {"id": "s1", "appName": "tides", "state": {}, "events": [*events, {"author": "pilot", "actions": {}}]}
    odd = {"author": "x", "content": {"role": "captain", "parts": [{"text": "No"}]}}
    assert "no known role" in faults(tmp_path, "odd.json", {"events": [*events, odd]})[0]
    assert [call[:3] for call in calls_of(adk_session(session).messages)] == [("tide", {}, "5 m")]
    alone, several = load(tmp_path, "a.json", session), load(tmp_path, "b.json", [session, {**session, "id": "s2"}])
    assert {key for key, _ in rows(several)} == {"s1", "s2"}
    for loaded in (alone, several):
        assert {(row["question"], row["actual_answer"]) for row in rows(loaded).values()} == {("How high?", "5 m.")}


@pytest.mark.parametrize("turn", [{"query": 7, "expected_tool_use": 7}, {"query": "Q", "expected_tool_use": [{}]}])
def test_turns_of_adk_that_are_none_are_told(tmp_path: Path, turn: dict[str, Any]) -> None:
    assert faults(tmp_path, "tides.test.json", [turn])


@pytest.mark.parametrize(
    ("name", "turns", "calls", "tokens", "cost"),
    [
        ("simple", 1, 1, 1120, 0.00078),
        ("multi_tool", 1, 4, 9150, 0.0074),
        ("parallel_tools_mixed_results", 1, 3, 1200, 0.005),
    ],
)
def test_atif(name: str, turns: int, calls: int, tokens: int, cost: float) -> None:
    found = atif_trajectory(sample(f"atif_{name}.json"))
    assert (len(turns_of(found.messages)), len(calls_of(found.messages))) == (turns, calls)
    assert (found.input_tokens, found.cost_usd) == (tokens, cost)


def test_trajectories_of_an_agent_and_its_sub_agent_may_stand_in_one_object(tmp_path: Path) -> None:
    loaded = load(tmp_path, "t.json", sample("atif_subagent.json"))
    found = {model: (row["input_tokens"], row["output_tokens"]) for (_, model), row in rows(loaded).items()}
    assert found == {"orchestrator gpt-4": (2000, 130), "summarizer gpt-4o-mini": (600, 80)}
    (tmp_path / "other").mkdir()
    wrong = {"parent": sample("atif_simple.json"), "child": 7}
    assert faults(tmp_path / "other", "u.json", wrong) == ["row 1: expected an object, found a number: 7"]


def test_parallel_calls_of_atif_have_each_its_own_result() -> None:
    found = atif_trajectory(sample("atif_parallel_tools_mixed_results.json"))
    results = [(call.name, call.result, call.message) for call in calls_of(found.messages)]
    assert results == [
        ("get_weather", "NYC: 42°F, cloudy, wind 15mph NW", 1),
        ("get_stock", "Error: API rate limit exceeded", 1),
        ("get_news", "", 1),
    ]
    assert (found.model, found.metadata) == ("multi-tool-agent gpt-4", {"session_id": "sess-parallel-mixed"})
    with pytest.raises(ValueFault, match="step 1: its source is none of system, user, agent"):
        atif_trajectory({"steps": [{"source": "critic"}]})


def test_bfcl_expects_calls_in_each_turn() -> None:
    found = [bfcl_question(each) for each in bfcl("multi_turn")]
    assert [len(turns_of(each.messages)) for each in found] == [4, 4, 5, 2, 3]
    assert [len(each.expected_tool_calls or ()) for each in found] == [10, 6, 8, 5, 3]
    assert found[0].expected_tool_calls is not None
    assert found[0].expected_tool_calls[0] == {"name": "cd", "arguments": {"folder": "document"}, "turn": 1}
    assert found[0].expected_tool_calls[5] == {"name": "sort", "turn": 3}


def test_bfcl_accepts_several_arguments_and_describes_tools_in_json_schema() -> None:
    found = [bfcl_question(each) for each in bfcl("parallel")]
    assert [len(each.expected_tool_calls or ()) for each in found] == [2, 2, 2, 2, 2]
    assert found[3].expected_tool_calls is not None
    assert found[3].expected_tool_calls[1] == {
        "name": "get_rectangle_property",
        "arguments": {"perimeter": 14, "area": 15, "property": "length"},
        "any_of": [{"perimeter": 14, "area": 15, "property": "length", "tolerance": 0.1}],
    }
    schema: Any = (found[1].tools or ())[0]["parameters"]
    assert (schema["type"], schema["properties"]["radius"]["type"]) == ("object", "number")


@pytest.mark.parametrize("source", ["no call", "f(", "f(a=g())", "(" * 5000, "f(**x)"])
def test_a_call_of_bfcl_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ValueFault):
        bfcl_question({"id": "x", "question": [[{"role": "user", "content": "Q"}]], "ground_truth": [[source]]})


def test_bfcl_expects_texts_of_memory_and_search() -> None:
    found = bfcl_question(
        {"id": "m", "question": [[{"role": "user", "content": "Q"}]], "ground_truth": ["Ada", "Ada L."]}
    )
    assert (found.expected_answers, found.expected_tool_calls) == (["Ada", "Ada L."], None)


def test_tau2s_tasks_are_cases() -> None:
    found = [tau2_task(each) for each in sample("tau2_tasks.json")]
    assert len(found) == 10
    assert (found[0].key, found[0].expected_outcome) == (
        "create_task_1",
        "The agent confirmed the task was created successfully",
    )
    arguments = {"user_id": "user_1", "title": "Important Meeting"}
    assert found[0].expected_tool_calls == [{"name": "create_task", "arguments": arguments}]
    assert [len(each.messages) for each in found if each.given] == [4, 4]
    assert found[2].expected_tool_calls is None
    assert found[-1].expected_tool_calls == [{"name": "transfer_to_human_agents"}]


SAID: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hi! How can I help?"},
    {
        "role": "user",
        "content": None,
        "tool_calls": [{"id": "u", "name": "look", "arguments": {}, "requestor": "user"}],
    },
    {"role": "tool", "id": "u", "content": "No signal", "requestor": "user", "error": False},
    {"role": "user", "content": "I have no signal."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "name": "line", "arguments": {"n": 1}, "requestor": "assistant"},
            {"id": "b", "name": "line", "arguments": {"n": 2}, "requestor": "assistant"},
        ],
    },
    {
        "role": "tool",
        "tool_messages": [
            {"role": "tool", "id": "a", "content": "ok", "requestor": "assistant", "error": False},
            {"role": "tool", "id": "b", "content": "no such line", "requestor": "assistant", "error": True},
        ],
    },
    {"role": "assistant", "content": "Restart it."},
    {"role": "user", "content": "Thanks ###STOP###"},
]


def test_a_simulation_of_tau2_is_what_the_agent_saw() -> None:
    task = sample("tau2_tasks.json")[0]
    record = {
        "task_id": "create_task_1",
        "trial": 1,
        "messages": SAID,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0},
        "duration": 2.5,
        "agent_cost": 0.1,
    }
    found = tau2_simulation(record, task)
    roles = ["assistant", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert [message["role"] for message in found.messages] == roles
    assert found.messages[-1]["content"] == "Thanks"
    calls = [(call.arguments["n"], call.result, call.error) for call in calls_of(found.messages)]
    assert calls == [(1, "ok", None), (2, "no such line", "no such line")]
    assert (found.key, found.duration_s, found.cost_usd) == ("create_task_1 trial 2", 2.5, 0.1)
    assert found.metadata == {"termination_reason": "user_stop", "reward": 1.0}
    assert (found.error, len(found.expected_tool_calls or ())) == (None, 1)
    assert tau2_simulation(record | {"termination_reason": "infrastructure_error"}, {}).error == "infrastructure_error"
    with pytest.raises(ValueFault, match="voice"):
        tau2_simulation({"ticks": [{}], "messages": []}, {})


def test_what_tau2_found_of_the_state_and_wants_told_can_be_scored() -> None:
    checked = [
        {"env_assertion": {"func_name": "has_task", "arguments": {"n": n}}, "met": met, "reward": 0}
        for n, met in ((1, True), (2, False), (2, True))
    ]
    reward = {"reward": 0.0, "db_check": {"db_match": True, "db_reward": 1.0}, "env_assertions": checked}
    task = {"id": "t", "user_scenario": {}, "evaluation_criteria": {"communicate_info": ["5.4 m"]}}
    found = tau2_simulation({"messages": SAID, "reward_info": reward}, task)
    state = {"database": True, 'has_task {"n":1}': True, 'has_task {"n":2}': False}
    assert found.metadata == {"reward": 0.0, "final_state": state}
    assert found.scenario == {"expected_facts": ["5.4 m"], "expected_state": dict.fromkeys(state, True)}
    assert "final_state" not in tau2_simulation({"messages": SAID, "reward_info": {"reward": 1.0}}, task).metadata
    with pytest.raises(ValueFault):
        tau2_simulation({"messages": SAID, "reward_info": {"db_check": [], "env_assertions": [7]}}, task)


def test_a_result_of_tau_bench_holds_its_task(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "tide", "arguments": '{"at": "Lisbon"}'}}
    said = [{"role": "system", "content": "Help."}, {"role": "user", "content": "How high?"},
            {"role": "assistant", "content": None, "tool_calls": [call], "function_call": None},
            {"role": "tool", "tool_call_id": "c", "name": "tide", "content": "5 m"},
            {"role": "assistant", "content": "5 m.", "tool_calls": None},
            {"role": "user", "content": "###STOP###"}]  # fmt: skip
    task = {"instruction": "Ask.", "actions": [{"name": "tide", "kwargs": {"at": "Lisbon"}}], "outputs": ["5"]}
    done = {"task_id": 0, "reward": 1.0, "info": {"task": task, "user_cost": 0.01}, "traj": said, "trial": 0}
    failed = {"task_id": 0, "reward": 0.0, "info": {"error": "overloaded"}, "traj": [], "trial": 1}
    loaded = load(tmp_path, "gpt-4o-retail.json", [done, failed])
    assert (loaded.format, {key for key, _ in rows(loaded)}) == ("tau2", {"0", "0 trial 2"})
    found, other = tau_result(done), tau_result(failed)
    assert calls_of(found.messages) == [("tide", {"at": "Lisbon"}, "5 m", None, 2, 1)]
    assert found.expected_tool_calls == [{"name": "tide", "arguments": {"at": "Lisbon"}}]
    assert found.scenario == {"scenario": "Ask.", "expected_facts": ["5"]}
    assert (found.metadata, found.error) == ({"user_cost": 0.01, "reward": 1.0}, None)
    assert (other.messages, other.error, other.expected_tool_calls) == ([], "overloaded", None)


def test_tau2_is_told_from_other_documents_with_tasks() -> None:
    assert Tau2.recognises({"id", "name"}, {"tasks"}) == 0
    assert Tau2.recognises({"id", "user_scenario"}, {"tasks"}) > 0


def test_files_are_recognised_and_loaded(tmp_path: Path) -> None:
    results = {
        "info": {"agent_info": {"llm": "x"}},
        "tasks": sample("tau2_tasks.json"),
        "simulations": [{"task_id": "create_task_1", "trial": n, "messages": SAID} for n in range(2)],
    }
    files = {
        "adk": sample("adk_roll_die.json"),
        "atif": sample("atif_simple.json"),
        "tau2": results,
    }
    loaded = {name: load(tmp_path, f"{name}.json", content) for name, content in files.items()}
    assert {name: (one.format, one.cases, one.rows) for name, one in loaded.items()} == {
        "adk": ("adk", 1, 1),
        "atif": ("atif", 1, 1),
        "tau2": ("tau2", 2, 2),
    }
    assert loaded["atif"].models == ("finance-assistant gpt-4",)
    assert rows(loaded["tau2"]).keys() == {("create_task_1", "tau2"), ("create_task_1 trial 2", "tau2")}
    cases = {"bfcl": as_jsonl(bfcl("multi_turn")), "tau2": json.dumps(sample("tau2_tasks.json"))}
    questions = {name: load(tmp_path, name, content, cases_only=True) for name, content in cases.items()}
    assert {name: (one.format, one.cases) for name, one in questions.items()} == {
        "bfcl": ("bfcl", 5),
        "tau2": ("tau2", 10),
    }


def test_what_is_wrong_with_a_record_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = {"schema_version": "ATIF-v1.4", "agent": {}, "steps": [{"source": "user", "message": "Q"}, 1]}
    assert faults(tmp_path, "d.json", wrong) == ["row 1: expected an object, found a number: 1"]
