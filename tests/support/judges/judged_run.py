"""A run of two judge evaluators that share a question, as a process of its own that tests can kill.

``python -m tests.support.judges.judged_run STORE DATASET URL`` plans, scores and gathers, without Prefect, and prints
what became of it as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from leadline.evaluators.core import EvalContext, Metric, Spec, registry
from leadline.evaluators.data import Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.prompting import Prompt, prompt_from
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks import pipeline
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import Choice
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.score.executor import LocalLanes, drive
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import Question

STATEMENTS: Final = prompt_from("statements", "List the statements of: {{ answer | data('answer') }}")
CLAIM: Final = prompt_from("claim", "Is this supported? {{ claim | data('claim') }} Say yes or no.")
LENGTH: Final = prompt_from("length", "Is the answer brief? {{ claims | data('claims') }} Say yes or no.")


class Statements(BaseModel):
    statements: list[str]


def _spec(name: str) -> Spec:
    return Spec(
        id=f"test.{name}",
        name=name.title(),
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(Metric(name, name.title(), higher_is_better=True, primary=True),),
        judge="llm",
        lane="judge",
    )


class Supported(JudgeEvaluator):
    """Share of the answer's statements that the judge says yes to; as many calls as statements, and one."""

    spec = _spec("supported")

    def all_prompts(self) -> dict[str, Prompt]:
        return {"statements": STATEMENTS, "claim": CLAIM}

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        found = await judge.ask("statements", Statements, answer=row.actual_answer)
        words = await asyncio.gather(
            *(judge.choose("claim", ("yes", "no"), claim=statement) for statement in found.statements)
        )
        return RowScore({"supported": sum(word == "yes" for word in words) / max(1, len(words))})


class Brief(JudgeEvaluator):
    """Asks for the statements, too, so that they must be shared, and then one question."""

    spec = _spec("brief")

    def all_prompts(self) -> dict[str, Prompt]:
        return {"statements": STATEMENTS, "length": LENGTH}

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        found = await judge.ask("statements", Statements, answer=row.actual_answer)
        word = await judge.choose("length", ("yes", "no"), claims="; ".join(found.statements))
        return RowScore({"brief": float(word == "yes")})


EVALUATORS: Final = (Brief, Supported)
CALLS_PER_ROW: Final = 4
"""One for the statements, two claims, one for the length."""


def register() -> None:
    registry.all_evaluators()
    for kind in EVALUATORS:
        registry.register(kind)


def reply(question: Question) -> str:
    """Say what a judge would say, the same to the same question."""
    if question.text.startswith("List"):
        answer = question.text.split("\n")[1]
        return json.dumps({"statements": [f"{answer} {part}" for part in ("first", "second")]})
    said = question.text.split("\nYour last reply")[0]
    return "yes" if hashlib.sha256(said.encode()).digest()[0] % 3 else "no"


def write_rows(path: Path, count: int) -> Path:
    rows = [
        {"case": f"c{n}", "model": "m", "question": f"Question {n}?", "actual_answer": f"Answer number {n}."}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def judge_at(url: str, **changes: Any) -> JudgeConfig:
    """Return a judge that is patient enough for a busy machine: tests count calls, and slowness must repeat none."""
    values = {"model": "openai/judge", "api_base": url, "timeout_s": 30.0, "down_after_s": 1.0, "max_in_flight": 16}
    return JudgeConfig(**(values | changes))


def evaluate(
    store: Store,
    dataset: Path,
    judges: Sequence[JudgeConfig],
    *,
    trials: int = 1,
    limits: Limits | None = None,
    canaries: str | None = None,
) -> dict[str, Any]:
    """Plan, score and gather; returns the run, its scores, and whether the judge was down."""
    register()
    loaded = load_dataset(store, dataset)
    planned = pipeline.plan_run(
        store, loaded, Choice(tuple(kind() for kind in EVALUATORS), {}), Settings(judges=tuple(judges)),
        model_keys=(), processes=1, config={}, trials=trials, limits=limits, canaries=canaries,
    )  # fmt: skip
    down: list[str] = []

    def finished(chunk: Chunk, future: Future[ChunkResult]) -> None:
        error = future.exception()
        if isinstance(error, JudgeDown):
            down.append(str(error))
        elif error is not None:
            raise error

    with LocalLanes(1, planned.chunks) as lanes, ThreadPoolExecutor(8) as threads:
        drive(planned.chunks, lanes.widths, lambda chunk: threads.submit(lanes.score, chunk), finished)
    run = store.run(planned.run)
    pipeline.gather_scores(store, run)
    with open_run(store, run, read_only=True) as connection:
        scores = connection.execute(
            "SELECT metric, row_id, trial, status::VARCHAR, reason, value FROM scores JOIN metrics USING (metric_id) "
            "ORDER BY ALL"
        ).fetchall()
        evidence = connection.execute(
            "SELECT evaluator_id, row_id, trial, evidence FROM evidence WHERE error IS NULL ORDER BY ALL"
        ).fetchall()
    return {
        "run": run.id,
        "to_compute": planned.to_compute,
        "scores": [list(line) for line in scores],
        "evidence": [list(line) for line in evidence],
        "down": down,
        "calls": pipeline.count_judge_calls(store, run),
    }


def main() -> None:
    store, dataset, url = sys.argv[1:]
    print(json.dumps(evaluate(Store.open(store), Path(dataset), [judge_at(url)])))


if __name__ == "__main__":
    main()
