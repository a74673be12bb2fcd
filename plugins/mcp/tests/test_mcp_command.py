"""``leadline service mcp`` as a process, used by the official client over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from leadline.cli.main import run
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

RUN = "20260101-100000-aaaaaa"
COMMAND = [sys.executable, "-m", "leadline.cli.main", "service", "mcp"]
TOKEN = "a-token-of-the-test"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Store.open(tmp_path_factory.mktemp("mcp") / "store")
    make_run(made, RUN)
    return made.root


@contextmanager
def serving(store: Path, **variables: str) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """Serve over HTTP; yields the address and the header that it prints, and the process."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "--store", str(store)], env=os.environ | variables,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address, header = process.stdout.readline().strip(), process.stdout.readline().strip()
        yield address, header.removeprefix("Authorization: "), process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


async def runs_of(transport: Any, mode: str = "auto") -> list[str]:
    from mcp import Client

    async with Client(transport, mode=mode) as client:
        result = await client.call_tool("runs", {})
        return [line["id"] for line in (result.structured_content or {})["items"]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_starts_it_as_a_process(store: Path, mode: str) -> None:
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--store", str(store)], env=dict(os.environ)
    )
    assert asyncio.run(runs_of(stdio_client(program), mode)) == [RUN]


@pytest.mark.slow
def test_over_http_it_wants_its_token_and_refuses_pages_of_other_sites(store: Path) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def asked(authorization: str) -> list[str]:
        async with httpx2.AsyncClient(headers={"Authorization": authorization}, trust_env=False) as http:
            return await runs_of(streamable_http_client(address, http_client=http))

    with serving(store) as (address, header, process):
        assert address.startswith("http://127.0.0.1:")
        assert asyncio.run(asked(header)) == [RUN]
        for wrong in ("", "Bearer wrong", header.replace("Bearer", "Basic")):
            refused = httpx.post(address, headers={"Authorization": wrong}, json={}, trust_env=False)
            assert refused.status_code == 401
            assert header.split()[1] not in refused.text
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for foreign in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            answer = httpx.post(address, headers={"Authorization": header} | foreign, json=body, trust_env=False)
            assert answer.status_code in (403, 421), foreign
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=DEADLINE_S)[1]
        assert process.returncode == 0, said
        assert "Traceback" not in said


@pytest.mark.slow
def test_a_given_token_is_not_printed(store: Path) -> None:
    with serving(store, LEADLINE_MCP_TOKEN=TOKEN) as (address, header, _):
        assert header == "Bearer $LEADLINE_MCP_TOKEN"
        refused = httpx.post(address, headers={"Authorization": f"Bearer {TOKEN}x"}, json={}, trust_env=False)
        assert refused.status_code == 401
        taken = httpx.post(address, headers={"Authorization": f"Bearer {TOKEN}"}, json={}, trust_env=False)
        assert taken.status_code != 401


def test_what_cannot_be_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["service", "mcp", "--port", "9000", "--store", str(store)]) == 2
    assert "--port goes with --http" in capsys.readouterr().err
    monkeypatch.setenv("LEADLINE_MCP_TOKEN", "short")
    assert run(["service", "mcp", "--http", "--store", str(store)]) == 2
    assert "at least 12 characters" in capsys.readouterr().err
