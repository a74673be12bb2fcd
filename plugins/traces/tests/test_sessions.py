"""Sessions of Claude Code and Codex: what was said and called, what sub-agents did, and what is no message."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.evaluators.data import RAW, calls_of, turns_of
from leadline.plugins.traces.read import conversations
from leadline.plugins.traces.span import TraceCounts
from leadline.plugins.traces.tests.test_exports import broken
from leadline.plugins.traces.trace_format import Traces
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.source import SourceFile
from tests.support.datasets.loading import load, rows

Line = dict[str, Any]


def claude(number: int, above: int | None, role: str, content: Any, **more: Any) -> Line:
    """Return a line of Claude Code."""
    message: Line = {"role": role, "content": content}
    if role == "assistant":
        usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 7}
        message |= {"id": more.pop("id", f"msg_{number}"), "model": "claude-haiku-4-5", "usage": usage}
    own = {"uuid": f"u{number}", "parentUuid": None if above is None else f"u{above}", "sessionId": "s1"}
    time = f"2026-06-15T10:00:{number:02}.000Z"
    return {**own, "type": role, "isSidechain": False, "timestamp": time, "message": message, **more}


def text(said: str) -> Line:
    return {"type": "text", "text": said}


def use(id_: str, name: str, **given: Any) -> Line:
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def result(id_: str, content: Any, **more: Any) -> Line:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


SIDE: Final = {"isSidechain": True, "agentId": "a1"}
CLAUDE: Final[list[Line]] = [
    {"type": "summary", "summary": "Tides", "leafUuid": "u9"},
    claude(1, None, "user", "<local-command-caveat>Caveat</local-command-caveat>", isMeta=True),
    claude(2, 1, "user", "How high is the tide?"),
    claude(3, 2, "assistant", [text("Let me look.")], id="msg_a"),
    claude(4, 3, "assistant", [use("t1", "Read", path="tides.md")], id="msg_a"),
    claude(5, 4, "assistant", [use("t2", "Bash", command="cat no.md")], id="msg_a"),
    claude(6, 4, "user", [result("t1", [text("5.4 m")]), text("<system-reminder>Be brief.</system-reminder>")]),
    claude(7, 5, "user", [result("t2", "no such file", is_error=True)]),
    claude(8, 7, "assistant", [{"type": "thinking", "thinking": "So it is 5.4 m."}, text("5.4 m.")]),
    claude(9, 8, "user", "Boook a berth."),
    claude(10, 9, "assistant", [text("Which?")]),
    claude(11, 8, "user", "Book a berth."),
    claude(12, 11, "assistant", [use("t3", "Task", prompt="Find a free berth")]),
    claude(13, None, "user", "Find a free berth", **SIDE),
    claude(14, 13, "assistant", [use("t4", "Grep", pattern="free")], **SIDE),
    claude(15, 14, "user", [result("t4", "berth 7")], **SIDE),
    claude(16, 12, "user", [result("t3", "Berth 7 is free.")], toolUseResult={"agentId": "a1"}),
    claude(17, 16, "assistant", [text("Berth 7 is booked.")]),
    {"type": "file-history-snapshot", "snapshot": {}},
]


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path, lines: list[Any], counts: TraceCounts | None = None) -> list[Conversation]:
    return list(conversations([written(path, lines)], counts=counts))


def test_a_session_of_claude_code_is_a_conversation_whose_sub_agents_are_steps(tmp_path: Path) -> None:
    counts = TraceCounts()
    [found] = read(tmp_path / "s1.jsonl", CLAUDE, counts)
    turns = turns_of(found.messages)
    assert [(turn.question, turn.answer) for turn in turns] == [
        ("How high is the tide?", "5.4 m."),
        ("Book a berth.", "Berth 7 is booked."),
    ]
    assert [(call.name, call.result, call.error, call.turn) for call in calls_of(found.messages)] == [
        ("Read", "5.4 m", None, 1),
        ("Bash", "no such file", "no such file", 1),
        ("Task", "Berth 7 is free.", None, 2),
    ]
    assert len({call.message for call in calls_of(found.messages)}) == 2
    assert (found.key, found.model, found.error, found.input_tokens, found.output_tokens) == (
        "s1", "claude-haiku-4-5", None, 515, 35
    )  # fmt: skip
    assert found.duration_s == 12
    steps = {step["name"]: step for step in found.steps or () if step["kind"] == "tool"}
    assert steps["Grep"]["parent"] == steps["Task"]["step"]
    assert [steps[name]["turn"] for name in ("Read", "Task", "Grep")] == [1, 2, 2]
    assert (steps["Task"]["duration_ms"], steps["Bash"]["error"]) == (4000, "no such file")
    assert (counts.conversations, counts.malformed, counts.circles, counts.empty) == (1, 0, 0, 0)


def test_files_of_sub_agents_belong_to_their_session(tmp_path: Path) -> None:
    [expected] = read(tmp_path / "s1.jsonl", CLAUDE)
    (tmp_path / "s1" / "subagents").mkdir(parents=True)
    written(tmp_path / "s1.jsonl", [line for line in CLAUDE if not line.get("isSidechain")])
    written(tmp_path / "s1" / "subagents" / "agent-a1.jsonl", [line for line in CLAUDE if line.get("isSidechain")])
    [found] = conversations([tmp_path])
    assert (found.messages, found.steps) == (expected.messages, expected.steps)


def test_sub_agents_without_ids_belong_to_the_call_that_asked_them(tmp_path: Path) -> None:
    old = [{name: value for name, value in line.items() if name not in ("agentId", "toolUseResult")} for line in CLAUDE]
    assert read(tmp_path / "old.jsonl", old) == read(tmp_path / "new.jsonl", CLAUDE)


def test_a_resumed_session_and_lines_that_are_there_twice_are_one_conversation(tmp_path: Path) -> None:
    resumed = [line | ({"sessionId": "s2"} if n > 10 and "sessionId" in line else {}) for n, line in enumerate(CLAUDE)]
    counts = TraceCounts()
    [found] = read(tmp_path / "s2.jsonl", [*resumed, *resumed[3:]], counts)
    assert len(turns_of(found.messages)) == 2
    assert counts.repeated == 15


def test_a_stream_of_claude_code_says_what_it_cost(tmp_path: Path) -> None:
    stream: list[Line] = [
        {"type": "system", "subtype": "init", "session_id": "s9", "model": "m"},
        {"type": "assistant", "session_id": "s9", "parent_tool_use_id": None, "message": CLAUDE[12]["message"]},
        {"type": "user", "session_id": "s9", "parent_tool_use_id": "t3", "message": CLAUDE[13]["message"]},
        {"type": "assistant", "session_id": "s9", "parent_tool_use_id": "t3", "message": CLAUDE[14]["message"]},
        {"type": "user", "session_id": "s9", "parent_tool_use_id": None, "message": CLAUDE[16]["message"]},
        {"type": "assistant", "session_id": "s9", "parent_tool_use_id": None, "message": CLAUDE[17]["message"]},
        {"type": "result", "subtype": "success", "session_id": "s9", "total_cost_usd": 0.25, "result": "x"},
    ]
    [found] = read(tmp_path / "out.jsonl", stream)
    assert (found.key, found.cost_usd, [call.name for call in calls_of(found.messages)]) == ("s9", 0.25, ["Task"])
    names = [(step["name"], step.get("parent")) for step in found.steps or () if step["kind"] == "tool"]
    assert names == [("Task", None), ("Grep", 1)]
    (tmp_path / "out.json").write_text(json.dumps(stream, indent=1))
    assert list(conversations([tmp_path / "out.json"])) == [found]


def test_a_summary_of_the_history_and_a_failed_request_are_told(tmp_path: Path) -> None:
    compact = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "uuid": "c", "sessionId": "s1"}
    failed = claude(22, 21, "assistant", [text("API Error: overloaded")], isApiErrorMessage=True)
    more = [
        compact,
        claude(20, 17, "user", "This session is continued", isCompactSummary=True),
        claude(21, 20, "user", "Thanks"),
        failed,
    ]
    [found] = read(tmp_path / "s1.jsonl", [*CLAUDE, *more])
    assert (found.error, found.metadata) == ("API Error: overloaded", {"history_rewritten": True})
    assert [turn.question for turn in turns_of(found.messages)][-1] == "Thanks"


def codex(type_: str, payload: Line) -> Line:
    return {"timestamp": "2026-01-02T03:04:05.000Z", "type": type_, "payload": payload}


def said(role: str, words: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def calls(id_: str, name: str, **more: Any) -> Line:
    return {"type": "function_call", "name": name, "arguments": '{"cmd": "ls"}', "call_id": id_, **more}


def output(id_: str, content: Any, kind: str = "function_call_output") -> Line:
    return {"type": kind, "call_id": id_, "output": content}


ITEMS: Final[list[Line]] = [
    said("user", "<environment_context>here</environment_context>"),
    said("developer", "Be brief."),
    said("user", "List the files."),
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}], "encrypted_content": "x"},
    calls("c1", "shell"),
    output("c1", '{"output": "a.txt", "metadata": {"exit_code": 0}}'),
    {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "c2"},
    output("c2", '{"output": "no", "metadata": {"exit_code": 1}}', "custom_tool_call_output"),
    said("assistant", "There is a.txt."),
    said("user", "Thanks"),
    said("assistant", "Welcome."),
]
USED: Final = {"input_tokens": 50, "output_tokens": 5}
CODEX: Final[list[Line]] = [
    codex("session_meta", {"id": "r1", "cli_version": "0.98.0", "base_instructions": {"text": "You code."}}),
    codex("turn_context", {"model": "gpt-5-codex"}),
    *(codex("response_item", item) for item in ITEMS),
    codex("event_msg", {"type": "agent_message", "message": "Welcome."}),
    codex("event_msg", {"type": "token_count", "info": None}),
    codex("event_msg", {"type": "token_count", "info": {"last_token_usage": USED}}),
    codex("future_record", {"safe": "ignored"}),
]


def test_a_session_of_codex_is_a_conversation(tmp_path: Path) -> None:
    counts = TraceCounts()
    [found] = read(tmp_path / "rollout.jsonl", CODEX, counts)
    assert [turn[2:4] for turn in turns_of(found.messages)] == [
        ("List the files.", "There is a.txt."), ("Thanks", "Welcome."),
    ]  # fmt: skip
    assert [call[:4] for call in calls_of(found.messages)] == [
        ("shell", {"cmd": "ls"}, "a.txt", None), ("apply_patch", {RAW: "*** Begin"}, "no", "no"),
    ]  # fmt: skip
    assert (found.key, found.model, found.input_tokens, found.output_tokens) == ("r1", "gpt-5-codex", 50, 5)
    assert [(step["name"], step.get("turn")) for step in found.steps or ()] == [
        ("shell", 1), ("apply_patch", 1), ("gpt-5-codex", 2),
    ]  # fmt: skip
    assert counts.malformed == 0


def test_what_the_program_put_in_front_of_a_question_is_not_said(tmp_path: Path) -> None:
    put = "<recommended_plugins>\n<a/> </b>\n</recommended_plugins>\n"
    told = [said("user", f"{put}<environment_context>x</environment_context>"), said("user", '<turn_aborted id="1"/>'),
            said("user", f"{put}Tide?"), said("assistant", "<b>High</b>")]  # fmt: skip
    [found] = read(tmp_path / "rollout.jsonl", [codex("response_item", item) for item in told])
    assert [(message["role"], message["content"]) for message in found.messages] == [
        ("user", "Tide?"), ("assistant", "<b>High</b>"),
    ]  # fmt: skip
    endless = said("user", f"<turn_aborted{'a' * 100_000}>{'</a' * 100_000}")  # minutes, if shorter names are tried
    [found] = read(tmp_path / "endless.jsonl", [codex("response_item", item) for item in [endless, *told]])
    assert [message["content"] for message in found.messages] == ["Tide?", "<b>High</b>"]


def test_the_first_versions_of_codex_wrote_the_items_alone(tmp_path: Path) -> None:
    first = {"id": "r1", "timestamp": "2025-06-01T00:00:00Z", "instructions": None}
    [found] = read(tmp_path / "old.jsonl", [first, {"record_type": "state"}, *ITEMS])
    [new] = read(tmp_path / "new.jsonl", CODEX)
    assert (found.key, found.messages) == ("r1", new.messages)


def test_turns_that_were_rolled_back_and_copied_beginnings_are_left_out(tmp_path: Path) -> None:
    back = codex("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    copied = codex("session_meta", {"id": "r0"})
    again = [codex("response_item", said("user", "Bye")), codex("event_msg", {"type": "error", "message": "quota"})]
    [found] = read(tmp_path / "a.jsonl", [CODEX[0], copied, *CODEX[1:], back, *again])
    assert [turn.question for turn in turns_of(found.messages)] == ["List the files.", "Bye"]
    assert (found.key, found.error) == ("r1", "quota")


def test_what_codex_prints_of_a_run_is_a_conversation_without_a_question(tmp_path: Path) -> None:
    run = {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "a", "exit_code": 2}
    served = {"id": "i2", "type": "mcp_tool_call", "server": "s", "tool": "find", "arguments": {"q": "x"}}
    events = [
        {"type": "thread.started", "thread_id": "t1"},
        {"type": "item.started", "item": run},
        {"type": "item.completed", "item": run},
        {"type": "item.completed", "item": {**served, "result": {"content": [text("5 m")]}, "status": "completed"}},
        {"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "5 m."}},
        {"type": "turn.completed", "usage": USED},
    ]
    [found] = read(tmp_path / "run.jsonl", events)
    assert [call[:4] for call in calls_of(found.messages)] == [
        ("command_execution", {"command": "ls"}, "a", "a"), ("find", {"q": "x"}, "5 m", None),
    ]  # fmt: skip
    assert (found.key, turns_of(found.messages)[0].answer, found.input_tokens) == ("t1", "5 m.", 50)


@pytest.mark.parametrize("lines", [CLAUDE, CODEX], ids=["claude", "codex"])
def test_sessions_are_recognised_and_loaded_in_any_packing(tmp_path: Path, lines: list[Line]) -> None:
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    loaded = [load(tmp_path, "a.jsonl", content), load(tmp_path, "a.json.gz", gzip.compress(content.encode()))]
    loaded.append(load(tmp_path, "a.json", json.dumps(lines, indent=1)))
    assert {(each.format, each.rows) for each in loaded} == {("traces", 1)}
    assert len({row["question"] for each in loaded for row in rows(each).values()}) == 1
    few = [{name: value for name, value in line.items() if "uuid" not in name.lower()} for line in lines[2:5]]
    assert Traces.reads(SourceFile.at(written(tmp_path / "c.jsonl", few)))
    assert not Traces.reads(SourceFile.at(written(tmp_path / "d.jsonl", [{"question": content, "answer": "A"}])))


@pytest.mark.parametrize("lines", [CLAUDE, CODEX], ids=["claude", "codex"])
def test_absurd_lines_cost_no_more_than_what_stands_in_them(tmp_path: Path, lines: list[Line]) -> None:
    counts = TraceCounts()
    for seed in range(60):
        chance = random.Random(seed)
        for found in read(tmp_path / f"{seed}.jsonl", [broken(line, chance) for line in lines], counts):
            assert found.messages
    assert counts.conversations > 40
    path = written(tmp_path / "cut.jsonl", lines)
    path.write_bytes(path.read_bytes()[:-30] + b"\n[1]\n\xff\n")
    [found] = conversations([path], counts=counts)
    assert len(turns_of(found.messages)) == 2


@pytest.mark.parametrize("lines", [CLAUDE, CODEX], ids=["claude", "codex"])
def test_other_ids_and_a_later_day_change_nothing(tmp_path: Path, lines: list[Line]) -> None:
    content = json.dumps(lines)
    for old, new in ((r'"u(\d+)"', r'"x\1"'), (r'"([tc]\d)"', r'"call_\1"'), (r'"msg_', '"m'), ('"a1"', '"b2"')):
        content = re.sub(old, new, content)
    content = content.replace("2026-06-15", "2031-02-03").replace("2026-01-02", "2031-02-03")
    assert read(tmp_path / "new.jsonl", json.loads(content)) == read(tmp_path / "old.jsonl", lines)


def test_lines_in_a_circle_and_a_huge_session_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circle = [claude(1, 2, "user", "Q", isSidechain=True), claude(2, 1, "assistant", [use("t", "Task")], **SIDE)]
    assert read(tmp_path / "c.jsonl", [*circle, claude(3, 3, "user", "Q"), claude(4, 3, "assistant", [text("A")])])
    monkeypatch.setattr("leadline.plugins.traces.sessions._MOST_LINES", 5)
    counts = TraceCounts()
    assert len(read(tmp_path / "many.jsonl", CLAUDE, counts)) == counts.too_large == 1
