"""Juries in runs, over real HTTP: better than their judges, and steady when one of them is down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.tasks.db import open_run, records
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import Fault, JudgeEndpoint, broken, serving
from tests.support.judges.labelled_answers import (
    answers_file,
    is_bad,
    judge_of_accuracy,
    labelled_by_people,
    write_settings,
)
from tests.support.processes.waiting import kill_once

ROWS = 120
ACCURACY = {"low": 0.75, "middle": 0.8, "high": 0.85}
ROWS_OF_METRIC = (
    "SELECT case_key, status::VARCHAR AS status, reason, value, evidence FROM scores "
    "JOIN metrics USING (metric_id) JOIN rows USING (row_id) JOIN cases USING (case_id) "
    "LEFT JOIN evidence USING (row_id) WHERE metric = 'no_sexism_pass'"
)
JURY = '[judges.panel]\njury = ["low", "middle", "high"]\n'


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    with serving(judge_of_accuracy(ACCURACY)) as endpoint:
        write_settings(tmp_path, endpoint.url, {name: name for name in ACCURACY}, JURY)
        answers_file(tmp_path, ROWS)
        yield endpoint


def _evaluated(judge: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    """Evaluate by a judge, and return the rows by case: value, reason and evidence."""
    capsys.readouterr()
    assert run(["--quiet", "evaluate", "answers.jsonl", "-e", "sexism", "--judge", judge, "--json"]) == 0
    name = json.loads(capsys.readouterr().out)["run"]
    store = Store.open()
    with open_run(store, store.run(name), read_only=True) as connection:
        found = records(connection, ROWS_OF_METRIC)
    return {line["case_key"]: line for line in found}


def _right(rows: dict[str, dict[str, object]]) -> float:
    """Return the share of rows whose verdict is the truth."""
    return sum(row["value"] == float(not is_bad(int(case[1:]))) for case, row in rows.items()) / len(rows)


def test_a_jury_is_better_than_its_judges_and_asks_for_nothing_twice(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    panel = _evaluated("panel", capsys)
    assert len(judges.log) == 3 * ROWS
    alone = {name: _evaluated(name, capsys) for name in ACCURACY}
    assert len(judges.log) == 3 * ROWS  # the replies of the jury's judges are in the ledger
    assert _right(panel) > max(map(_right, alone.values()))
    evidence = json.loads(str(panel["c1"]["evidence"]))["data"]
    assert {name: told["value"] for name, told in evidence["jury"].items()} == {
        name: rows["c1"]["value"] for name, rows in alone.items()
    }
    assert len(set(evidence["calls"])) == 3
    assert run(["judges", "calls", evidence["jury"]["low"]["calls"][0]]) == 0
    assert "low" in capsys.readouterr().out
    _evaluated("panel", capsys)
    assert len(judges.log) == 3 * ROWS


def test_the_plan_counts_the_calls_and_the_price_of_all_judges(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = {}
    for name in ("low", "panel"):
        assert run(["evaluate", "--plan", "answers.jsonl", "-e", "sexism", "--judge", name, "--json"]) == 0
        [entry] = json.loads(capsys.readouterr().out)["entries"]
        prices[name] = (entry["judge_calls"], entry["cost_usd"])
    assert prices["panel"] == (3 * ROWS, pytest.approx(3 * prices["low"][1]))
    assert not judges.log


def test_with_one_judge_down_the_other_two_decide_where_they_agree(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    def down(question: object) -> Fault | None:
        return broken(400, "too long") if question.body["model"] == "low" else None  # type: ignore[attr-defined]

    judges.fault = down
    rows = _evaluated("panel", capsys)
    scored = {case: row for case, row in rows.items() if row["status"] == "scored"}
    assert 0.5 * ROWS < len(scored) < ROWS
    assert _right(scored) > 0.9
    assert {row["reason"] for row in rows.values() if row["status"] == "unscored"} == {"judge_refused"}
    told = json.loads(str(next(iter(scored.values()))["evidence"]))["data"]["jury"]
    assert told["low"]["problem"].startswith("judge_refused: ")
    judges.fault = lambda question: None
    assert {row["status"] for row in _evaluated("panel", capsys).values()} == {"scored"}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('jury = ["low", "nobody"]', "there is no single judge 'nobody'"),
        ('jury = ["low", "panel"]', "there is no single judge 'panel'"),
        ('jury = ["low", "low"]', "the judge 'low' twice"),
        ('jury = ["low"]', "members"),
        ('jury = "low"', "jury must be a list"),
        ('jury = ["low", "high"]\ntemperature = 0.2', "a jury has no temperature"),
        ('jury = ["low", "high"]\ncombine = "best"', "combine"),
        ('jury = ["low", "high"]\ncombine = "dawid-skene"', "leadline judges train"),
        ('jury = ["low", "high"]\n[judges.panel.weights."a.b"]\njudges.low = 0.5\njudges.high = 0.5', "dawid-skene"),
        (
            'jury = ["low", "high"]\ncombine = "dawid-skene"\n[judges.panel.weights."a.b"]\ngood = 0.5\n'
            "judges.low = {passes = 0.4, catches = 0.5}\njudges.high = {passes = 0.9, catches = 0.9}",
            "leave this judge out",
        ),
        (
            'jury = ["low", "high"]\ncombine = "dawid-skene"\n[judges.panel.weights."a.b"]\njudges.low = 0.5',
            "other judges",
        ),
    ],
)
def test_a_jury_that_makes_no_sense_is_refused_in_a_line(
    judges: JudgeEndpoint, tmp_path: Path, table: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(tmp_path, judges.url, {"low": "low", "high": "high"}, f"[judges.panel]\n{table}\n")
    assert run(["evaluate", "--plan", "answers.jsonl", "-e", "sexism", "--judge", "panel"]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "leadline.toml, [judges.panel]: " in err
    assert "Traceback" not in err


def test_a_jury_writes_no_questions(judges: JudgeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text(
        "# Berths\n\nThe deepest berth of the harbour is 14 m deep, says the harbour.\n" * 20
    )
    assert run(["data", "generate", "page.md", "-o", "q.jsonl", "--judge", "panel"]) == 3
    assert "is a jury" in capsys.readouterr().err


@pytest.mark.e2e
def test_a_comparison_that_is_killed_goes_on_where_it_was(judges: JudgeEndpoint, tmp_path: Path) -> None:
    settings = tmp_path / "leadline.toml"
    few = "max_in_flight = 8\nstart_in_flight = 8\nmodel ="
    settings.write_text(settings.read_text(encoding="utf-8").replace("model =", few), encoding="utf-8")
    labelled_by_people(tmp_path, ROWS)
    judges.latency = 0.2
    asked = len(judges.log)
    command = [sys.executable, "-m", "leadline.cli.main", "judges", "compare", "high", "panel"]
    killed = subprocess.Popen(command, start_new_session=True)
    kill_once(lambda: len(judges.answered) >= asked + 80, killed)
    judges.latency = 0.0
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "high agrees with people more often" in ended.stdout or "not told apart" in ended.stdout
    times = Counter((line.question.body["model"], line.question.text) for line in judges.log)
    again = sum(number - 1 for number in times.values())
    assert len(times) == 3 * ROWS
    assert again <= 2 * 8  # those of the two other judges that were in flight, or not on record yet
