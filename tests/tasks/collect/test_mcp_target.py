"""Tools of an MCP server, as models under test and as the source of results that are not recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from leadline.evaluators.judge_client.mcp_search import ENVIRONMENT_VARIABLE
from leadline.tasks.collect import ReplayRules, Target
from tests.support.datasets.collecting import HASTY, Bench, llm
from tests.support.judges.judge_endpoint import Question, serving
from tests.support.processes.tool_agent import ToolAgent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SERVER = f"mcp+stdio:{sys.executable} -m tests.support.judges.mcp_server stdio"


@pytest.fixture(autouse=True)
def _server_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "PYTHONPATH")


def mcp(tool: str = "", **fields: object) -> Target:
    return Target.model_validate({"key": "mcp", "mcp": f"{SERVER}{tool}", **HASTY, **fields})


def test_a_tool_gets_the_question_or_the_arguments_of_a_template(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"case": "a", "question": "How deep?"}])
    _, (row,) = bench.collect(mcp("#shout"))
    assert row["actual_answer"] == "HOW DEEP?"
    _, (row,) = bench.collect(mcp("#add", body='{"a": 2, "b": {{ question | length }}}'))
    assert row["actual_answer"] == "11"


def test_what_cannot_be_called_is_an_error_that_says_why(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [{"case": "a", "question": "fail"}])
    targets = [mcp("#shout", key="fine"), mcp("#search", key="fails"), mcp("#whisper", key="unknown")]
    done, rows = bench.collect(*targets)
    assert (done.answered, done.failed) == (1, 2)
    assert "the reply says: Error executing tool search" in rows[1]["error"]
    assert "it has no tool 'whisper'" in rows[2]["error"]


def test_a_live_server_is_called_once_for_each_call_and_its_errors_are_results(tmp_path: Path) -> None:
    calls = [["add", {"a": 1, "b": 2}], ["search", {"query": "fail"}], ["whisper", {}]]

    def reply(question: Question) -> str:
        return "Done." if question.body["messages"][-1]["role"] == "tool" else json.dumps(calls)

    tools = [{"name": name, "parameters": {"type": "object"}} for name, _ in calls]
    live = ReplayRules(on_unrecorded="live", tool_source=mcp())
    with serving(ToolAgent(reply=reply)) as agent:
        bench = Bench(tmp_path, [{"case": "a", "messages": [{"role": "user", "content": "Add."}], "tools": tools}])
        done, (row,) = bench.collect(llm(agent), rules=live)
        again, (repeated,) = bench.collect(llm(agent), rules=live)
    results = [message for message in row["messages"] if message["role"] == "tool"]
    assert results[0]["content"] == "3"
    assert "Error executing tool search" in results[1]["error"]
    assert "it has no tool 'whisper'" in results[2]["error"]
    assert (done.failed, row["metadata"]) == (0, {"tool_results": {"live": 3}})
    assert (again.reused, repeated["messages"]) == (1, row["messages"])
