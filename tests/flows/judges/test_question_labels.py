"""People's answers to "is this answer right?" decide it without any judge, of rows that were drawn or of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import leadline
from leadline.cli.main import cli
from leadline.evaluators.ground import UsageError

ROWS = 60
CHAT = [
    {"question": f"Which berth has ship {n}?", "actual_answer": f"Ship {n} has berth {n}, I think."}
    for n in range(ROWS)
]


class Desk:
    """A folder with answers, and people who label them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "answers.jsonl"
        self.file.write_text("".join(json.dumps(row) + "\n" for row in CHAT))

    def evaluate(self) -> leadline.Result:
        return leadline.evaluate(self.file, fail_on="high", against="none", store=str(self.folder / "store"))

    def type(self, *command: str) -> str:
        done = CliRunner().invoke(cli, [*command, "--store", str(self.folder / "store")])
        assert done.exit_code == 0, done.output
        return done.output

    def label(self, n: int, is_right: Callable[[int], bool]) -> int:
        """Draw rows, let a person label them, and return how many they were."""
        drawn = self.folder / "drawn.jsonl"
        self.type("labels", "sample", "latest", "--question", "right", "-n", str(n), "-o", str(drawn))
        tasks = [json.loads(line) for line in drawn.read_text().splitlines()]
        said = [{**task, "value": int(is_right(place)), "person": "ann"} for place, task in enumerate(tasks)]
        (self.folder / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
        self.type("labels", "import", str(self.folder / "said.jsonl"))
        return len(tasks)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def right(result: leadline.Result) -> tuple[str, str]:
    answer = next(answer for answer in result.questions if answer.question == "right")
    return answer.outcome, answer.reason


def test_thirty_labels_decide_what_nothing_else_can(desk: Desk) -> None:
    before = desk.evaluate()
    assert right(before)[0] == "not looked at"
    assert "labels sample" in next(a.remedy for a in before.questions if a.question == "right")
    assert desk.label(30, lambda place: True) == 30, "the number asked for is kept"
    after = desk.evaluate()
    assert right(after) == (
        "pass", "People call 30 of 30 answers of answers right: 100 % of all are (88.4 % to 100 %); 70 % should be."
    )  # fmt: skip
    assert after.gate == "pass"
    assert after.outcome.computed == 0, "nothing is computed twice"


def test_wrong_answers_by_peoples_labels_fail_the_gate_and_are_listed(desk: Desk) -> None:
    desk.evaluate()
    desk.label(30, lambda place: place % 2 == 0)
    result = desk.evaluate()
    assert result.gate == "fail"
    (problem,) = [line for line in result.problems.to_dict("records") if line["severity"] == "high"]
    assert "people do not call 15 of 30 answers right" in problem["description"]


def test_few_labels_leave_it_open(desk: Desk) -> None:
    desk.evaluate()
    desk.label(6, lambda place: True)
    assert right(desk.evaluate())[0] == "inconclusive"


def test_labels_of_rows_that_somebody_chose_say_nothing_of_the_others(desk: Desk) -> None:
    desk.evaluate()
    desk.label(30, lambda place: True)
    said = [json.loads(line) | {"sample": ""} for line in (desk.folder / "said.jsonl").read_text().splitlines()]
    (desk.folder / "chosen.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    other = Desk(desk.folder / "other") if (desk.folder / "other").mkdir() is None else desk
    other.evaluate()
    other.type("labels", "import", str(desk.folder / "chosen.jsonl"))
    assert right(other.evaluate())[0] == "not looked at"


def test_sample_needs_a_question_or_a_metric_and_not_both(desk: Desk) -> None:
    desk.evaluate()
    for asked in ((), ("--question", "right", "--metric", "pii_leakage")):
        done = CliRunner().invoke(cli, ["labels", "sample", "latest", *asked, "--store", str(desk.folder / "store")])
        assert isinstance(done.exception, UsageError)
        assert "either a metric or a question: right" in str(done.exception)
