"""Collecting from models that fail, are down for a while, or for good."""

from __future__ import annotations

import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.collect import Target, collection
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.templates import TargetAnswer
from tests.support.datasets.collecting import Bench, llm
from tests.support.judges.judge_endpoint import (
    GIBBERISH,
    SILENT,
    Fault,
    JudgeEndpoint,
    Question,
    broken,
    serving,
    throttled,
)

pytestmark = pytest.mark.e2e

PATIENT_S = 3.0
"""What silence costs; less, and a busy machine would be taken for a silent model."""


@pytest.mark.parametrize("kind", ["llm", "rag"])
def test_faults_are_tried_again_and_answers_are_counted_once(tmp_path: Path, rag: Any, kind: str) -> None:
    at_first = {"Berth 1?": throttled(0.05), "Berth 2?": broken(), "Berth 3?": SILENT, "Berth 4?": throttled()}
    seen: set[str] = set()

    def script(question: Question) -> Fault | None:
        fault = None if question.text in seen else at_first.get(question.text)
        seen.add(question.text)
        return fault

    bench = Bench(tmp_path, [{"case": f"c{n}", "question": f"Berth {n}?"} for n in range(8)])
    if kind == "rag":
        with rag(fault=script) as (endpoint, target):
            done, rows = bench.collect(target.model_copy(update={"timeout_s": PATIENT_S}))
    else:
        with serving(JudgeEndpoint(fault=script)) as endpoint:
            done, rows = bench.collect(llm(endpoint, timeout_s=PATIENT_S))
    assert (done.answered, done.failed, done.reused) == (8, 0, 0)
    assert len(endpoint.answered) == 8
    assert len(endpoint.log) == 8 + len(at_first)
    assert max(row["duration_s"] for row in rows) < PATIENT_S  # of the attempt that was answered


def test_a_failed_call_is_an_error_and_asked_again_by_a_rerun(tmp_path: Path, rag: Any) -> None:
    def fault(question: Question) -> Fault | None:
        if "berth 1" in question.text:
            return Fault(422, {}, '{"detail": "no tok-very-secret-1 today"}')
        if "berth 2" in question.text:
            return GIBBERISH
        if "berth 3" in question.text:
            return Fault(body=json.dumps({"problem": "index is down", "result": {"text": "Sorry!"}}))
        return None

    with rag(fault=fault) as (app, target):
        bench = Bench(tmp_path)
        done, rows = bench.collect(target)
        assert (done.answered, done.failed) == (3, 3)
        assert [row.get("error") for row in rows] == [
            None,
            'The model refused the call: HTTP 422: {"detail": "no [key] today"}.',
            "the reply has no answer ('result.text' finds nothing in '<html>it works</html>')",
            "the reply says: index is down",
            None,
            None,
        ]
        assert all(("error" in row) != ("actual_answer" in row) for row in rows)
        app.fault = lambda question: None
        before = len(app.log)
        done, rows = bench.collect(target)
        assert (done.answered, done.failed, done.reused) == (6, 0, 3)
        assert len(app.log) - before == 3
    stored = (tmp_path / "store" / "ledger.sqlite").read_bytes() + (tmp_path / "answers.jsonl").read_bytes()
    assert b"very-secret" not in stored


def test_a_model_that_is_down_ends_soon_and_another_is_not_held_up(tmp_path: Path) -> None:
    with serving(JudgeEndpoint()) as up, serving(JudgeEndpoint(fault=lambda question: broken(503))) as down:
        bench = Bench(tmp_path, 300)
        started = time.monotonic()
        done, rows = bench.collect(llm(up, "up"), llm(down, "down", down_after_s=2.0))
    assert (done.answered, done.failed) == (300, 300)
    assert time.monotonic() - started < 30
    assert all("The model does not answer" in row["error"] for row in rows if row["model"] == "down")


def test_a_model_that_is_restarted_in_the_middle_is_asked_again(tmp_path: Path) -> None:
    gone = threading.Event()

    def fault(question: Question) -> Fault | None:
        if question.number == 20:
            gone.set()
            threading.Timer(2.0, gone.clear).start()
        return broken(503) if gone.is_set() else None

    with serving(JudgeEndpoint(fault=fault)) as endpoint:
        done, _ = Bench(tmp_path, 60).collect(llm(endpoint, down_after_s=1.0))
    assert (done.answered, done.failed) == (60, 0)
    assert len(endpoint.answered) == 60


def test_no_answer_at_all_writes_nothing_and_says_why(tmp_path: Path) -> None:
    wrong_key = JudgeEndpoint(fault=lambda question: broken(401, "Incorrect API key"))
    with serving(wrong_key), pytest.raises(LeadlineError, match=r"refuse.*Incorrect API key") as failed:
        Bench(tmp_path).collect(llm(wrong_key))
    assert failed.value.exit_code == 3
    assert not (tmp_path / "answers.jsonl").exists()


def test_answers_that_did_not_come_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[int] = []

    class Down:
        """Answers the first case, and no other."""

        def __init__(self, target: Target, *_: object) -> None:
            self.target = target
            self._asked = 0

        async def ask(self, case: Case, repeat: int, copy: int) -> TargetAnswer:
            self._asked += 1
            if self._asked == 1:
                return TargetAnswer(text="yes")
            if self._asked % 500 == 0:
                alive.append(sum(isinstance(each, TargetAnswer) for each in gc.get_objects()))
            return TargetAnswer(error=f"down since case {case.key}", unavailable=True)

    monkeypatch.setattr(collection, "Asker", Down)
    target = Target.model_validate({"key": "m", "model": "openai/gpt-x", "down_after_s": 0.01})
    done, rows = Bench(tmp_path, 1_500).collect(target)
    assert max(alive) < 100
    assert (done.answered, done.failed) == (1, 1_499)
    assert [row.get("error") for row in rows] == [None, *(f"down since case c{n}" for n in range(1, 1_500))]
    assert sum(done.errors.values()) == 1_000, "so many texts are told apart"
