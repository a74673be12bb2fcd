"""Judged runs by the command line, over real HTTP: killed, left without a judge, kept within a budget, looked at."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from leadline.tasks.ledger.ledger import read_ledger
from tests.support.judges.agreeable_judge import in_form
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import Fault, JudgeEndpoint, Question, broken, serving
from tests.support.models.tiny_models import WORDS, make_embedder
from tests.support.processes.terminal import Terminal
from tests.support.stores.results import scores_of, tables_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EVALUATORS = ("databricks.correctness", "databricks.relevance_to_query")
ROWS = 60
IN_FLIGHT = 8


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_berths(tmp_path / "rows.jsonl", ROWS)


def terminal(
    folder: Path, api: dict[str, str], endpoint: JudgeEndpoint, structured: str = "auto", **variables: str
) -> Terminal:
    settings = {"max_in_flight": IN_FLIGHT, "start_in_flight": IN_FLIGHT, "down_after_s": 1.0, "structured": structured}
    (folder / "leadline.toml").write_text(endpoint.toml(**settings))
    return Terminal(folder, api, **variables)


def evaluating(dataset: Path, store: str = "store") -> list[str]:
    chosen = [part for name in EVALUATORS for part in ("-e", name)]
    return ["evaluate", str(dataset), *chosen, "--store", store]


REPORTED = ("aggregates", "problems")


def test_a_judged_run_that_is_killed_twice_ends_as_if_nothing_had_happened(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    with serving(JudgeEndpoint(passing(0.67), latency=0.15)) as endpoint:
        bench = terminal(tmp_path, api, endpoint)
        whole = bench.json(*evaluating(dataset, "whole"))
        asked = len(endpoint.log)
        for share in (0.3, 0.7):
            bench.kill_after(endpoint, round(asked * (1 + share)), *evaluating(dataset))
        last = bench.json(*evaluating(dataset))
    assert scores_of(bench.store()) == scores_of(bench.store("whole"))
    assert tables_of(bench.store(), *REPORTED) == tables_of(bench.store("whole"), *REPORTED)
    assert Path(last["report"]).exists()
    assert (last["scored"], last["gate"]) == (whole["scored"], whole["gate"])
    finished = Counter(ask["digest"] for ask in read_ledger(bench.store()).asks() if ask["state"] == "answered")
    assert set(finished.values()) == {1}
    assert len(finished) == asked
    assert len(endpoint.log) - 2 * asked <= 2 * IN_FLIGHT
    assert last["judge_made_again"] <= 2 * IN_FLIGHT


def test_a_run_that_is_killed_while_rows_are_judged_again_judges_the_same_rows_and_pays_for_none_twice(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    for number, row in enumerate(rows[ROWS // 2 :]):
        row["relationships"] = [{"type": "perturbation_source", "target": f"c{number:04d}", "perturbation": "typo"}]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    again = ("--trials", "2", "--trial-rows", "auto")
    with serving(JudgeEndpoint(passing(0.67), latency=0.15)) as endpoint:
        bench = terminal(tmp_path, api, endpoint)
        whole = bench.json(*evaluating(dataset, "whole"), *again)
        asked = len(endpoint.log)
        assert asked > len(EVALUATORS) * ROWS + 2 * IN_FLIGHT
        bench.kill_after(endpoint, asked + len(EVALUATORS) * ROWS + IN_FLIGHT, *evaluating(dataset), *again)
        last = bench.json(*evaluating(dataset), *again)
    tables = ("scores", "repeats", "judged_again", "flip_rates")
    found = tables_of(bench.store(), *tables)
    assert all(found.values())
    assert found == tables_of(bench.store("whole"), *tables)
    assert (last["scored"], last["gate"]) == (whole["scored"], whole["gate"])
    finished = Counter(ask["digest"] for ask in read_ledger(bench.store()).asks() if ask["state"] == "answered")
    assert set(finished.values()) == {1}
    assert len(finished) == asked


def test_scores_with_embeddings_in_them_are_the_same_to_the_last_bit_after_a_kill(
    tmp_path: Path, api: dict[str, str]
) -> None:
    draw = random.Random(5)
    dataset = tmp_path / "rows.jsonl"
    rows = [
        {"case": f"c{n}", "model": "m", "expected_answer": some_words(draw), "actual_answer": some_words(draw)}
        for n in range(ROWS)
    ]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    embedder = make_embedder(tmp_path / "embedder")

    def agree(question: Question) -> str:
        return json.dumps(in_form(question.body["response_format"]["json_schema"]["schema"], question.text))

    with serving(JudgeEndpoint(agree, latency=0.1)) as endpoint:
        bench = terminal(tmp_path, api, endpoint, structured="json_schema")
        command = ["evaluate", str(dataset), "-e", "answer_correctness", "--embedder", str(embedder), "--store"]
        bench.run(*command, "whole")
        bench.kill_after(endpoint, round(1.6 * len(endpoint.log)), *command, "store")
        bench.run(*command, "store")
    assert scores_of(bench.store()) == scores_of(bench.store("whole"))
    assert len({line[-1] for line in scores_of(bench.store())}) > 50, "similarities that differ from row to row"
    assert tables_of(bench.store(), *REPORTED) == tables_of(bench.store("whole"), *REPORTED)


def some_words(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))


def test_without_its_judge_a_run_is_published_and_a_later_one_asks_for_what_is_missing(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    with serving(JudgeEndpoint(passing(0.67), down_from=50)) as endpoint:
        bench = terminal(tmp_path, api, endpoint, LEADLINE_STORE="store")
        planned = bench.json(*evaluating(dataset), "--plan")["entries"]
        assert len(planned) == len(EVALUATORS)
        assert {entry["judge_calls"] for entry in planned} == {ROWS}
        assert {entry["cost_usd"] for entry in planned} == {None}, "an unknown price is not 0"

        first = bench.json(*evaluating(dataset))
        assert Path(first["report"]).exists()
        states = Counter(line[3:5] for line in scores_of(bench.store()))
        assert states == {("scored", None): 50, ("unscored", "judge_unavailable"): 2 * ROWS - 50}
        assert first["judge_calls"] == first["judge_unknown_price"] == 50
        failed = bench.json("judges", "calls", "--failed")
        assert failed
        assert {ask["state"] for ask in failed} == {"failed"}

        endpoint.down_from = None
        second = bench.json(*evaluating(dataset))
        assert second["unscored"] == 0
        assert second["computed"] == 2 * ROWS - 50
        assert set(Counter(endpoint.answered).values()) == {1}

        asked = len(endpoint.log)
        assert bench.json("judges", "reparse", second["run"])["unscored"] == 0
        assert len(endpoint.log) == asked
        shown = bench.run("judges", "calls", bench.json("judges", "calls")[0]["digest"][:10]).stdout
        assert "How deep is berth" in shown
        assert "Because of the harbour." in shown
        totals = {
            line["evaluator"]: line["answered"]
            for line in bench.json("judges", "calls", "--totals", "--run", first["run"])
        }
        assert sum(totals.values()) == 50
        assert str(second["run"]) in bench.run("judges", "calls", "--totals").stdout


def test_a_judge_that_is_restarted_on_the_way_costs_no_score(
    tmp_path: Path, api: dict[str, str], dataset: Path
) -> None:
    gone_since: list[float] = []

    def fault(question: Question) -> Fault | None:
        if question.number >= 50 and not gone_since:
            gone_since.append(time.monotonic())
        return broken(503) if gone_since and time.monotonic() - gone_since[0] < 4 else None

    with serving(JudgeEndpoint(passing(0.67), fault=fault)) as endpoint:
        bench = terminal(tmp_path, api, endpoint, LEADLINE_STORE="store")
        result = bench.json(*evaluating(dataset))
    assert result["unscored"] == 0
    assert result["judge_calls"] == 2 * ROWS
    assert bench.json("judges", "calls", "--failed"), "the judge was not away long enough to make a chunk fail"
