"""A job: checked once, done here or as a flow, its outcome told to people and to programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from leadline.cli.main import run as leadline
from leadline.evaluators.ground.errors import UsageError
from leadline.flows.command.running import run_job
from leadline.flows.command.session import Session
from leadline.flows.job import Job, JobSteps
from leadline.flows.shared.form import FormModel
from leadline.tasks.load import sniff


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

    def check_outside(self, config: Form) -> None: ...

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
    assert job.carry_out(Form(number=1), job.plain_steps(), checked=0).number == 0, "nothing that was found is lost"
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


def answer(case: Any) -> str:
    return f"{case.question}!"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """Count how often a dataset is looked at; a suite and a server of nobody are there."""
    counted: list[object] = []
    peek = sniff.peek
    monkeypatch.setattr(sniff, "peek", lambda *args: counted.append(args) or peek(*args))
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    lines = [{"question": f"q{n}", "expected_answer": "a", "actual_answer": "a", "model": "m"} for n in range(5)]
    Path("suite.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return lambda: len(counted)


@pytest.mark.parametrize(
    "command",
    [
        ("collect", "suite.jsonl", "--model", "python:tests.flows.test_job:answer"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_loads_its_dataset_once(command: tuple[str, ...], loads: Callable[[], int]) -> None:
    assert leadline(["-q", *command]) == 0
    assert loads() == 1
