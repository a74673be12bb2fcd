"""Criteria that people judge by: what the team tells them in ``leadline.toml``, and what the judge is asked.

::

    [labels.byop]
    instructions = "Good: all that was asked for is right. A missing unit is no error."
    examples = ["Good: '12 metres' for 'How deep?', expected '12 m'."]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground import UsageError, count, listing, named_tables
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.tasks.judges.labels.judged_rows import JudgedMetric
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.store.store import JOBS, Run, Store

_NAME: Final = re.compile(r"[\w.#:-]{1,200}")
_LONGEST: Final = 20_000


class Guide(BaseModel):
    """A table ``[labels.METRIC]``: EVALUATOR, EVALUATOR.METRIC in quotes, or a question such as ``right``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instructions: str = Field("", max_length=_LONGEST, description="What those who label are told.")
    examples: tuple[Annotated[str, Field(max_length=_LONGEST)], ...] = Field((), description="Answers and verdicts.")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion that people judge by.

    Attributes:
        instructions: What their team tells them.
        examples: Examples that it gives.
        prompts: What the judge is asked.
    """

    instructions: str = ""
    examples: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()

    @property
    def contents(self) -> str:
        """Say in a few words what there is; ``""`` where there is nothing."""
        parts = (
            "instructions" * bool(self.instructions),
            count(len(self.examples), "example") * bool(self.examples),
            "what the judge is asked" * bool(self.prompts),
        )
        found = [part for part in parts if part]
        return listing(found) if found else ""


def guides(file: Path | None = None) -> dict[str, Guide]:
    """Return what a team tells those who label, by the name of what they are asked.

    Args:
        file: The configuration file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    return named_tables(
        "labels",
        Guide,
        file,
        names=_NAME,
        rule='It is EVALUATOR, or "EVALUATOR.METRIC" in quotes.',
        example='instructions = "…"',
    )


def criterion_of(store: Store, run: Run, metric: JudgedMetric) -> Criterion:
    """Return what people judge by where they label a metric of a run.

    Raises:
        UsageError: ``leadline.toml`` is broken.
    """
    known = guides()
    guide = known.get(metric.id) or known.get(metric.evaluator) or Guide()
    return Criterion(guide.instructions.strip(), guide.examples, _prompts(store, run, metric.evaluator))


def _prompts(store: Store, run: Run, evaluator: str) -> tuple[str, ...]:
    store.fetch_plan(run)
    if not (run.plan / JOBS).exists():
        return ()
    settings, jobs = read_jobs(run.plan / JOBS)
    job = next((job for job in jobs if job.evaluator == evaluator), None)
    if job is None:
        return ()
    try:
        load_own_evaluators(settings)
        built = job.build()
    except UsageError as error:  # its file is gone, or has changed
        return (f"It cannot be shown: {error}",)
    return tuple(built.criterion()) if isinstance(built, JudgeEvaluator) else ()
