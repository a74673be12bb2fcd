"""RGB's own result files: what a model answered, as the benchmark's program writes it, made a dataset of Leadline's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import orjson

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.rgb.build import CLOSED_BOOK, REJECTION, TASKS, Testbed, find_testbed, spelled
from leadline.tasks.ground.files import handed_out
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile

_NAME: Final = re.compile(
    r"prediction_(?P<testbed>(?:en|zh)(?:_(?:refine|int|fact))?)_(?P<model>.+?)_temp[0-9.]+_noise.*"
)


def is_predictions(path: str) -> bool:
    """Return whether a file's first record looks like a line of the benchmark's results."""
    source = SourceFile.at(path)
    faults = Faults(source.name)
    first = next(read_items(source, layout_of(source), faults), None)
    return first is not None and isinstance(first.value, Mapping) and {"query", "prediction", "ans"} <= set(first.value)


def convert(paths: Sequence[str], target: Path, *, model: str | None = None, testbed: str | None = None) -> Path:
    """Write result files of the benchmark as one dataset.

    Args:
        paths: The files: JSON objects with ``id, query, ans, prediction, docs, noise_rate``.
        target: The dataset, JSON Lines in Leadline's names.
        model: Key of the model; the files' names say it by default (``prediction_zh_refine_chatgpt_temp0.2_noise…``).
        testbed: The testbed, where the names do not say it.

    Raises:
        DatasetError: A file cannot be used; lists every fault.
        UsageError: Neither the name nor the caller says the model or the testbed.
    """
    with ExitStack() as stack:
        file = stack.enter_context(stack.enter_context(handed_out(target)).open("wb"))
        for path in paths:
            key, bed = _model_and_testbed(path, model, testbed)
            for row in _rows(path, key, bed):
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return target


def _model_and_testbed(path: str, model: str | None, testbed: str | None) -> tuple[str, Testbed]:
    found = _NAME.fullmatch(Path(path).stem)
    bed = find_testbed(testbed or (found["testbed"] if found else ""))
    if bed is None:
        raise UsageError(
            f"The name of {path} does not say its testbed.",
            hint="Add: --testbed zh_refine (or en, …)",
            code=ErrorCode.RGB_FILE,
        )
    key = model or (found["model"] if found else None)
    if key is None:
        raise UsageError(
            f"The name of {path} does not say its model.", hint="Add: --model NAME", code=ErrorCode.RGB_FILE
        )
    return key, bed


def _rows(path: str, model: str, testbed: Testbed) -> Iterator[dict[str, Any]]:
    source = SourceFile.at(path)
    faults = Faults(source.name)
    for item in read_items(source, layout_of(source), faults):
        if _fits(item.value, faults, item.place) and not faults:
            yield _row(item.value, model, testbed)
    if faults:
        faults.refuse()


def _fits(line: Any, faults: Faults, place: Place) -> bool:
    if not isinstance(line, Mapping):
        faults.add(place, "", "is no JSON object")
        return False
    before = bool(faults)
    for column in ("query", "prediction"):
        if not isinstance(line.get(column), str):
            faults.add(place, column, "must be a text")
    if not isinstance(line.get("ans"), str | list) or not line["ans"]:
        faults.add(place, "ans", "must be a text, or a list of texts and lists of texts")
    noise = line.get("noise_rate", 0)
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise <= 1:
        faults.add(place, "noise_rate", "must be a number from 0 to 1")
    return bool(faults) == before


def _row(line: Mapping[str, Any], model: str, testbed: Testbed) -> dict[str, Any]:
    noise = float(line.get("noise_rate", 0))
    documents = line.get("docs") or []
    task = TASKS[testbed.kind]
    if not documents and testbed.kind != "int":
        task = CLOSED_BOOK
    elif testbed.kind == "plain" and noise >= 1:
        task = REJECTION
    tags = {
        "testbed": testbed.name,
        "task": task,
        "language": testbed.language,
        "noise": None if task == CLOSED_BOOK else noise,
        "documents": documents,
        "answer": line["ans"],
    }
    suffix = "closed-book" if task == CLOSED_BOOK else f"noise{noise:g}"
    return {
        "case": f"{testbed.name}-{line.get('id')}-{suffix}",
        "model": model,
        "question": line["query"],
        "expected_answer": spelled(line["ans"]),
        "actual_answer": line["prediction"],
        "categories": ["rgb", task, testbed.name],
        "metadata": {"rgb": tags},
    }
