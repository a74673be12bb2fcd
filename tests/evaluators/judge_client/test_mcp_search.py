"""Search tools that are MCP servers: real ones, started as processes or asked over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from leadline.evaluators.data import Row
from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client import mcp_search, search
from leadline.evaluators.judge_client.calls import JudgeUnavailable
from leadline.evaluators.judge_client.event_loop import run
from leadline.evaluators.settings import SEARCH_KEY_VARIABLE
from tests.support.judges.judged import ScriptedJudge, fenced, one, reason, value
from tests.support.processes.ports import free_port
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MODULE = "tests.support.judges.mcp_server"
STDIO = f"mcp+stdio:{sys.executable} -m {MODULE} stdio"
FOUND = "About Ada\nhttps://a\nShe did it."


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_pause", AsyncMock())
    monkeypatch.setattr(mcp_search, "IDLE_S", 0.5)
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv(mcp_search.ENVIRONMENT_VARIABLE, "PYTHONPATH")


def listens(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: listens(port), 60, "the server listens", server)
        yield f"mcp+http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(10)


def found(name: str, *queries: str) -> list[str]:
    """Ask a tool, all at once, in the judges' loop."""

    async def ask() -> list[str]:
        tool = search.search_tool(name)
        return list(await asyncio.gather(*(tool(query) for query in queries)))

    return run(ask())


def test_a_server_is_started_asked_and_let_go() -> None:
    assert found(STDIO, "Ada", "Bob", "Cleo") == [FOUND, FOUND.replace("Ada", "Bob"), FOUND.replace("Ada", "Cleo")]
    servers = [server for kept in mcp_search._servers.values() for server in kept.values()]
    assert len(servers) == 1, "one process serves all questions"
    eventually(lambda: not any(mcp_search._servers.values()), 20, "an idle server is let go")


def test_a_server_is_asked_over_http(address: str) -> None:
    assert found(address, "Ada") == [FOUND]


def test_a_tool_is_named_where_it_is_not_called_search(address: str) -> None:
    assert found(f"{address}#shout", "Ada") == ["ADA"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{address}#whisper", "it has no tool 'whisper'; its tools are add, search, shout"),
        ("{address}#add", "its tool 'add' does not take one query"),
        ("mcp+http://127.0.0.1:1/mcp", "does not start"),
        (f"mcp+stdio:{sys.executable} -c pass", "does not start"),
    ],
)
def test_a_server_that_cannot_be_asked_says_why(address: str, name: str, said: str) -> None:
    with pytest.raises(JudgeUnavailable, match=said):
        found(name.format(address=address), "Ada")


def test_a_tool_that_fails_says_what_it_said(address: str) -> None:
    with pytest.raises(JudgeUnavailable, match="the tool said: Error executing tool search"):
        found(address, "fail")


def test_a_server_that_dies_is_started_again() -> None:
    with pytest.raises(JudgeUnavailable):
        found(STDIO, "die")
    assert found(STDIO, "Ada") == [FOUND]


def test_a_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SEARCH_TIMEOUT_S", "2")
    began = time.monotonic()
    with pytest.raises(JudgeUnavailable):
        found(STDIO, "hang")
    assert time.monotonic() - began < 40


def test_a_server_that_says_too_much_is_not_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_SEARCH_MAX_REPLY_MIB", "1")
    monkeypatch.setenv("LEADLINE_SEARCH_TIMEOUT_S", "5")
    monkeypatch.setattr(search, "ATTEMPTS", 1)
    eventually(lambda: not any(mcp_search._servers.values()), 20, "a server with another limit is let go")
    with pytest.raises(JudgeUnavailable):
        found(STDIO, "large")
    monkeypatch.delenv("LEADLINE_SEARCH_TIMEOUT_S")
    assert found(STDIO, "Ada") == [FOUND]


def test_servers_that_start_at_once_have_a_limit_each() -> None:
    async def ask(argument: str, most: int) -> object:
        place = (sys.executable, "-m", MODULE, "stdio", argument)
        return await mcp_search.ask(place, "search", "large", shown="library", timeout_s=60, most=most)

    async def both() -> list[object]:
        return await asyncio.gather(ask("strict", 2**20), ask("generous", 2**22), return_exceptions=True)

    strict, generous = run(both())
    assert isinstance(strict, Exception), "the limit of the other was taken"
    assert "losed" in str(strict), "the question waited until its time was up"
    assert generous == [{"title": "x" * 2_000_000}]


def test_a_server_sees_only_the_keys_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if "KEY" in name:
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-judge")
    monkeypatch.setenv("LIBRARY_KEY", "mine")
    monkeypatch.setenv(SEARCH_KEY_VARIABLE, "ours")
    monkeypatch.setenv(mcp_search.ENVIRONMENT_VARIABLE, "PYTHONPATH, LIBRARY_KEY")
    time.sleep(1.5)  # until a server of an earlier test, with its environment, is let go
    assert found(STDIO, "environment") == ["LEADLINE_SEARCH_API_KEY\nours\n\nLIBRARY_KEY\nmine"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mcp+stdio:", "names no command"),
        ("mcp+stdio:no-such-program-here --x", "is not on this machine"),
        ("mcp+stdio:'", "cannot be read"),
        ("mcp+ftp://host/x", "must be an address"),
        ("mcp+https://user:secret@host/mcp", "a password or a key"),
    ],
)
def test_a_name_that_is_none_is_refused_at_once(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        search.search_tool(name)
    assert "secret" not in str(error.value)


def test_an_agent_that_checks_facts_searches_with_it(address: str) -> None:
    asked = {"search": "Ada", "answer": "", "evaluation_score": None, "evaluation_summary": ""}
    says = {"search": "", "answer": "", "evaluation_score": 0.75, "evaluation_summary": "Mostly right."}
    judge = ScriptedJudge({"": [asked, says]})
    row = Row(case="c", model="m", question="Who was it?", actual_answer="It was Ada.")
    assert value(one("fact_check", judge, row, search_tool=address)) == 0.75
    assert fenced(judge.asked[1], "found") == [FOUND]
    assert (
        reason(one("fact_check", ScriptedJudge({"": asked}), row, search_tool=f"{address}#add")) == "judge_unavailable"
    )
