"""Whose flips they are, over real HTTP: the model's, or the judge's, which reads the question otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from leadline.cli.main import cli
from leadline.evaluators.ground import UsageError
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import preview
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.stores.results import read_run

EVALUATOR = "databricks.correctness"
PAIRS = 100
WRONG = 20
"""Copies that the model answers wrongly."""
ODD = 10
"""Copies that it answers in other words, rightly, and whose question the judge misreads."""
SAME = 5
"""Copies whose question the judge misreads, with the very answer of their original."""


class MisreadingJudge:
    """Fails wrong answers, and right ones to a question in odd spelling; says the same each time."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, question: Question) -> str:
        self.asked[question.text] += 1
        good = "It has no depth." not in question.text and "beerth" not in question.text
        return json.dumps({"rationale": "It reads so.", "rating": "yes" if good else "no"})


def write(path: Path, *, copies: bool = True) -> Path:
    """Write a dataset of cases, and copies that differ in their answer, in how the judge reads them, or in nothing."""
    rows = []
    for number in range(PAIRS):
        row = {"case": f"c{number}", "model": "m", "question": f"How deep is berth {number}?"}
        row |= {"expected_answer": "It is deep.", "actual_answer": "It is deep."}
        rows.append(row)
        spelled, answer = "berth", "Deep, it is."
        if number < WRONG:
            answer = "It has no depth."
        elif number < WRONG + ODD:
            spelled = "beerth"
        elif number < WRONG + ODD + SAME:
            spelled, answer = "beerth", "It is deep."
        copy = {"case": f"p{number}", "question": f"how deep is {spelled} {number} ?", "actual_answer": answer}
        copy["relationships"] = [{"type": "perturbation_source", "target": f"c{number}", "perturbation": "typo"}]
        rows += [row | copy] if copies else []
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with serving(JudgeEndpoint(MisreadingJudge())) as serves:
        yield serves


@pytest.fixture
def configure(
    tmp_path: Path, endpoint: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., EvaluateConfig]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    file = tmp_path / "leadline.toml"
    file.write_text(endpoint.toml())

    def made(dataset: Path, *, evaluators: tuple[str, ...] = (EVALUATOR,), **given: Any) -> EvaluateConfig:
        judges = {"config": str(file), "trials": 2, "trial_rows": "auto"} | given.pop("judges", {})
        values = {"dataset": str(dataset), "evaluators": evaluators, "judges": judges, "dispatch": "inline"}
        return EvaluateConfig.model_validate(
            values | {"store": str(tmp_path / "store"), "attribute_flips": True} | given
        )

    return made


def read(result: EvaluateResult, statement: str) -> list[dict[str, Any]]:
    return read_run(Store.open(result.folder.parents[1]), statement, result.run)


def test_flips_of_the_model_and_of_the_judge_are_told_apart(configure, tmp_path) -> None:
    result = Evaluate()(configure(write(tmp_path / "rows.jsonl")))
    (rate,) = read(result, "SELECT * FROM flip_rates WHERE perturbation = ''")
    every, typos = read(result, "SELECT * FROM flip_causes ORDER BY perturbation")
    assert rate["net"] == pytest.approx((WRONG + ODD + SAME) / PAIRS)
    assert every["answer"] == pytest.approx(WRONG / PAIRS)
    assert every["judge"] == pytest.approx((ODD + SAME) / PAIRS)
    assert 0 < every["answer_low"] < every["answer"] < every["answer_high"]
    assert typos | {"perturbation": ""} == every
    assert every["n_pairs"] == len(read(result, "SELECT * FROM judged_again"))
    text = (result.report.parent / "report.md").read_text()
    assert re.search(
        r"Of the net 35 %: 20 % \(.* to .*\) since the answer changed, 15 % \(.* to .*\) since the judge reads the "
        "changed question otherwise.",
        text,
    )
    report = json.loads((result.report.parent / "report.json").read_text())
    assert report["flip_causes"][0]["answer"] == every["answer"]
    store = str(tmp_path / "store")
    shown = CliRunner().invoke(cli, ["show", result.run, "--store", store]).output
    assert "since the answer changed" in shown
    assert "Changed: more than the judge's noise." in shown
    asked = CliRunner().invoke(
        cli, ["store", "sql", "SELECT answer FROM flip_causes WHERE perturbation = ''", "--store", store]
    )
    assert "0.2" in asked.output


def test_a_third_row_has_the_originals_question_and_the_copys_answer_and_nothing_is_paid_for_twice(
    configure, endpoint, tmp_path
) -> None:
    rows = write(tmp_path / "rows.jsonl")
    plain = Evaluate()(configure(rows, attribute_flips=False))
    before = Counter(endpoint.reply.asked)
    result = Evaluate()(configure(rows))
    third = Counter(endpoint.reply.asked) - before
    assert all("How deep is berth" in text for text in third)
    assert all("It has no depth." in text or "Deep, it is." in text for text in third)
    pairs = read(result, "SELECT perturbed_row_id FROM judged_again JOIN digests ON row_id = perturbed_row_id")
    same = read(
        result,
        "SELECT 1 FROM judged_again JOIN digests AS o ON o.row_id = original_row_id "
        "JOIN digests AS c ON c.row_id = perturbed_row_id WHERE o.actual_answer = c.actual_answer",
    )
    assert len(same) == SAME
    assert result.computed == sum(third.values()) == 2 * (len(pairs) - SAME)
    store = Store.open(tmp_path / "store")
    dataset = store.run(result.run).read()["third_rows_dataset"]
    assert store.dataset(dataset).exists(), "a clean-up sees that it is used"
    again = Evaluate()(configure(rows))
    assert again.computed == 0
    for table in ("flip_rates", "scores", "aggregates"):
        statement = f"SELECT * FROM {table} ORDER BY ALL"
        assert read(plain, statement) == read(result, statement)
    assert read(result, "SELECT * FROM flip_causes ORDER BY ALL") == read(
        again, "SELECT * FROM flip_causes ORDER BY ALL"
    )
    assert not read(plain, "SELECT * FROM flip_causes")


def test_a_plan_counts_the_calls_that_tell_whose_flips_they_are(configure, endpoint, tmp_path) -> None:
    config = configure(write(tmp_path / "rows.jsonl"))
    (entry,) = preview(config).entries
    (without,) = preview(config.model_copy(update={"attribute_flips": False})).entries
    assert without.later < entry.later <= without.later + 2 * 40
    assert entry.judge_calls == entry.to_compute + entry.later
    made = Evaluate()(config)
    assert made.computed == len(endpoint.log)
    assert abs(made.computed - entry.judge_calls) <= 100
    (after,) = preview(config).entries
    assert (after.to_compute, after.later, after.judge_calls) == (0, 0, 0)


def test_what_cannot_be_told_apart_is_refused(configure, tmp_path) -> None:
    with pytest.raises(UsageError, match="no case is a perturbed copy"):
        preview(configure(write(tmp_path / "single.jsonl", copies=False)))
    with pytest.raises(UsageError, match="no evaluator of this run asks a judge about a single answer"):
        preview(configure(write(tmp_path / "rows.jsonl"), evaluators=("exact_match",)))
    with pytest.raises(ValidationError, match="trial_rows = auto"):
        configure(tmp_path / "rows.jsonl", judges={"trial_rows": "all"})
