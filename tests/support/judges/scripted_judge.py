"""A judge without a wire, and an evaluator that asks it: for tests of the engine in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from leadline.evaluators.judge_client.budget import Budget
from leadline.evaluators.judge_client.call_limits import Gate
from leadline.evaluators.judge_client.calls import Call, Ledger, MemoryLedger, Reply
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.settings import JudgeConfig
from tests.support.judges.virtual_time import now


class ScriptedTransport:
    """Answers attempt ``n`` by ``script(n, messages)``, which returns a reply or raises.

    Args:
        script: What happens.
        latency: Seconds that an attempt takes.
    """

    def __init__(
        self,
        script: Callable[[int, list[dict[str, str]]], Reply | str] = lambda n, messages: "yes",
        latency: float = 1.0,
    ) -> None:
        self.script = script
        self.latency = latency
        self.sent: list[list[dict[str, str]]] = []
        self.times: list[float] = []
        self.max_tokens: list[int] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        number = len(self.sent)
        self.sent.append(messages)
        self.times.append(now())
        self.max_tokens.append(max_tokens)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency)
            said = self.script(number, messages)
        finally:
            self.in_flight -= 1
        return said if isinstance(said, Reply) else Reply(said)


def question(text: str = "Is it so?", *, purpose: str = "test:ask", trial: int = 0, attempt: int = 0) -> Call:
    return Call(
        judge={"model": "m"},
        purpose=purpose,
        messages=({"role": "user", "content": text},),
        canonical=text,
        trial=trial,
        attempt=attempt,
    )


def make_client(
    transport: ScriptedTransport,
    *,
    ledger: Ledger | None = None,
    budget: Budget | None = None,
    gate: Gate | None = None,
    **config: Any,
) -> JudgeClient:
    """Return a client that lives in the running loop's time."""
    return JudgeClient(
        JudgeConfig(**({"model": "m"} | config)),
        transport=transport,
        ledger=MemoryLedger() if ledger is None else ledger,
        budget=budget,
        gate=gate,
        clock=asyncio.get_running_loop().time,
    )
