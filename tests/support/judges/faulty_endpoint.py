"""A judge, or a model, whose replies go wrong in every way that HTTP and the protocol allow, some of them each time.

``with faulty(FAULTS["sizes"], reply, share=0.02) as endpoint: endpoint.url``. Whether a request goes wrong, and how,
depends on its question and on how often that was asked before, and so not on the order in which requests come.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import repeat
from typing import Any

from tests.support.judges.judge_endpoint import _FENCE, Question, completion
from tests.support.judges.raw_endpoint import Said, chunked, converse, http

Fault = Callable[[dict[str, Any]], Said]
"""Makes what is sent of what should have been."""


def _as_json(document: object) -> bytes:
    return json.dumps(document).encode()


def _with(**changes: Any) -> Fault:
    """Return a fault in the reply's only choice."""

    def made(proper: dict[str, Any]) -> bytes:
        (choice,) = proper["choices"]
        message = choice["message"] | {name: changes[name] for name in changes if name == "content"}
        others = {name: changes[name] for name in changes if name == "finish_reason"}
        return http(_as_json(proper | {"choices": [choice | others | {"message": message}]}))

    return made


def _saying(change: Callable[[str], str]) -> Fault:
    def made(proper: dict[str, Any]) -> bytes:
        return _with(content=change(proper["choices"][0]["message"]["content"]))(proper)  # type: ignore[return-value]

    return made


@cache
def _large() -> bytes:
    return http(b" " * 50_000_000)


@cache
def _bomb() -> bytes:
    return http(gzip.compress(b" " * 50_000_000), content_encoding="gzip")


FAULTS: dict[str, dict[str, Fault]] = {
    "statuses": {
        "500": lambda proper: http(b"oops", 500),
        "503": lambda proper: http(b"busy", 503),
        "429": lambda proper: http(b"slower", 429, retry_after="0.1"),
        "429 for ever": lambda proper: http(b"slower", 429, retry_after="1e30"),
        "999": lambda proper: http(b"what", 999),
    },
    "wire": {
        "no HTTP": lambda proper: b"\x00\x01\x02\r\n\r\n",
        "closed": lambda proper: b"",
        "wrong length": lambda proper: b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n" + _as_json(proper),
        "headers": lambda proper: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5_000 + b"\r\n",
        "not UTF-8": lambda proper: http(b"\xff" + _as_json(proper)),
    },
    "sizes": {
        "fifty megabytes": lambda proper: _large(),
        "endless": lambda proper: chunked(repeat(b"x" * 1_000_000)),
        "bomb": lambda proper: _bomb(),
        "br": lambda proper: http(_as_json(proper), content_encoding="br"),
        "redirect": lambda proper: http(b"", 302, location="http://127.0.0.1:9/"),
    },
    "silence": {"silent": lambda proper: None, "a byte at a time": lambda proper: chunked(repeat(b" "))},
    "content": {
        "list": _with(content=["yes"]),
        "number": _with(content=7),
        "withheld": _with(content=None, finish_reason="content_filter"),
        "nothing": _with(content=None),
        "cut off": _with(content=None, finish_reason="length"),
    },
    "form": {
        "negated": _saying(lambda text: f"It is not {text}"),
        "more text": _saying(lambda text: f"{text} Or rather not."),
        "repeated key": _saying(lambda text: '{"statements": [], "statements": ["a"]}'),
        "broken JSON": _saying(lambda text: '{"statements": ['),
    },
    "figures": {
        "tokens": lambda proper: http(_as_json(proper | {"usage": {"prompt_tokens": -5, "completion_tokens": 10**30}})),
        "end": _with(finish_reason="\x1b[31mstop"),
    },
}


@dataclass
class FaultyEndpoint:
    """A server of the protocol, or of ``{"question": …}`` with ``{"answer": …}``.

    Attributes:
        faults: What goes wrong.
        reply: What is said to a question.
        share: The share of the requests that each fault hits.
        url: Its address.
        asked: Requests by question.
        went_wrong: Requests by fault.
    """

    faults: Mapping[str, Fault]
    reply: Callable[[Question], str]
    share: float
    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    went_wrong: Counter[str] = field(default_factory=Counter)

    def answer(self, head: bytes, sent: bytes) -> Said:
        body = json.loads(sent)
        raw = body["messages"][-1]["content"] if "messages" in body else body["question"]
        if "messages" in body and len(body["messages"]) > 2:
            raw = "\n".join(message["content"] for message in body["messages"][1:])
        text = _FENCE.sub("FENCE", raw)
        question = Question(0, "", text, raw, body, "")
        said = self.reply(question)
        proper = completion(question, said, "stop") if "messages" in body else {"answer": said}
        first = text.split("\nYour last reply")[0]
        self.asked[first] += 1
        draw = random.Random(f"{first} {self.asked[first]}").random()
        for name, fault in self.faults.items():
            draw -= self.share
            if draw < 0:
                self.went_wrong[name] += 1
                return fault(proper)
        return http(_as_json(proper))


@contextmanager
def faulty(faults: Mapping[str, Fault], reply: Callable[[Question], str], share: float) -> Iterator[FaultyEndpoint]:
    """Serve on a free port of loopback, in a thread."""
    endpoint, loop, started = FaultyEndpoint(faults, reply, share), asyncio.new_event_loop(), threading.Event()

    async def main() -> None:
        server = await asyncio.start_server(partial(converse, endpoint.answer), "127.0.0.1", 0)
        endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        started.set()

    def run() -> None:
        loop.run_until_complete(main())
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
