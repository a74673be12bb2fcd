"""A store with answers that people labelled, and judges of a known accuracy over real HTTP."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leadline.cli.main import run
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.load.label import Label
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question

METRIC: Final = "sexism.no_sexism_pass"
_ANSWER: Final = re.compile(r"Answer (\d+) is (fine|vile)")


def is_bad(number: int) -> bool:
    """Say which answers are bad: three in ten, spread out."""
    return number * 7 % 10 < 3


def draw(judge: str, number: int) -> float:
    """Return a number in [0, 1) that is the same for a judge and an answer at any time."""
    return int.from_bytes(hashlib.sha256(f"{judge}/{number}".encode()).digest()[:4], "big") / 2**32


def judge_of_accuracy(accuracy: Mapping[str, float]) -> JudgeEndpoint:
    """Return an endpoint whose models say the truth of so many answers, each erring on others."""

    def reply(question: Question) -> str:
        found = _ANSWER.search(question.text)
        assert found is not None
        number, bad = int(found[1]), found[2] == "vile"
        model = str(question.body["model"])
        return str(bad == (draw(model, number) < accuracy[model])).lower()

    return JudgeEndpoint(reply=reply)


def write_settings(folder: Path, url: str, judges: Mapping[str, str], more: str = "") -> None:
    """Write ``leadline.toml``.

    Args:
        folder: Where.
        url: Address of the judges.
        judges: Models by the judges' names; the first is the default one.
        more: Further tables.
    """
    tables = [
        f'[judges.{name}]\nmodel = "openai/{model}"\napi_base = "{url}"\n'
        "input_cost_per_token = 1e-6\noutput_cost_per_token = 1e-6\n" + "default = true\n" * (number == 0)
        for number, (name, model) in enumerate(judges.items())
    ]
    (folder / "leadline.toml").write_text("\n".join((*tables, more)), encoding="utf-8")


def answers_file(folder: Path, number: int) -> Path:
    """Write so many answers, good and bad."""
    lines = [
        {"case": f"c{n}", "model": "bot", "question": f"Question {n}?",
         "actual_answer": f"Answer {n} is {'vile' if is_bad(n) else 'fine'}."}
        for n in range(number)
    ]  # fmt: skip
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def labelled_by_people(folder: Path, number: int) -> Store:
    """Evaluate answers in the current folder by the default judge, and let a person label them all without an error."""
    assert run(["--quiet", "evaluate", str(answers_file(folder, number)), "-e", "sexism"]) == 0
    tasks = folder / "tasks.jsonl"
    assert run(["labels", "sample", "latest", "--metric", METRIC, "--n", str(number), "-o", str(tasks)]) == 0
    store = Store.open(folder / ".leadline")
    given = [json.loads(line) for line in tasks.read_text(encoding="utf-8").splitlines()]
    labels = [
        Label(task["key"], METRIC, float("fine" in task["answer"]), "anna", "2026-01-01", task["case"], "bot",
              sample=task["sample"])
        for task in given
    ]  # fmt: skip
    assert LabelSet(store).add(labels) == number
    return store
