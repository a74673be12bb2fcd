"""No wire reads more than its limit or waits longer than its deadline, whatever a server sends: over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import repeat
from typing import Any
from unittest.mock import AsyncMock

import orjson
import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client import http_client, search
from leadline.evaluators.judge_client.calls import JudgeUnavailable, JudgeUnparseable, Reply
from leadline.evaluators.judge_client.http_client import read_body
from leadline.evaluators.judge_client.openai_protocol import OpenAITransport
from leadline.evaluators.judge_client.transport import AttemptError, Transient, Unusable
from leadline.evaluators.settings import JudgeConfig
from leadline.tasks.collect.ask_target import HttpTransport
from leadline.tasks.collect.targets import Target
from tests.support.judges.raw_endpoint import Answer, RawEndpoint, answering, chunked, http
from tests.support.judges.scripted_judge import make_client, question

MESSAGES = [{"role": "user", "content": "Is it so?"}]
Ask = Callable[[RawEndpoint, float], Awaitable[Reply]]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in http_client._PROXIES:
        monkeypatch.delenv(name, raising=False)


def said(content: Any = "yes") -> bytes:
    return orjson.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "judge",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        }
    )


def config(endpoint: RawEndpoint, timeout_s: float) -> JudgeConfig:
    return JudgeConfig(model="openai/judge", api_base=endpoint.url, timeout_s=timeout_s, max_reply_mib=1.5)


async def directly(endpoint: RawEndpoint, timeout_s: float) -> Reply:
    return await OpenAITransport("judge").send(config(endpoint, timeout_s), MESSAGES, None, 8)


async def by_litellm(endpoint: RawEndpoint, timeout_s: float) -> Reply:
    from leadline.evaluators.judge_client.litellm_transport import LiteLLMTransport

    transport = LiteLLMTransport()
    transport._ready = True
    return await transport.send(config(endpoint, timeout_s), MESSAGES, None, 8)


async def by_http(endpoint: RawEndpoint, timeout_s: float) -> Reply:
    target = Target(key="app", url=endpoint.url, timeout_s=timeout_s, max_reply_mib=1.5)
    request = [{"role": "request", "content": '{"body": {"question": "q"}}'}]
    return await HttpTransport(target).send(target.config(), request, None, 8)


WIRES = [
    pytest.param(directly, id="direct"),
    pytest.param(by_http, id="http"),
    pytest.param(by_litellm, id="litellm", marks=pytest.mark.slow),
]


async def failing(answer: Answer, ask: Ask, timeout_s: float = 60) -> AttemptError:
    """Return how an attempt fails."""
    async with answering(answer) as endpoint:
        with pytest.raises(AttemptError) as failure:
            await ask(endpoint, timeout_s)
        return failure.value


LARGE: dict[str, Answer] = {
    "fifty megabytes": lambda head, body: http(said("x" * 50_000_000)),
    "endless": lambda head, body: chunked(repeat(b"x" * 500_000)),
    "gzip bomb": lambda head, body: http(gzip.compress(said("x" * 50_000_000)), content_encoding="gzip"),
    "deflate bomb": lambda head, body: http(zlib.compress(said("x" * 50_000_000)), content_encoding="deflate"),
}


@pytest.mark.parametrize("ask", WIRES)
@pytest.mark.parametrize("kind", LARGE)
async def test_a_reply_without_measure_is_given_up_at_the_limit(ask: Ask, kind: str) -> None:
    failure = await failing(LARGE[kind], ask)
    assert isinstance(failure, Unusable)
    assert failure.message == "the reply has more than 1.5 MiB"


@pytest.mark.parametrize("ask", WIRES)
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_compression_that_was_not_asked_for_is_not_undone(ask: Ask, encoding: str) -> None:
    failure = await failing(lambda head, body: http(b"x" * 100, content_encoding=encoding), ask)
    assert isinstance(failure, Unusable)
    assert f"compressed by {encoding}, which was not asked for" in failure.message


@pytest.mark.parametrize("ask", WIRES)
@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(lambda: (bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nx-a: " + b"b" * 100_000), id="head"),
        pytest.param(lambda: chunked(repeat(b"x")), id="body"),
        pytest.param(lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), id="continue"),
    ],
)
async def test_a_reply_that_trickles_ends_at_the_deadline(ask: Ask, slow: Callable[[], Iterable[bytes]]) -> None:
    await failing(lambda head, body: http(b"", 400), ask)  # what the wire itself needs is imported
    began = time.monotonic()
    failure = await failing(lambda head, body: slow(), ask, 0.5)
    assert isinstance(failure, Transient)
    assert "no reply within 0.5 s" in failure.message
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("ask", WIRES)
async def test_five_thousand_headers_are_no_reply(ask: Ask) -> None:
    lines = b"".join(b"x-%d: y\r\n" % number for number in range(5_000))
    failure = await failing(lambda head, body: b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n", ask)
    assert isinstance(failure, Transient)


@pytest.mark.parametrize("ask", WIRES)
async def test_a_redirect_is_not_followed(ask: Ask) -> None:
    seen: list[bytes] = []

    def answer(head: bytes, body: bytes) -> bytes:
        seen.append(head)
        return http(b"", 307, location="/v1/elsewhere")

    failure = await failing(answer, ask)
    assert isinstance(failure, Unusable)
    assert len(seen) == 1


@pytest.mark.parametrize("ask", WIRES)
@pytest.mark.parametrize("encoding", ["identity", "br"])
async def test_of_an_error_the_status_counts_however_long_it_is(ask: Ask, encoding: str) -> None:
    failure = await failing(lambda head, body: http(b"y" * 20_000_000, 503, content_encoding=encoding), ask)
    assert isinstance(failure, Transient)
    assert failure.status == 503
    assert len(failure.message) < 1_000


@pytest.mark.parametrize(
    "broken",
    [
        b"\x00\x01\x02 no HTTP\r\n\r\n",
        b"HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n" + said(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n" + said(),
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n" + said(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n" + said(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nyes\r\n",
        http('{"choices": [{"message": {"content": "café"}}]}'.encode("latin-1")),
        http(gzip.compress(said())[:-20], content_encoding="gzip"),
        http(b"[" * 900_000),
        http(b'{"choices": ' + b"9" * 900_000 + b"}"),
    ],
)
@pytest.mark.parametrize("ask", [WIRES[0], WIRES[2]])
async def test_what_is_no_reply_may_come_right_and_its_error_is_one_plain_line(ask: Ask, broken: bytes) -> None:
    failure = await failing(
        lambda head, body: [broken] if b"100000" in broken else broken, ask, 0.5 if b"100000" in broken else 60
    )
    assert isinstance(failure, Transient)
    assert failure.message.isprintable()
    assert "Traceback" not in failure.message
    assert "site-packages" not in failure.message


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"])
async def test_interim_replies_without_end_are_left_at_once_and_a_few_are_passed_over(interim: bytes) -> None:
    failure = await failing(lambda head, body: repeat(interim * 2_000), directly)
    assert isinstance(failure, Unusable)
    assert "more than 100 interim replies" in failure.message
    async with answering(lambda head, body: interim * 100 + http(said())) as endpoint:
        assert (await directly(endpoint, 60)).text == "yes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "y"}, {"type": "text", "text": "es"}], "yes"),
        (["yes"], ""), (5, ""), ({"verdict": "yes"}, ""), (None, ""), (True, ""), ([{"type": "image"}], ""),
    ]
)  # fmt: skip
async def test_litellm_s_wire_reads_content_as_the_direct_one_does(content: Any, text: str) -> None:
    async with answering(lambda head, body: http(said(content))) as endpoint:
        reply = await by_litellm(endpoint, 60)
    assert (reply.text, reply.finish_reason) == (text, "stop" if text else "no_text")


@pytest.mark.slow
async def test_json_that_litellm_cannot_read_is_unusable_and_told_without_its_traceback() -> None:
    failure = await failing(lambda head, body: http(b'{"choices": {"a": [1]}}'), by_litellm)
    assert "Traceback" not in failure.message
    assert ".py" not in failure.message


async def test_a_judge_whose_replies_nobody_can_use_is_up_and_cannot_be_read() -> None:
    async with answering(lambda head, body: http(said("x" * 2_000_000))) as endpoint:
        client = make_client(OpenAITransport("judge"), **config(endpoint, 60).model_dump())  # type: ignore[arg-type]
        with pytest.raises(JudgeUnparseable, match=r"asked 3 times: the reply has more than 1\.5 MiB"):
            await client.ask(question())
    assert len(endpoint.heads) == 3


@pytest.mark.parametrize("tool", ["http", pytest.param("mcp+http", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["fifty megabytes", "endless", "gzip bomb", "trickle"])
async def test_a_search_tool_is_bounded_too(monkeypatch: pytest.MonkeyPatch, tool: str, kind: str) -> None:
    monkeypatch.setattr(search, "_pause", AsyncMock())
    monkeypatch.setenv("LEADLINE_SEARCH_MAX_REPLY_MIB", "1")
    monkeypatch.setenv("LEADLINE_SEARCH_TIMEOUT_S", "0.5" if kind == "trickle" else "60")
    says = {"trickle": "no reply within 0.5 s", "gzip bomb": "more than 1 MiB|compressed by gzip"}
    async with answering(LARGE.get(kind, lambda head, body: chunked(repeat(b"x")))) as endpoint:
        find = search.search_tool(f"{tool}://127.0.0.1:{endpoint.port}/search")
        with pytest.raises(JudgeUnavailable, match=says.get(kind, "more than 1 MiB")):
            await find("Ada")


@pytest.mark.parametrize("value", ["many", "0", "-1", "nan", "inf", "1e9"])
def test_a_limit_of_searches_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LEADLINE_SEARCH_TIMEOUT_S", value)
    with pytest.raises(UsageError, match="LEADLINE_SEARCH_TIMEOUT_S"):
        search.search_tool("https://127.0.0.1/search")


async def test_what_follows_the_end_of_compressed_data_is_not_gathered() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        yield gzip.compress(said())
        while True:
            taken += 1
            await asyncio.sleep(0)
            yield b"x" * 500_000

    with pytest.raises(Transient, match="goes on after the end of its compressed data"):
        await read_body(endless(), encoding="gzip", most=1 << 20)
    assert taken == 1
