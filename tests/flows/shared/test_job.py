"""A job: checked once, done here or as a flow, its outcome told to people and to programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from leadline.evaluators.ground import UsageError
from leadline.flows.command.running import run_job
from leadline.flows.command.session import Session
from leadline.flows.shared.form import FormModel
from leadline.flows.shared.job import Job, JobSteps


class Form(FormModel):
    number: int
    store: str | None = None


class Outcome(BaseModel):
    number: int
    seconds: float = 0.0


class Doubling(Job[Form, int, JobSteps, Outcome]):
    """Double a number."""

    name = "doubling"
    Config = Form
    kept = "Interrupted. The number is kept."

    def __init__(self) -> None:
        self.checks = 0

    def check(self, config: Form) -> int:
        self.checks += 1
        if config.number < 0:
            raise UsageError("The number is below zero.")
        return config.number

    def run(self, config: Form, checked: int, steps: JobSteps) -> Outcome:
        """Double it.

        Args:
            config: Which number.
        """
        return Outcome(number=steps.step("double", lambda: 2 * checked))

    def asks(self, checked: int) -> bool:
        return False

    def timed(self, result: Outcome, seconds: float) -> Outcome:
        return result.model_copy(update={"seconds": seconds})


def test_a_job_that_is_called_checks_and_runs() -> None:
    job = Doubling()
    assert job(Form(number=21)).number == 42
    assert job.checks == 1
    with pytest.raises(UsageError, match="below zero"):
        job(Form(number=-1))


def test_what_was_checked_is_not_checked_again() -> None:
    job = Doubling()
    assert job.carry_out(Form(number=1), job.plain_steps(Form(number=1)), checked=0).number == 0, (
        "nothing that was found is lost"
    )
    assert job.checks == 0


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Session(server="none", quiet=True, began=0.0)


def test_a_command_checks_once_and_says_how_long_it_took_from_its_begin(session: Session) -> None:
    job = Doubling()
    result = run_job(session, job, Form(number=4))
    assert (result.number, job.checks) == (8, 1)
    assert result.seconds == pytest.approx(session.elapsed(), abs=5)


def test_a_request_that_is_refused_looks_for_no_server(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.flows.command.running.ensure_api", lambda *_: pytest.fail("a server is looked for"))
    with pytest.raises(UsageError, match="below zero"):
        run_job(session, Doubling(), Form(number=-1))


COUNTING = """
import json, sys
from leadline.cli import main
from leadline.tasks.load import dataset

peek, looked = dataset.peek, []
dataset.peek = lambda *args: looked.append(args) or peek(*args)
code = main.run(["-q", *json.loads(sys.argv[1])])
print(code, len(looked), "prefect.flows" in sys.modules)
"""
"""A dataset is looked at whenever it is loaded, also where the store has it already."""

COMMANDS = [
    (("evaluate", "rows.jsonl", "-e", "bleu", "--processes", "1"), 1, 0),
    (("collect", "rows.jsonl", "--model", "python:app:answer"), 1, 0),
    (("data", "perturb", "rows.jsonl", "--with", "copy"), 1, 0),
    (
        ("service", "check-version", "m", "v1", "rows.jsonl", "--target", "python:app:answer", "-e", "bleu"),
        2,  # the suite and the answers
        1,  # five answers cannot show that a version is good
    ),
]


def looked_at(folder: Path, command: tuple[str, ...], environment: dict[str, str]) -> list[str]:
    """Run a command in a process of its own: its exit code, how often it loads a dataset, whether it has a flow."""
    lines = [{"question": f"q{n}", "expected_answer": "a", "actual_answer": "a", "model": "m"} for n in range(5)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "app.py").write_text("def answer(case):\n    return case.question\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, json.dumps(command)], cwd=folder, capture_output=True, text=True, timeout=200,
        env=os.environ | {"LEADLINE_JUDGE": "", "LEADLINE_STORE": "store"} | environment,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.stdout.split()[-3:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "loads", "code"), COMMANDS, ids=lambda each: each[0] if isinstance(each, tuple) else ""
)
def test_a_command_loads_each_dataset_once(command: tuple[str, ...], loads: int, code: int, tmp_path: Path) -> None:
    assert looked_at(tmp_path, command, {"LEADLINE_SERVER": "none"}) == [str(code), str(loads), "False"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("command", "loads", "code"), COMMANDS, ids=lambda each: each[0] if isinstance(each, tuple) else ""
)
def test_a_flow_that_a_command_runs_loads_no_dataset_again(
    command: tuple[str, ...], loads: int, code: int, tmp_path: Path, api: dict[str, str]
) -> None:
    found = looked_at(tmp_path, command, api)
    assert found == [str(code), str(loads), str(command[0] != "data")]
