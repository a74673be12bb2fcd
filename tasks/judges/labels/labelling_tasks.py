"""Tasks that people are given to label, with what they judge by: a page that works by itself, or tasks for other tools.

Criteria are what the team tells its people in ``leadline.toml``, and what the judge is asked::

    [labels.byop]
    instructions = "Good: all that was asked for is right. A missing unit is no error."
    examples = ["Good: '12 metres' for 'How deep?', expected '12 m'."]
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground import UsageError, count, listing, named_tables
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.tasks.db import open_run
from leadline.tasks.ground.templating import render
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.judges.labels.label_files import csv_text, unknown_format
from leadline.tasks.judges.labels.label_report import LEAST_LABELS
from leadline.tasks.judges.labels.label_sets import Drawn
from leadline.tasks.judges.labels.labelled_rows import Tie, texts_of
from leadline.tasks.load.label import ADJUDICATED
from leadline.tasks.plan.jobs import read_jobs
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.statistics.label_correction import time_of_person
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
    """A criterion that people judge by."""

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


TEMPLATE: Final = "labelling_page.html"

Task = Mapping[str, Any]


def tasks_of(store: Store, run: Run, judged: JudgedRows, places: Sequence[int], sample: str) -> list[Task]:
    """Return what people see of rows, without model and judge, in the order in which they are shown."""
    numbers = [int(judged.rows[place]) for place in places]
    with open_run(store, run, read_only=True) as connection:
        texts = texts_of(connection, numbers)
    tasks: list[Task] = []
    seen: set[str] = set()
    for place, number in zip(places, numbers, strict=True):
        key = judged.keys[place]
        if key in seen:  # two models gave the same answer
            continue
        seen.add(key)
        about = {"key": key, "question_id": judged.metric.id, "sample": sample, "case": judged.cases[place]}
        tasks.append(about | texts[number])
    return tasks


def tasks_of_ties(store: Store, run: Run, judged: JudgedRows, tied: Sequence[Tie]) -> list[Task]:
    """Return what the person sees who decides ties, with what others said; the label is :data:`ADJUDICATED`."""
    tasks = tasks_of(store, run, judged, [tie.index for tie in tied], "")
    return [
        {**task, "sample": tie.sample, "said": tie.said, "person": ADJUDICATED}
        for task, tie in zip(tasks, tied, strict=True)
    ]


def why_more(judged: JudgedRows, drawn: Sequence[Drawn], number: int) -> str:
    """Return why more rows than were drawn would be needed, and how to get them; ``""`` where these will do."""
    rows, got = Counter(judged.models), Counter(judged.models[row.index] for row in drawn)
    wanted = {model: min(LEAST_LABELS, most) for model, most in rows.items()}
    missing = max(wanted[model] - got[model] for model in rows)
    if missing <= 0:
        return ""
    total = len(rows) * max(wanted.values())
    if total <= number:  # cases with their copies left places empty
        total = number + len(rows) * missing
    cost = f"--n {total}, {time_of_person(total)}"
    if len(rows) == 1:
        return f"A judge is certified by {LEAST_LABELS} labels or more: {cost}." if total >= LEAST_LABELS else ""
    least, most = min(got[model] for model in rows), max(got.values())
    each = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"These are {each} rows of each of {len(rows)} models, which tells little of any one: enough of each would be "
        f"{cost}; or take one alone: --model {shlex.quote(min(rows))}."
    )


def written(tasks: Sequence[Task], metric: JudgedMetric, path: Path, criterion: Criterion) -> str:
    """Return tasks as the text of a file: a page for ``.html``, CSV for ``.csv``, tasks of Label Studio for ``.json``.

    Args:
        path: The file, for its suffix; JSON Lines for ``.jsonl``.

    Raises:
        UsageError: It has another suffix.
    """
    if path.suffix in (".html", ".htm"):
        return labelling_page(tasks, metric, criterion)
    if path.suffix == ".json":
        return json.dumps([{"data": task} for task in tasks], ensure_ascii=False, indent=1) + "\n"
    if path.suffix == ".csv":
        return csv_text(dict.fromkeys([*tasks[0], "value", "person", "note"]), tasks)
    if path.suffix != ".jsonl":
        raise unknown_format(path, ".html, .csv, .jsonl or .json")
    return "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks)


def labelling_page(tasks: Sequence[Task], metric: JudgedMetric, criterion: Criterion) -> str:
    """Return a page on which a person labels rows, or decides ties, in one file that needs nothing else.

    It hides models and the judge's verdicts, keeps what was said in the browser, and exports it as JSON.
    """
    first = tasks[0] if tasks else {}
    data = {
        "sample": first.get("sample", ""),
        "person": first.get("person", ""),
        "question": metric.id,
        "scale": None if metric.is_binary else [_finite(metric.low), _finite(metric.high)],
        "tasks": list(tasks),
    }
    script = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return render(
        "leadline.tasks.judges.labels",
        TEMPLATE,
        title=metric.name,
        description=metric.description,
        criterion=criterion,
        adjudicates="person" in first,
        rows=count(len(tasks), "answer"),
        data=Markup(script),  # noqa: S704 - JSON without <
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
