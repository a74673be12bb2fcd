"""Judge calls per second, against bare ``litellm.acompletion`` with as many calls in flight, in the same process.

Run: ``python -m benchmarks.judge [CASES]`` (200 by default). The judge is an endpoint on loopback in a process of its
own, which takes 300 ms for a reply and refuses what exceeds 64 calls in flight. A case takes seven calls in two rounds,
as RAG evaluations do. Leadline's time includes prompts, fences, digests, the ledger's three entries per call, parsing
and retries; LiteLLM's is that of the same messages behind a semaphore. Then the four evaluators of a RAG case are
counted: how many calls they take together, with three contexts.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from pydantic import BaseModel

from benchmarks.machine import describe, timed, verdict
from leadline.evaluators.core.base import Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import ContextChunk, Row, RowField, RowScore
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.judge.engine.client import JudgeClient, shared_gate
from leadline.evaluators.judge.engine.event_loop import run
from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.evaluators.judge.engine.litellm_library import litellm
from leadline.evaluators.judge.engine.transport import LiteLLMTransport
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.prompting import Prompt, prompt_from
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.location import ledger_at
from tests.support.judges.agreeable_judge import in_form
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving

LATENCY_S = 0.3
IN_FLIGHT = 64
CALLS_PER_CASE = 7
ROUNDS = 3
RAG = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
TEXT = "The harbour was dredged to a depth of nine metres in 1931, and again in 1968 after the flood. " * 6

_PROMPTS = {
    "statements": prompt_from(
        "statements",
        "Break up the answer.\n{{ answer | data('answer') }}\nReply with JSON: {statements: []}",
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
        found = await judge.ask("statements", Statements, answer=row.actual_answer)
        verdicts = await asyncio.gather(
            *(judge.ask("verdict", Verdict, context=TEXT, statement=text) for text in found.statements)
        )
        return RowScore({"supported": sum(one.verdict for one in verdicts) / len(verdicts)})


def reply(question: Question) -> str:
    """Answer as a judge would, at some length."""
    schema = question.body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema:
        return json.dumps(in_form(schema, question.raw))
    if question.text.startswith("Break up"):
        answer = question.text.split("\n")[2]
        return json.dumps({"statements": [f"Statement {n} of {answer}" for n in range(CALLS_PER_CASE - 1)]})
    return json.dumps({"verdict": True, "reason": TEXT[:200]})


def serve(pipe: Connection) -> None:
    """Run the endpoint until told to stop; then say how many calls came and how many were in flight at most."""
    with serving(JudgeEndpoint(reply, latency=LATENCY_S, allowed=IN_FLIGHT)) as endpoint:
        pipe.send(endpoint.url)
        pipe.recv()
        pipe.send((len(endpoint.log), endpoint.most_in_flight, sum(line.fault is not None for line in endpoint.log)))


async def bare(config: JudgeConfig, messages: list[list[dict[str, str]]]) -> None:
    """Send messages with LiteLLM alone."""
    api, places = litellm(), asyncio.Semaphore(IN_FLIGHT)

    async def one(sent: list[dict[str, str]]) -> None:
        async with places:
            await api.acompletion(
                model=config.model, messages=sent, api_base=config.api_base, api_key="none", temperature=0.0,
                max_tokens=config.max_tokens, num_retries=0, max_retries=0,
            )  # fmt: skip

    await asyncio.gather(*map(one, messages))


def leadline(config: JudgeConfig, cases: int, round_: int, folder: Path) -> float:
    """Judge all cases with an empty ledger, and return the seconds it took."""
    ledger = ledger_at(folder / f"ledger-{round_}.sqlite", "benchmark")
    ctx = EvalContext(Settings(judges=(config,)), ledger=ledger)
    client = JudgeClient(config, transport=LiteLLMTransport(), ledger=ledger, gate=shared_gate(config))
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


def rag(config: JudgeConfig, cases: int, folder: Path) -> tuple[float, int]:
    """Judge RAG cases of three contexts with four evaluators at once; return the seconds and the calls it took."""
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
    with timed() as timing, ThreadPoolExecutor() as threads:
        scores = [score for part in threads.map(lambda name: get(name)().score(rows, ctx), RAG) for score in part]
    unscored = [score.values for score in scores if not score.complete]
    if unscored:
        raise SystemExit(f"{len(unscored)} row scores are missing: {unscored[0]}")
    return timing.seconds, LedgerReader(folder / "rag.sqlite").total("benchmark").answered


def recorded(config: JudgeConfig, cases: int) -> list[list[dict[str, str]]]:
    """Return the messages that the cases take."""
    statements = [f"Statement {n} of answer" for n in range(CALLS_PER_CASE - 1)]
    fence = "0123456789abcdef"
    of_a_case = [_PROMPTS["statements"].messages(fence, {"answer": "answer"})] + [
        _PROMPTS["verdict"].messages(fence, {"context": TEXT, "statement": text}) for text in statements
    ]
    return [[dict(message) for message in messages] for messages in of_a_case] * cases


def main() -> None:
    """Print the ratio."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    calls = cases * CALLS_PER_CASE
    print(f"{describe()}; {cases} cases, {calls:,} calls of {LATENCY_S * 1000:.0f} ms, {IN_FLIGHT} in flight")
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    config = JudgeConfig(model="openai/judge", api_base=ours.recv(), max_in_flight=IN_FLIGHT)
    messages = recorded(config, cases)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        run(bare(config, messages[:IN_FLIGHT]))  # connections
        for round_ in range(ROUNDS):
            with timed() as timing:
                run(bare(config, messages))
            seconds = leadline(config, cases, round_, Path(folder))
            ratios.append(timing.seconds / seconds)
            print(
                f"LiteLLM {timing.seconds:.2f} s ({calls / timing.seconds:,.0f} calls/s), "
                f"Leadline {seconds:.2f} s ({calls / seconds:,.0f} calls/s)"
            )
            time.sleep(0.5)
        seconds, asked = rag(config, cases, Path(folder))
    ours.send(None)
    received, most, refused = ours.recv()
    print(f"the endpoint saw {received:,} calls, {most} in flight at most, and refused {refused}")
    print(verdict("calls per second of bare LiteLLM", median(ratios), 0.85))
    print(f"{', '.join(RAG)}: {cases} cases in {seconds:.2f} s ({asked / seconds:,.0f} calls/s)")
    print(verdict("calls per case of four RAG evaluators", asked / cases, 5, at_least=False))


if __name__ == "__main__":
    main()
