"""Collecting over real HTTP: what becomes of answers, repeats, budgets and reruns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.tasks.ledger.ledger import read_ledger
from tests.support.datasets.collecting import Bench, llm
from tests.support.judges.judge_endpoint import TRUNCATED, Fault, JudgeEndpoint, Question, serving

pytestmark = pytest.mark.slow


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


def test_an_answer_that_was_cut_off_is_marked_and_a_reply_that_ended_before_any_text_is_an_error(
    tmp_path: Path,
) -> None:
    ends = ["stop", "length", "tool_calls", "content_filter"]

    def fault(question: Question) -> Fault | None:
        number = int(question.text.split("berth ")[1][0])
        return TRUNCATED if number == 4 else Fault(finish_reason=ends[number], text="")

    with serving(JudgeEndpoint(fault=fault)) as endpoint:
        done, rows = Bench(tmp_path, 5).collect(llm(endpoint))
    assert (done.truncated, done.failed) == (1, 3)
    assert rows[0]["actual_answer"] == ""
    for word, row in zip(("token limit", "tool", "filter"), rows[1:4], strict=True):
        assert word in row["error"]
    assert rows[4]["metadata"] == {"finish_reason": "length"}


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
