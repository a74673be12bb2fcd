"""Collecting over real HTTP: what becomes of answers, failures, repeats, budgets and reruns."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import LeadlineError, StoreError, UsageError
from evaluators.judge.budget import Limits
from tasks.collect import Collected, Target, collect
from tasks.collect.cases import Case
from tasks.ledger.place import open_ledger, read_ledger
from tasks.load import load_dataset
from tasks.store import Store
from tests.support.judge_endpoint import (
    GIBBERISH,
    SILENT,
    TRUNCATED,
    Fault,
    JudgeEndpoint,
    Question,
    broken,
    serving,
    throttled,
)
from tests.support.rag_app import TARGET, RagApp

pytestmark = pytest.mark.slow

HASTY: dict[str, Any] = {"timeout_s": 20.0, "down_after_s": 5.0, "start_in_flight": 4}
PATIENT_S = 3.0
"""What silence costs; less, and a busy machine would be taken for a silent model."""


def write_suite(folder: Path, cases: Sequence[dict[str, Any]] | int) -> Path:
    if isinstance(cases, int):
        cases = [
            {"case": f"c{n}", "question": f"How deep is berth {n}?", "expected_answer": f"{n} m"} for n in range(cases)
        ]
    path = folder / "suite.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


class Bench:
    """A suite, a store, and what is collected with them."""

    def __init__(self, folder: Path, cases: Sequence[dict[str, Any]] | int = 6) -> None:
        self.folder = folder
        self.store = Store.open(folder / "store")
        self.suite = load_dataset(self.store, write_suite(folder, cases), cases_only=True)
        self.runs = 0

    def collect(self, *targets: Target, limits: Limits | None = None) -> tuple[Collected, list[dict[str, Any]]]:
        self.runs += 1
        output = self.folder / "answers.jsonl"
        ledger = open_ledger(self.store, f"collect-{self.runs}")
        done = collect(self.store, self.suite, targets, output, ledger=ledger, limits=limits)
        load_dataset(self.store, output)  # evaluate takes it
        return done, [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def llm(endpoint: JudgeEndpoint, key: str = "m", **fields: Any) -> Target:
    return Target.model_validate({"key": key, "model": "openai/gpt-x", "api_base": endpoint.url, **HASTY, **fields})


@pytest.fixture
def rag(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Serves a RAG application, with the secret that it is asked with."""
    monkeypatch.setenv("HARBOUR_TOKEN", "tok-very-secret-1")

    @contextmanager
    def serve(**script: Any) -> Iterator[tuple[RagApp, Target]]:
        with serving(RagApp(**{"reply": lambda question: f"Answer to {question.text}"} | script)) as app:
            address = app.url.removesuffix("/v1") + "/answer"
            yield app, Target.model_validate({**TARGET, **HASTY, "url": address})  # type: ignore[misc]

    return serve


def test_models_by_name_are_asked_as_they_are_configured(tmp_path: Path) -> None:
    cases = [
        {"case": "a", "question": "How high?", "expected_answer": ["5.4 m"], "condition": '"5.4"',
         "categories": ["tides"], "metadata": {"source": "log"}},
        {"case": "a-typo", "question": "How hihg?", "expected_answer": ["5.4 m"],
         "relationships": [{"type": "perturbation_source", "target": "a", "perturbation": "typo"}]},
        {"case": "b", "model": "old", "question": "Ignored?", "actual_answer": "an answer that is there"},
    ]  # fmt: skip
    with serving(JudgeEndpoint(reply=lambda question: f"{question.system}|{question.text}")) as endpoint:
        bench = Bench(tmp_path, cases)
        price = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
        done, rows = bench.collect(
            llm(endpoint, "strict", system="Be strict.", version="2", name="Strict", **price),
            llm(endpoint, "warm", temperature=0.7, prompt="Q: {{ question }} {{ metadata.source }}"),
        )
    assert (done.cases, done.answered, done.failed, done.reused) == (3, 4, 2, 0)
    assert [(row["case"], row["model"]) for row in rows] == [
        (case, model) for case in ("a", "a-typo", "b") for model in ("strict", "warm")
    ]
    first = rows[0]
    assert first.pop("duration_s") >= 0
    assert first == {
        "case": "a", "question": "How high?", "expected_answer": ["5.4 m"], "condition": '"5.4"',
        "categories": ["tides"], "metadata": {"source": "log"},
        "model": "strict", "model_name": "Strict", "model_version": "2",
        "actual_answer": "Be strict.|How high?", "input_tokens": 2, "output_tokens": 3,
        "cost_usd": pytest.approx(2 * 0.001 + 3 * 0.01),
    }  # fmt: skip
    assert rows[1]["actual_answer"] == "|Q: How high? log"
    assert "cost_usd" not in rows[1]
    assert rows[2]["relationships"] == [{"type": "perturbation_source", "target": "a", "perturbation": "typo"}]
    assert "'source'" in rows[3]["error"]  # the template needs what this case lacks
    bodies = [line.question.body for line in endpoint.log]
    assert {body.get("temperature") for body in bodies} == {0.0, 0.7}
    assert not any("expected" in json.dumps(body) or "5.4" in json.dumps(body) for body in bodies)


def test_a_rag_application_is_asked_by_templates_and_read_by_expressions(tmp_path: Path, rag: Any) -> None:
    hostile = '{{ 7 * 7 }}", "options": {"k": 99}, "x": "'
    with rag() as (app, target):
        bench = Bench(
            tmp_path, [{"case": "a", "question": hostile, "categories": ["x"]}, {"case": "b", "question": "Hi?"}]
        )
        done, rows = bench.collect(target)
    assert done.failed == 0
    assert app.log[0].question.body in (
        {"query": hostile, "options": {"k": 3, "labels": ["x"]}},
        {"query": "Hi?", "options": {"k": 3, "labels": []}},
    )
    assert {line.question.key for line in app.log} == {"Bearer tok-very-secret-1"}
    row = rows[0]
    assert row["actual_answer"] == f"Answer to {hostile}"
    assert row["retrieved_context"] == [
        {"content": f"{hostile} One.", "doc_uri": "docs/one.md"},
        {"content": "Two.", "doc_uri": "docs/two.md"},
    ]
    assert (row["cost_usd"], row["input_tokens"], row["metadata"]) == (0.002, 7, {"trace": f"t-{len(hostile)}"})
    assert "output_tokens" not in row
    assert sum(row["cost_usd"] for row in rows if "cost_usd" in row) == pytest.approx(0.004)


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


def test_a_mended_map_reads_the_replies_that_are_there(tmp_path: Path, rag: Any) -> None:
    with rag() as (app, target):
        bench = Bench(tmp_path)
        broken_map = target.model_copy(update={"reply": target.reply.model_copy(update={"content": "body.text"})})
        wrong = broken_map.model_copy(update={"reply": broken_map.reply.model_copy(update={"doc_uri": "no.uri"})})
        with pytest.raises(LeadlineError, match=r"No model answered anything: a chunk has neither"):
            bench.collect(wrong)
        assert not (tmp_path / "answers.jsonl").exists()
        before = len(app.log)
        done, _ = bench.collect(target)
    assert (done.answered, done.reused, len(app.log) - before) == (6, 6, 0)


def test_equal_configurations_are_one_and_changed_ones_are_asked_anew(tmp_path: Path) -> None:
    with serving(JudgeEndpoint()) as endpoint:
        bench = Bench(tmp_path)
        bench.collect(llm(endpoint))
        assert len(endpoint.log) == 6
        bench.collect(llm(endpoint, timeout_s=9.0, name="Other name"))
        assert len(endpoint.log) == 6
        bench.collect(llm(endpoint, version="2"))
        assert len(endpoint.log) == 12
        done, _ = bench.collect(llm(endpoint), llm(endpoint, "second"))
        assert (len(endpoint.log), done.reused) == (18, 6)


def test_copies_of_a_question_are_each_asked(tmp_path: Path) -> None:
    with serving(JudgeEndpoint(reply=lambda question: str(question.number))) as endpoint:
        bench = Bench(tmp_path, [{"case": f"c{n}", "question": "Same?"} for n in range(4)])
        _, rows = bench.collect(llm(endpoint))
        assert len({row["actual_answer"] for row in rows}) == 4
        _, again = bench.collect(llm(endpoint))
    assert again == rows
    assert len(endpoint.log) == 4


def test_an_answer_that_was_cut_off_is_marked_and_a_withheld_one_is_an_error(tmp_path: Path) -> None:
    def fault(question: Question) -> Fault | None:
        withheld = Fault(finish_reason="content_filter", text="")
        return TRUNCATED if "berth 1" in question.text else withheld if "berth 2" in question.text else None

    with serving(JudgeEndpoint(fault=fault)) as endpoint:
        done, rows = Bench(tmp_path, 3).collect(llm(endpoint))
    assert (done.truncated, done.failed) == (1, 1)
    assert rows[1]["metadata"] == {"finish_reason": "length"}
    assert "content filter" in rows[2]["error"]


def test_a_budget_stops_asking_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with serving(JudgeEndpoint()) as endpoint:
        bench = Bench(tmp_path, 10)
        done, rows = bench.collect(llm(endpoint), limits=Limits(calls=4))
        assert (done.answered, len(endpoint.log)) == (4, 4)
        assert sum(row.get("error") == "The budget of 4 calls is spent." for row in rows) == 6
        done, _ = bench.collect(llm(endpoint), limits=Limits(calls=6))
        assert (done.answered, done.reused, len(endpoint.log)) == (10, 4, 10)


def test_under_a_cost_limit_an_application_needs_a_price(tmp_path: Path, rag: Any) -> None:
    with rag() as (app, target):
        bench = Bench(tmp_path, 10)
        with pytest.raises(LeadlineError, match="price is unknown"):
            bench.collect(target, limits=Limits(cost_usd=1.0))
        assert not app.log
        priced = target.model_copy(update={"call_cost_usd": 0.002})
        done, _ = bench.collect(priced, limits=Limits(cost_usd=0.011))
    assert done.answered == 5


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


def test_a_header_whose_variable_is_not_set_is_said_before_anything_is_asked(
    tmp_path: Path, rag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rag() as (app, target):
        monkeypatch.delenv("HARBOUR_TOKEN")
        with pytest.raises(UsageError, match="needs HARBOUR_TOKEN, which is not set"):
            Bench(tmp_path).collect(target)
    assert not app.log


def test_a_case_without_a_question_is_kept_and_not_asked(tmp_path: Path) -> None:
    with serving(JudgeEndpoint()) as endpoint:
        done, rows = Bench(tmp_path, [{"case": "a", "question": "Hi?"}, {"case": "b", "condition": '"x"'}]).collect(
            llm(endpoint)
        )
    assert (done.answered, done.unasked, len(endpoint.log)) == (1, 1, 1)
    assert rows[1] == {"case": "b", "condition": '"x"', "model": "m"}


def test_what_was_asked_stands_in_the_ledger(tmp_path: Path) -> None:
    with serving(JudgeEndpoint()) as endpoint:
        bench = Bench(tmp_path, 2)
        bench.collect(llm(endpoint, "strict"))
    total = read_ledger(bench.store).total("collect-1")
    assert (total.answered, total.lost, total.output_tokens) == (2, 0, 2)
    assert {ask["purpose"] for ask in read_ledger(bench.store).asks()} == {"collect:strict"}


# Python callables, found by their path like those of users.


def plain_function(case: Case) -> str:
    return f"{case.key}: {case.question}"


async def async_function(case: Case) -> dict[str, Any]:
    await asyncio.sleep(0.01)
    if case.key == "c1":
        raise KeyError("no such berth")
    return {"answer": "yes", "retrieved_context": [{"content": "x", "doc_uri": "d"}], "cost_usd": 0.5}


_attempts: dict[str, int] = {}
_lock = threading.Lock()


def moody_function(case: Case) -> str:
    with _lock:
        _attempts[case.key] = _attempts.get(case.key, 0) + 1
        first = _attempts[case.key] == 1
    if first and case.key == "c0":
        raise ConnectionError("reset")
    if first and case.key == "c1":
        time.sleep(3)
    return "at last"


def function(name: str) -> Target:
    return Target.model_validate({"key": "fn", "function": f"{__name__}:{name}", **HASTY})


def test_functions_are_called_with_the_case(tmp_path: Path) -> None:
    done, rows = Bench(tmp_path, 3).collect(function("plain_function"))
    assert done.answered == 3
    assert rows[2]["actual_answer"] == "c2: How deep is berth 2?"


def test_coroutine_functions_are_awaited_and_what_they_raise_is_an_error(tmp_path: Path) -> None:
    done, rows = Bench(tmp_path, 3).collect(function("async_function"))
    assert (done.answered, done.failed) == (2, 1)
    assert rows[0]["retrieved_context"] == [{"content": "x", "doc_uri": "d"}]
    assert rows[1]["error"] == "The model refused the call: KeyError: 'no such berth'."


def test_a_function_that_hangs_or_loses_its_connection_is_called_again(tmp_path: Path) -> None:
    _attempts.clear()
    target = function("moody_function").model_copy(update={"timeout_s": 1.0})
    done, _ = Bench(tmp_path, 3).collect(target)
    assert done.answered == 3
    assert _attempts == {"c0": 2, "c1": 2, "c2": 1}


def test_a_function_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be imported"):
        Bench(tmp_path).collect(function("missing"))


def test_replies_without_an_answer_were_paid_for_as_well(tmp_path: Path, rag: Any) -> None:
    def fault(question: Question) -> Fault | None:
        return Fault(body=json.dumps({"usage": {"usd": 0.5}})) if "berth 1" in question.text else None

    with rag(fault=fault) as (_, target):
        priced = target.model_copy(update={"reply": target.reply.model_copy(update={"cost_usd": "usage.usd or 0.25"})})
        bench = Bench(tmp_path, 2)
        done, _ = bench.collect(priced)
    spent = read_ledger(bench.store).total("collect-1")
    assert (done.answered, done.failed) == (1, 1)
    assert (spent.answered, spent.cost_usd) == (2, 0.75)


def test_a_ledger_that_cannot_be_written_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> None:
        raise StoreError("The ledger cannot be used: the disk is full.")

    monkeypatch.setattr("tasks.ledger.ledger.DatabaseLedger.find", full)
    with pytest.raises(StoreError, match="the disk is full"):
        Bench(tmp_path, 2).collect(function("plain_function"))
