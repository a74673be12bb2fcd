"""Canaries: rows with known verdicts that are put to the judge with every chunk, over real HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.tasks import pipeline
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.score.canaries import read_canaries
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.judges.judged_run import CALLS_PER_ROW, evaluate, judge_at, register, reply, write_rows

pytestmark = pytest.mark.e2e

ROWS = 120
"""Rows of the run: three chunks of at most 50."""

CHUNKS = 3
PLAIN = "The harbour is deep. The tide is low."


@pytest.fixture(autouse=True)
def _registered() -> None:
    register()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def canary_file(folder: Path, *expected: Any, answer: str = PLAIN) -> str:
    """Write a canary for each expectation, with an answer of its own."""
    path = folder / "canaries.jsonl"
    lines = [
        {"case": f"k{n}", "model": "canary", "actual_answer": f"{answer} {n}.", "expected_scores": scores}
        for n, scores in enumerate(expected)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def says(word: Callable[[Question], str]) -> Callable[[Question], str]:
    """Return a judge that says a word about canaries, and what it always says about other rows."""

    def script(question: Question) -> str:
        if "List the statements" in question.text or PLAIN.split(".")[0] not in question.text:
            return reply(question)
        return word(question)

    return script


def states(result: Mapping[str, Any]) -> Counter[tuple[str, str | None]]:
    return Counter((line[3], line[4]) for line in result["scores"])


def test_canaries_that_the_judge_passes_cost_their_calls_with_every_chunk_and_change_no_score(
    rows: Path, tmp_path: Path
) -> None:
    file = canary_file(tmp_path, {"test.brief": 1})
    with serving(JudgeEndpoint(says(lambda question: "yes"))) as endpoint:
        without = evaluate(Store.open(tmp_path / "without"), rows, [judge_at(endpoint.url)])
        asked = len(endpoint.log)
        result = evaluate(Store.open(tmp_path / "with"), rows, [judge_at(endpoint.url)], canaries=file)
        assert len(endpoint.log) - asked == asked + CHUNKS * 2, "two calls a canary, asked afresh with every chunk"
    assert result["scores"] == without["scores"]
    record = Store.open(tmp_path / "with").run(result["run"]).read()
    assert Store.open(tmp_path / "with").dataset(record["canary_dataset"]).exists(), "a clean-up sees that it is used"
    purposes = Counter(ask["purpose"] for ask in read_ledger(Store.open(tmp_path / "with")).asks())
    assert purposes["test.brief:canary length"] == CHUNKS


def test_a_judge_that_fails_one_is_not_asked_about_the_chunk_and_a_later_run_asks_what_is_missing(
    rows: Path, tmp_path: Path
) -> None:
    file = canary_file(tmp_path, {"test.brief": 1}, {"test.brief.brief": [0.5, 1]})
    store = Store.open(tmp_path / "store")
    with serving(JudgeEndpoint(says(lambda question: "no" if "1." in question.text else "yes"))) as endpoint:
        result = evaluate(store, rows, [judge_at(endpoint.url)], canaries=file)
        assert states(result) == {("unscored", "quarantined"): 2 * ROWS}, "both evaluators ask the same judge"
        assert len(endpoint.log) == CHUNKS * 4, "nothing is paid for verdicts that nobody would trust"
        assert result["down"] == []
        run = store.run(result["run"])
        pipeline.aggregate_scores(store, run)
        pipeline.detect_flips(store, run)
        assert pipeline.detect_problems(store, run)["high"] >= 1
        from leadline.tasks.runs.show import overview

        found = next(p for p in overview(store, run)["problems"] if p["attrs"].get("reason") == "quarantined")
        assert found["severity"] == "high"
        assert found["instrument"]
        assert "test.brief gave 0 where brief must be 0.5 to 1 (canary 'k1')" in found["description"]

        endpoint.reply = says(lambda question: "yes")
        asked = len(endpoint.log)
        again = evaluate(store, rows, [judge_at(endpoint.url)], canaries=file)
        assert states(again) == {("scored", None): 2 * ROWS}
        assert len(endpoint.log) - asked == ROWS * CALLS_PER_ROW + CHUNKS * 4

        asked = len(endpoint.log)
        evaluate(store, rows, [judge_at(endpoint.url)], canaries=file)
        assert len(endpoint.log) == asked, "where nothing is to be scored, no canary is asked"


def test_a_judge_that_breaks_on_the_way_costs_the_chunks_after_that(tmp_path: Path) -> None:
    file = canary_file(tmp_path, {"test.brief": 1})
    canaries = 0

    def word(question: Question) -> str:
        nonlocal canaries
        canaries += 1
        return "yes" if canaries == 1 else "no"

    with serving(JudgeEndpoint(says(word))) as endpoint:
        rows = write_rows(tmp_path / "rows.jsonl", ROWS)
        result = evaluate(Store.open(tmp_path / "store"), rows, [judge_at(endpoint.url)], canaries=file)
    found = states(result)
    assert set(found) == {("scored", None), ("unscored", "quarantined")}
    assert 0 < found["scored", None] < 2 * ROWS


@pytest.mark.parametrize(("said", "reason"), [("yes and no", "quarantined"), ("no", "quarantined")])
def test_an_unreadable_canary_is_a_failed_one(tmp_path: Path, said: str, reason: str) -> None:
    file = canary_file(tmp_path, {"test.brief": 1})
    rows = write_rows(tmp_path / "few.jsonl", 3)
    with serving(JudgeEndpoint(says(lambda question: said))) as endpoint:
        result = evaluate(Store.open(tmp_path / "store"), rows, [judge_at(endpoint.url)], canaries=file)
    assert {line[4] for line in result["scores"]} == {reason}


def test_without_money_for_canaries_rows_that_are_on_record_are_still_read(tmp_path: Path) -> None:
    file = canary_file(tmp_path, {"test.brief": 1})
    rows = write_rows(tmp_path / "few.jsonl", 3)
    store = Store.open(tmp_path / "store")
    with serving(JudgeEndpoint(reply)) as endpoint:
        first = evaluate(store, rows, [judge_at(endpoint.url)])
        for segment in store.root.glob("scores/**/*.parquet"):
            segment.unlink()
        again = evaluate(store, rows, [judge_at(endpoint.url)], canaries=file, limits=Limits(calls=0))
    assert again["scores"] == first["scores"]


def test_a_chunk_that_is_tried_again_pays_for_no_canary_twice(tmp_path: Path) -> None:
    file = canary_file(tmp_path, {"test.brief": 1})
    rows = write_rows(tmp_path / "few.jsonl", 3)
    command = [sys.executable, "-c", _TWICE, str(tmp_path / "store"), str(rows), file]
    with serving(JudgeEndpoint(says(lambda question: "yes"), latency=0.05)) as endpoint:
        subprocess.run(
            [*command, endpoint.url], check=True, timeout=100, env=os.environ | {"PYTHONPATH": str(Path.cwd())}
        )
        asked = Counter(line.question.text for line in endpoint.log)
    assert set(asked.values()) == {1}


_TWICE = """
import sys
from pathlib import Path
from leadline.tasks import pipeline
from leadline.tasks.plan.selection import Choice
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.store import Store
from leadline.evaluators.settings import Settings
from tests.support.judges.judged_run import EVALUATORS, judge_at, register
register()
store = Store.open(sys.argv[1])
planned = pipeline.plan_run(
    store, load_dataset(store, sys.argv[2]), Choice(tuple(kind() for kind in EVALUATORS), {}),
    Settings(judges=(judge_at(sys.argv[4]),)), model_keys=(), processes=1, config={}, canaries=sys.argv[3],
)
for chunk in planned.chunks * 2:
    score_chunk(chunk)
"""


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"test.breif": 1}, "Did you mean"),
        ({"test.brief.length": 1}, "has no metric 'length'"),
        ({"test.brief": "high"}, "must be a number"),
        ({"test.brief": [1]}, "must be a number"),
        ({"test.brief": [1, 0]}, "must be a number"),
        ([1], "must be an object"),
        ({"bleu": 1}, "has no one primary metric|No canary of"),
        ({"llamaindex.correctness": [4, 5]}, "No canary of"),
    ],
)
def test_an_expectation_that_makes_no_sense_is_refused_before_anything_is_asked(
    tmp_path: Path, expected: Any, said: str
) -> None:
    rows = write_rows(tmp_path / "few.jsonl", 3)
    with serving(JudgeEndpoint(reply)) as endpoint:
        with pytest.raises(UsageError, match=said) as error:
            evaluate(
                Store.open(tmp_path / "store"), rows, [judge_at(endpoint.url)], canaries=canary_file(tmp_path, expected)
            )
        assert endpoint.log == []
    assert said.startswith(("Did", "No", "has no one")) or "k0" in str(error.value)


def test_a_csv_file_may_hold_canaries_too(tmp_path: Path) -> None:
    path = tmp_path / "canaries.csv"
    path.write_text('case,model,actual_answer,expected_scores\nk,canary,It is deep.,"{""test.brief"": [0, 1]}"\n')
    (canary,) = read_canaries(load_dataset(Store.open(tmp_path / "store"), path).path)
    assert canary.expected == {"test.brief": {"brief": (0.0, 1.0)}}
    assert canary.row.actual_answer == "It is deep."


def test_too_many_canaries_are_refused(tmp_path: Path) -> None:
    file = canary_file(tmp_path, *[{"test.brief": 1}] * 101)
    rows = write_rows(tmp_path / "few.jsonl", 3)
    with serving(JudgeEndpoint(reply)) as endpoint, pytest.raises(UsageError, match="100 are the most"):
        evaluate(Store.open(tmp_path / "store"), rows, [judge_at(endpoint.url)], canaries=file)
