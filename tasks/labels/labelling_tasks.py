"""Tasks that people are given to label: a page that works by itself, or tasks for the tool that a team has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core.text import count
from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records
from leadline.tasks.labels.drawing import Drawn
from leadline.tasks.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.labels.label_files import csv_text, unknown_format
from leadline.tasks.labels.label_sets import Sample
from leadline.tasks.store.store import Run, Store

TEMPLATE: Final = "labelling_page.html"

Task = Mapping[str, Any]


def tasks_of(store: Store, run: Run, judged: JudgedRows, drawn: Sequence[Drawn], sample: Sample) -> list[Task]:
    """Return what people see of the rows drawn, without model and judge, in the order in which they are shown.

    Args:
        store: The store.
        run: The run.
        judged: The rows that were judged.
        drawn: The rows drawn.
        sample: The sample they are.
    """
    numbers = [int(judged.rows[row.index]) for row in drawn]
    with open_run(store, run, read_only=True) as connection:
        texts = {line.pop("row_id"): line for line in records(connection, sql("labels/texts"), [numbers])}
    tasks: list[Task] = []
    seen: set[str] = set()
    for row, number in zip(drawn, numbers, strict=True):
        key = judged.keys[row.index]
        if key in seen:  # two models gave the same answer
            continue
        seen.add(key)
        shown = texts[number]
        tasks.append(
            {
                "key": key,
                "question_id": sample.question,
                "sample": sample.id,
                "case": judged.cases[row.index],
                "question": shown["question"] or "",
                "contexts": list(shown["contexts"] or ()),
                "expected": list(shown["expected_answers"] or ()),
                "answer": shown["actual_answer"] or "",
            }
        )
    return tasks


def written(tasks: Sequence[Task], metric: JudgedMetric, path: Path) -> str:
    """Return tasks as the text of a file: a page for ``.html``, CSV for ``.csv``, tasks of Label Studio for ``.json``.

    Args:
        tasks: The tasks.
        metric: The metric that they are about.
        path: The file, for its suffix; JSON Lines for ``.jsonl``.

    Raises:
        UsageError: It has another suffix.
    """
    if path.suffix in (".html", ".htm"):
        return labelling_page(tasks, metric)
    if path.suffix == ".json":
        return json.dumps([{"data": task} for task in tasks], ensure_ascii=False, indent=1) + "\n"
    if path.suffix == ".csv":
        lines = ({name: _joined(value) for name, value in task.items()} for task in tasks)
        return csv_text([*tasks[0], "value", "person", "note"], lines)
    if path.suffix != ".jsonl":
        raise unknown_format(path, ".html, .csv, .jsonl or .json")
    return "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks)


def _joined(value: Any) -> str:
    return "\n\n".join(value) if isinstance(value, list) else str(value)


def labelling_page(tasks: Sequence[Task], metric: JudgedMetric) -> str:
    """Return a page on which a person labels rows, in one file that needs nothing else.

    It hides models and the judge's verdicts, keeps what was said in the browser, and exports it as JSON.

    Args:
        tasks: The tasks.
        metric: The metric that they are about.
    """
    from markupsafe import Markup

    from leadline.tasks.publish.templating import render_of

    scale = not (metric.is_share or metric.threshold is not None)
    data = {
        "sample": tasks[0]["sample"] if tasks else "",
        "question": metric.id,
        "scale": [_finite(metric.low), _finite(metric.high)] if scale else None,
        "tasks": list(tasks),
    }
    script = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return render_of(
        "leadline.tasks.labels",
        TEMPLATE,
        title=metric.name,
        description=metric.description,
        rows=count(len(tasks), "answer"),
        data=Markup(script),  # noqa: S704 - JSON without <
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
