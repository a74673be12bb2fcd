"""Judge calls per second, against bare aiohttp and bare ``litellm.acompletion`` with as many calls in flight.

Run: ``python -m benchmarks.judge [CASES]`` (200 by default). The judge is ``benchmarks/endpoint.py``, which takes
300 ms for a reply and works on 64 calls at a time. A case takes seven calls in two rounds, as RAG evaluations do.
Leadline's time includes prompts, fences, digests, the ledger's three entries per call, parsing and retries; that of the
others is for the same messages behind a semaphore. Then the four evaluators of a RAG case are counted: how many calls
they take together, with three contexts. Processor time is this process's.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import orjson
from pydantic import BaseModel

from benchmarks.endpoint import running
from benchmarks.machine import describe, timed, verdict
from leadline.evaluators.core import EvalContext, Metric, Spec, get
from leadline.evaluators.data import ContextChunk, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.prompting import Prompt, prompt_from
from leadline.evaluators.judge_client.call_limits import shared_gate
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.judge_client.event_loop import run
from leadline.evaluators.judge_client.litellm_transport import litellm
from leadline.evaluators.judge_client.providers import remote_transport
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.ledger.ledger import ledger_at
from leadline.tasks.ledger.ledger_report import LedgerReader

LATENCY_S = 0.3
IN_FLIGHT = 64
CALLS_PER_CASE = 7
ROUNDS = 3
RAG = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
TEXT = "The harbour was dredged to a depth of nine metres in 1931, and again in 1968 after the flood. " * 6

_PROMPTS = {
    "statements": prompt_from(
        "statements", "Break up the answer.\n{{ answer | data('answer') }}\nReply with JSON: {statements: []}"
    ),
    "verdict": prompt_from(
        "verdict",
        "Is the statement supported by the context?\n{{ context | data('context') }}\n"
        "{{ statement | data('statement') }}\nReply with JSON: {verdict, reason}",
    ),
}


class Statements(BaseModel):
    """What the first call asks for."""

    statements: list[str]


class Verdict(BaseModel):
    """What the others ask for."""

    verdict: bool
    reason: str


class Load(JudgeEvaluator):
    """One call for the statements, six for their verdicts."""

    spec = Spec(
        id="benchmark.load",
        name="Load",
        family="retrieval",
        inputs=(RowField.ACTUAL_ANSWER, RowField.RETRIEVED_CONTEXT),
        metrics=(Metric("supported", "Supported", higher_is_better=True, primary=True),),
        judge="llm",
        lane="judge",
    )

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the prompts of this module."""
        return _PROMPTS

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Ask seven times."""
        await judge.ask("statements", Statements, answer=row.actual_answer)
        statements = [f"Statement {number} of {row.actual_answer}" for number in range(CALLS_PER_CASE - 1)]
        verdicts = await asyncio.gather(
            *(judge.ask("verdict", Verdict, context=TEXT, statement=text) for text in statements)
        )
        return RowScore({"supported": sum(one.verdict for one in verdicts) / len(verdicts)})


Send = Callable[[list[dict[str, str]]], Awaitable[Any]]


async def behind_a_semaphore(send: Send, messages: list[list[dict[str, str]]]) -> None:
    """Send messages, so many at a time."""
    places = asyncio.Semaphore(IN_FLIGHT)

    async def one(sent: list[dict[str, str]]) -> None:
        async with places:
            await send(sent)

    await asyncio.gather(*map(one, messages))


async def bare_litellm(config: JudgeConfig, messages: list[list[dict[str, str]]]) -> None:
    """Send messages with LiteLLM alone."""
    api = litellm()
    await behind_a_semaphore(
        lambda sent: api.acompletion(
            model=config.model, messages=sent, api_base=config.api_base, api_key="none", temperature=0.0,
            max_tokens=config.max_tokens, num_retries=0, max_retries=0,
        ),
        messages,
    )  # fmt: skip


async def bare_aiohttp(config: JudgeConfig, messages: list[list[dict[str, str]]]) -> None:
    """Send messages with aiohttp alone."""
    url = f"{config.api_base}/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def send(sent: list[dict[str, str]]) -> None:
            body = {"model": "judge", "messages": sent, "temperature": 0.0, "max_tokens": config.max_tokens}
            async with session.post(url, data=orjson.dumps(body)) as response:
                orjson.loads(await response.read())

        await behind_a_semaphore(send, messages)


def others(config: JudgeConfig, messages: list[list[dict[str, str]]]) -> dict[str, float]:
    """Return the seconds that the bare clients take."""
    seconds = {}
    for name, bare in (("aiohttp", bare_aiohttp), ("LiteLLM", bare_litellm)):
        with timed() as timing:
            run(bare(config, messages))
        seconds[name] = timing.seconds
    return seconds


def leadline(config: JudgeConfig, cases: int, round_: int, folder: Path) -> float:
    """Judge all cases with an empty ledger, and return the seconds it took."""
    ledger = ledger_at(folder / f"ledger-{round_}.sqlite", "benchmark")
    ctx = EvalContext(Settings(judges=(config,)), ledger=ledger)
    client = JudgeClient(config, transport=remote_transport(config), ledger=ledger, gate=shared_gate(config, None))
    ctx._clients[config.key] = client
    rows = [Row(f"case {n}", "m", actual_answer=f"answer {n} of round {round_}") for n in range(cases)]
    with timed() as timing:
        scores = Load().score(rows, ctx)
    if not all(score.complete for score in scores):
        raise SystemExit("not every case was scored")
    total = LedgerReader(folder / f"ledger-{round_}.sqlite").total("benchmark")
    if total.answered != cases * CALLS_PER_CASE:
        raise SystemExit(f"{total.answered} calls were made instead of {cases * CALLS_PER_CASE}")
    return timing.seconds


def rag(config: JudgeConfig, cases: int, folder: Path) -> tuple[float, float, int]:
    """Judge RAG cases of three contexts with four evaluators at once.

    Returns seconds, seconds of processor, and calls.
    """
    ledger = ledger_at(folder / "rag.sqlite", "benchmark")
    settings = Settings(judges=(config.model_copy(update={"structured": "json_schema"}),), embedder="offline")
    ctx = EvalContext(settings, ledger=ledger)
    rows = [
        Row(
            f"case {n}",
            "m",
            question=f"How deep is berth {n}?",
            expected_answers=(f"Berth {n} is nine metres deep.",),
            retrieved_context=tuple(ContextChunk(f"{TEXT} Page {page} of {n}.") for page in range(3)),
            actual_answer=f"It is nine metres deep at berth {n}.",
        )
        for n in range(cases)
    ]
    for ref in get("answer_relevancy")().models(ctx):
        ctx.embed(ref, ["Load the model."])
    processor = time.process_time()
    with timed() as timing, ThreadPoolExecutor() as threads:
        scores = [score for part in threads.map(lambda name: get(name)().score(rows, ctx), RAG) for score in part]
    processor = time.process_time() - processor
    unscored = [score.values for score in scores if not score.complete]
    if unscored:
        raise SystemExit(f"{len(unscored)} row scores are missing: {unscored[0]}")
    return timing.seconds, processor, LedgerReader(folder / "rag.sqlite").total("benchmark").answered


def recorded(config: JudgeConfig, cases: int) -> list[list[dict[str, str]]]:
    """Return the messages that the cases take."""
    statements = [f"Statement {n} of answer" for n in range(CALLS_PER_CASE - 1)]
    fence = "0123456789abcdef"
    of_a_case = [_PROMPTS["statements"].messages(fence, {"answer": "answer"})] + [
        _PROMPTS["verdict"].messages(fence, {"context": TEXT, "statement": text}) for text in statements
    ]
    return [[dict(message) for message in messages] for messages in of_a_case] * cases


def main() -> None:
    """Print the ratios."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    calls = cases * CALLS_PER_CASE
    print(f"{describe()}; {cases} cases, {calls:,} calls of {LATENCY_S * 1000:.0f} ms, {IN_FLIGHT} in flight")
    ratios: dict[str, list[float]] = {"aiohttp": [], "LiteLLM": []}
    with running(LATENCY_S, IN_FLIGHT) as endpoint, tempfile.TemporaryDirectory() as folder:
        config = JudgeConfig(model="openai/judge", api_base=endpoint.url, max_in_flight=IN_FLIGHT)
        messages = recorded(config, cases)
        run(bare_litellm(config, messages[:IN_FLIGHT]))  # imports, connections
        for round_ in range(ROUNDS):
            bare = others(config, messages)
            processor = time.process_time()
            seconds = leadline(config, cases, round_, Path(folder))
            processor = time.process_time() - processor
            for name, theirs in bare.items():
                ratios[name].append(theirs / seconds)
            told = ", ".join(f"{name} {theirs:.2f} s ({calls / theirs:,.0f} calls/s)" for name, theirs in bare.items())
            print(
                f"{told}, Leadline {seconds:.2f} s ({calls / seconds:,.0f} calls/s, "
                f"{1000 * processor / calls:.2f} ms of processor a call)"
            )
        seconds, processor, asked = rag(config, cases, Path(folder))
        print(f"the endpoint saw {endpoint.stats().most_in_flight} in flight at most")
    print(verdict("calls per second of bare LiteLLM", median(ratios["LiteLLM"]), 0.85))
    print(f"calls per second of bare aiohttp: {median(ratios['aiohttp']):.2f}")
    print(
        f"{', '.join(RAG)}: {cases} cases in {seconds:.2f} s ({asked / seconds:,.0f} calls/s, "
        f"{1000 * processor / asked:.2f} ms of processor a call, embeddings included)"
    )
    print(verdict("calls per case of four RAG evaluators", asked / cases, 5, at_least=False))


if __name__ == "__main__":
    main()
