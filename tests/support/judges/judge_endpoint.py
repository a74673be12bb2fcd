"""A scripted judge that speaks real HTTP: an OpenAI-compatible endpoint with every fault that providers have.

Used as ``with serving(JudgeEndpoint(reply=...)) as endpoint: endpoint.url``. It keeps a log of what it was asked, how
it answered, and how many calls were in flight.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

_FENCE: Final = re.compile(r"(?<=-)[0-9a-f]{16}(?=>)")


@dataclass(frozen=True)
class Question:
    """What the judge was asked.

    Attributes:
        number: How many came before it.
        system: The system message.
        text: The messages after it, without the fences: equal questions have equal texts.
        raw: The same with the fences.
        body: The whole request.
        key: What stood in the Authorization header.
    """

    number: int
    system: str
    text: str
    raw: str
    body: Mapping[str, Any]
    key: str


@dataclass(frozen=True)
class Fault:
    """What happens instead of a proper reply.

    Attributes:
        status: HTTP status.
        headers: Further headers.
        body: What stands in the body.
        silent: Never answer.
        finish_reason: Why the reply stops, for a 200.
        text: What the judge says, for a 200.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    silent: bool = False
    finish_reason: str = "stop"
    text: str | None = None


def throttled(retry_after: float | None = None) -> Fault:
    """Return a 429."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault(429, headers, json.dumps({"error": {"message": "Rate limit reached", "type": "requests"}}))


def broken(status: int = 500, message: str = "upstream failed") -> Fault:
    """Return a server's error."""
    return Fault(status, {}, json.dumps({"error": {"message": message}}))


SILENT: Final = Fault(silent=True)
MALFORMED: Final = Fault(text='{"verdict": ')
GIBBERISH: Final = Fault(body="<html>it works</html>")
TRUNCATED: Final = Fault(finish_reason="length", text='{"verdict": "supp')


def at_random(shares: Sequence[tuple[float, Fault]]) -> Callable[[Question], Fault | None]:
    """Return a script of faults that each hit a share of the calls, drawn by the call's number."""

    def script(question: Question) -> Fault | None:
        draw = random.Random(question.number).random()
        for share, fault in shares:
            draw -= share
            if draw < 0:
                return fault
        return None

    return script


@dataclass
class Received:
    """A line of the endpoint's log."""

    question: Question
    fault: Fault | None
    in_flight: int
    answered: bool = False


class JudgeEndpoint:
    """A judge that says what a script says.

    Args:
        reply: What it says to a question.
        fault: What goes wrong with a question, if anything.
        latency: Seconds that a reply takes.
        allowed: Calls in flight above which it says 429.
        down_from: Number of the call from which on it says 503.
    """

    def __init__(
        self,
        reply: Callable[[Question], str] = lambda question: "yes",
        *,
        fault: Callable[[Question], Fault | None] = lambda question: None,
        latency: float = 0.0,
        allowed: int | None = None,
        down_from: int | None = None,
    ) -> None:
        self.reply = reply
        self.fault = fault
        self.latency = latency
        self.allowed = allowed
        self.down_from = down_from
        self.url = "http://none"  # until it is served
        self.log: list[Received] = []
        self.in_flight = 0
        self.most_in_flight = 0

    @property
    def answered(self) -> list[str]:
        """The texts of the questions that got a proper reply, as often as they did."""
        return [line.question.text for line in self.log if line.answered]

    def toml(self, name: str = "scripted", **settings: float | str) -> str:
        """Return the table of ``leadline.toml`` that makes it a judge."""
        table = {"model": "openai/judge", "api_base": self.url} | settings
        return f"[judges.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        line = self._take(json.loads(body), headers.get("authorization", ""))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self._answer(line, receive, send)
        finally:
            self.in_flight -= 1

    def envelope(self, question: Question, text: str, finish_reason: str) -> dict[str, Any]:
        """Return the reply around what it says."""
        return completion(question, text, finish_reason)

    def _take(self, body: Mapping[str, Any], key: str) -> Received:
        messages = body["messages"]
        raw = "\n".join(message["content"] for message in messages if message["role"] != "system")
        system = "\n".join(message["content"] for message in messages if message["role"] == "system")
        question = Question(len(self.log), system, _FENCE.sub("FENCE", raw), raw, body, key)
        line = Received(question, None, self.in_flight + 1)
        self.log.append(line)
        return line

    async def _answer(self, line: Received, receive: Any, send: Any) -> None:
        question = line.question
        if self.allowed is not None and self.in_flight > self.allowed:
            line.fault = throttled()
        elif self.down_from is not None and question.number >= self.down_from:
            line.fault = broken(503, "going down")
        else:
            line.fault = self.fault(question)
        fault = line.fault or Fault()
        if fault.silent:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if fault.status == 200:
            await asyncio.sleep(self.latency)
        if fault.body is not None:
            await _send(send, fault.status, fault.headers, fault.body)
            return
        text = self.reply(question) if fault.text is None else fault.text
        await _send(send, 200, {}, json.dumps(self.envelope(question, text, fault.finish_reason)))
        line.answered = line.fault is None


def completion(question: Question, text: str, finish_reason: str) -> dict[str, Any]:
    """Return a reply in OpenAI's form; a token is a word."""
    sent, said = len(question.raw.split()), len(text.split())
    return {
        "id": f"chatcmpl-{question.number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.body.get("model", ""),
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said},
    }


async def _send(send: Any, status: int, headers: Mapping[str, str], body: str) -> None:
    data = body.encode()
    every = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in every.items()],
        }
    )
    await send({"type": "http.response.body", "body": data})


@contextmanager
def serving(endpoint: JudgeEndpoint) -> Iterator[JudgeEndpoint]:
    """Serve an endpoint on a free port of loopback, in a thread."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                endpoint,
                log_config=None,
                log_level="critical",
                lifespan="off",
                timeout_graceful_shutdown=0,
                access_log=False,
            )
        )
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        endpoint.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        try:
            yield endpoint
        finally:
            server.should_exit = True
            thread.join(10)
