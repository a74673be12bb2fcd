"""An OpenAI-compatible endpoint in a process of its own, fast enough not to be what a benchmark measures.

Run: ``python -m benchmarks.endpoint --latency 0.3 --places 64``; it prints its address and serves until its standard
input ends. Like a real server it works on so many calls at a time and lets the others wait. It answers what it is
asked for, whoever asks: a JSON schema of the request or of the prompt is filled in, the JSON that DeepEval's prompts
describe is given, and anything else gets a sentence. ``GET /stats`` says what came since ``POST /reset``.

Run ``python -m benchmarks.endpoint --capacity`` to measure what it can serve to a bare client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

SENTENCE: Final = "The harbour was dredged to a depth of nine metres in 1931, and again in 1968 after the flood."
ITEMS: Final = 3
"""Statements, claims or verdicts that a reply lists where nothing says how many."""

FAULTS: Final = (("429", 0.05), ("500", 0.03), ("garbage", 0.03))
"""Share of each fault with ``--faults``."""

_DEEPEVAL: Final = json.dumps(
    {
        "truths": [SENTENCE] * ITEMS,
        "claims": [SENTENCE] * ITEMS,
        "statements": [SENTENCE] * ITEMS,
        "verdicts": [{"verdict": "yes", "reason": SENTENCE}] * ITEMS,
        "reason": SENTENCE,
    }
)
_RAGAS_SCHEMA: Final = "specified in JSON Schema:\n"
_FORM: Final = "in this form:\n"
_COUNT: Final = re.compile(r"exactly (\d+)")
_HEAD: Final = "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}\r\n"
_REASONS: Final = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


def reply_to(body: Mapping[str, Any]) -> str:
    """Return what a model would say to a request."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema is None and _RAGAS_SCHEMA in prompt:
        schema, _ = json.JSONDecoder().raw_decode(prompt.partition(_RAGAS_SCHEMA)[2])
    if schema is not None:
        return json.dumps(_filled(schema, schema, prompt))
    _, form, example = prompt.rpartition(_FORM)
    if form:  # ours, where no schema was sent
        found, _ = json.JSONDecoder().raw_decode(example.strip())
        return json.dumps(
            {
                name: value[:1] * _asked_for(prompt) if isinstance(value, list) else value
                for name, value in found.items()
            }
        )
    return _DEEPEVAL if "JSON" in prompt else SENTENCE


def _filled(schema: Mapping[str, Any], root: Mapping[str, Any], prompt: str) -> Any:
    if "$ref" in schema:
        return _filled(root["$defs"][schema["$ref"].rpartition("/")[2]], root, prompt)
    if "anyOf" in schema:
        return _filled(schema["anyOf"][0], root, prompt)
    if "enum" in schema:
        return "yes" if "yes" in schema["enum"] else schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _filled(part, root, prompt) for name, part in schema["properties"].items()}
        case "array":
            return [_filled(schema["items"], root, prompt)] * _asked_for(prompt)
        case "string":
            return SENTENCE
        case "boolean":
            return False
        case _:
            return 1


def _asked_for(prompt: str) -> int:
    """Return how many items the prompt wants; the last count is the one in the instructions."""
    found = _COUNT.findall(prompt)
    return int(found[-1]) if found else ITEMS


@dataclass
class Stats:
    """What came since the last reset.

    Attributes:
        calls: Requests for completions, each try counted.
        faults: How many were answered by each fault.
        most_in_flight: Requests that were waiting or in work at the same time.
        first: When the first came, in seconds since 1970.
        last: When the last reply was sent.
        busy: Seconds during which at least one was waiting or in work.
    """

    calls: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    most_in_flight: int = 0
    first: float = 0.0
    last: float = 0.0
    busy: float = 0.0


class Endpoint:
    """Answers calls, so many at a time.

    Args:
        latency: Seconds that a reply takes.
        places: Calls in work at a time; others wait for their turn.
        faults: Fail a share of the calls, see :data:`FAULTS`.
    """

    def __init__(self, latency: float, places: int, *, faults: bool = False) -> None:
        self._latency = latency
        self._free = places
        self._waiting: deque[tuple[asyncio.Transport, bytes]] = deque()
        self._faults = faults
        self._in_flight = 0
        self._busy_since = 0.0
        self._number = 0
        self.stats = Stats()

    def take(self, transport: asyncio.Transport, method: str, path: str, body: bytes) -> None:
        """Answer one request."""
        if path.endswith("/chat/completions"):
            stats = self.stats
            stats.calls += 1
            stats.first = stats.first or time.time()
            self._number += 1
            if not self._in_flight:
                self._busy_since = time.time()
            self._in_flight += 1
            stats.most_in_flight = max(stats.most_in_flight, self._in_flight)
            if self._faults and (fault := self._drawn()):
                stats.faults[fault] = stats.faults.get(fault, 0) + 1
                if fault != "garbage":
                    self._send(transport, int(fault), {"error": {"message": "as scripted"}})
                    return
                body = b""
            self._waiting.append((transport, body))
            self._admit()
        elif path == "/stats":
            _write(transport, 200, orjson.dumps(self.stats))
        elif path == "/reset" and method == "POST":
            self.stats = Stats()
            _write(transport, 200, b"{}")
        else:
            _write(transport, 404, b'{"error": {"message": "there is nothing here"}}')

    def _drawn(self) -> str:
        draw = random.Random(self._number).random()
        for fault, share in FAULTS:
            draw -= share
            if draw < 0:
                return fault
        return ""

    def _admit(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            transport, body = self._waiting.popleft()
            asyncio.get_running_loop().call_later(self._latency, self._answer, transport, body)

    def _answer(self, transport: asyncio.Transport, body: bytes) -> None:
        self._free += 1
        request = orjson.loads(body) if body else {}
        text = reply_to(request) if body else "I am sorry, as a judge I"
        sent, said = len(body) // 5, len(text) // 5
        choices = [
            {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for at in range(int(request.get("n") or 1))
        ]
        completion = {
            "id": f"chatcmpl-{self._number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.get("model", "judge"),
            "choices": choices,
            "usage": {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said},
        }
        self._send(transport, 200, completion)
        self._admit()

    def _send(self, transport: asyncio.Transport, status: int, body: Mapping[str, Any]) -> None:
        self._in_flight -= 1
        self.stats.last = time.time()
        if not self._in_flight:
            self.stats.busy += self.stats.last - max(self._busy_since, self.stats.first)
        _write(transport, status, orjson.dumps(body))


def _write(transport: asyncio.Transport, status: int, body: bytes) -> None:
    more = "retry-after: 1\r\n" if status == 429 else ""
    if not transport.is_closing():
        transport.write(_HEAD.format(status, _REASONS[status], len(body), more).encode() + body)


class Connection(asyncio.Protocol):
    """One connection, which is kept open; requests have a length."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:])
            after = end + 4 + int(headers.get("content-length", 0))
            if len(self._buffer) < after:
                return
            body, self._buffer = self._buffer[end + 4 : after], self._buffer[after:]
            method, path, _ = lines[0].split(" ", 2)
            self._endpoint.take(self._transport, method, path, body)


async def serve(endpoint: Endpoint) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(endpoint), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


class Remote:
    """An endpoint in another process.

    Args:
        address: Its address.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.url = f"{address}/v1"

    def reset(self) -> None:
        """Forget what came."""
        urllib.request.urlopen(urllib.request.Request(f"{self._address}/reset", method="POST"))

    def stats(self) -> Stats:
        """Return what came since the last reset."""
        with urllib.request.urlopen(f"{self._address}/stats") as reply:
            return Stats(**json.load(reply))


@contextmanager
def running(latency: float, places: int, *, faults: bool = False) -> Iterator[Remote]:
    """Run an endpoint in a process of its own.

    Args:
        latency: Seconds that a reply takes.
        places: Calls in work at a time.
        faults: Fail a share of the calls.
    """
    command = [sys.executable, "-m", "benchmarks.endpoint", "--latency", str(latency), "--places", str(places)]
    process = subprocess.Popen(
        [*command, *(["--faults"] if faults else [])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Remote(process.stdout.readline().strip())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def capacity(places: int = 64, calls: int = 4_000) -> float:
    """Return how many calls a second the endpoint serves to a bare client, without any latency.

    Args:
        places: Calls in flight.
        calls: Calls made.
    """
    body = orjson.dumps({"model": "judge", "messages": [{"role": "user", "content": f"{SENTENCE} " * 30}]})
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)

    async def one(host: str, port: int, count: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for _ in range(count):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
        writer.close()

    async def every(address: str) -> float:
        host, _, port = address.removeprefix("http://").partition(":")
        began = time.perf_counter()
        await asyncio.gather(*(one(host, int(port), calls // places) for _ in range(places)))
        return (calls // places) * places / (time.perf_counter() - began)

    with running(0.0, places) as endpoint:
        return asyncio.run(every(endpoint.url.removesuffix("/v1")))


def main() -> None:
    """Serve, or measure the capacity."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--places", type=int, default=64)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--capacity", action="store_true")
    options = parser.parse_args()
    if options.capacity:
        print(f"{capacity(options.places):,.0f} calls/s")
    else:
        asyncio.run(serve(Endpoint(options.latency, options.places, faults=options.faults)))


if __name__ == "__main__":
    main()
