"""Evaluating and comparing from Python, through the front door."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leadline
from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.flows.evaluate.config import EvaluateConfig
from tests.tasks.compare.two_runs import completed

SCRIPT = """
import leadline

settings = {"evaluators": ["rouge", "own"], "evaluator_files": ["own.py"], "store": "store"}
settings["params"] = {"rouge": {"metric_threshold": 0.5}}
before, after = (leadline.evaluate(f"{side}.csv", **settings) for side in ("old", "new"))
again = leadline.evaluate("old.csv", flow=True, **settings)
open("own.py", "a").write("# changed")
changed = leadline.evaluate("old.csv", **settings)
found = leadline.compare(before, after, store="store")
print(before.gate, before.report.exists(), found.verdict, len(found.metrics))
print(before.computed, after.computed, again.computed, changed.computed)
"""

OWN = """
import leadline

@leadline.register
class Own(leadline.RowEvaluator):
    spec = leadline.Spec.simple("own", inputs=["actual_answer"], higher_is_better=True)

    def score_row(self, row, ctx):
        return leadline.RowScore({"own": float("answer" in row.actual_answer)})
"""


@pytest.fixture
def answers(tmp_path: Path) -> str:
    path = tmp_path / "answers.csv"
    path.write_text("question,expected_answer,actual_answer\nWho?,Ada,Ada\nWhere?,London,Paris\n")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"suit": "rules"}, "suit: "),
        ({"suite": "ruels"}, "There is no suite called 'ruels'"),
        ({"evaluators": ["rouge"], "model_keys": ["nobody"]}, "nobody"),
        ({"config": EvaluateConfig(dataset="a.csv")}, "either a dataset or a config"),
    ],
)
@pytest.mark.parametrize("flow", [True, False])
def test_what_makes_no_sense_is_refused_before_a_server_or_a_run_starts(
    answers: str, settings: dict[str, Any], message: str, flow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    with pytest.raises(UsageError, match=message):
        leadline.evaluate(answers, flow=flow, **settings)
    assert not (tmp_path / "store" / "runs").exists()


def test_a_run_needs_no_prefect_and_may_be_called_where_an_event_loop_runs(answers: str, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys, leadline\n"
        "async def main():\n"
        f"    return leadline.evaluate({answers!r}, evaluators=['rouge'], store='store')\n"
        "result = asyncio.run(main())\n"
        "print(result.computed, result.report.exists(), 'prefect' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.stdout == "2 True False\n", done.stderr


def test_a_flow_without_a_server_is_a_run_in_this_process_and_says_so(answers: str, tmp_path: Path) -> None:
    script = (
        "import sys, leadline\n"
        f"result = leadline.evaluate({answers!r}, evaluators=['rouge'], store='store', flow=True, progress=False)\n"
        "print(result.computed, 'prefect' in sys.modules)\n"
    )
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LEADLINE_"))}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200,
        env=alone | {"CI": "", "PREFECT_HOME": str(tmp_path / "prefect")},
    )  # fmt: skip
    assert done.stdout == "2 False\n", done.stderr
    assert done.stderr == "No Prefect server: this run is not in a UI. Start one with: leadline service server start\n"


def test_a_config_takes_no_further_settings() -> None:
    with pytest.raises(UsageError, match="either a config or settings such as suite"):
        leadline.evaluate(config=EvaluateConfig(dataset="a.csv"), suite="rules")


def test_runs_are_compared_without_prefect(tmp_path: Path) -> None:
    before, after = (completed(tmp_path, {"m": [value + 0.01 * (n % 5) for n in range(30)]}) for value in (0.8, 0.4))
    found = leadline.compare(before.id, after.id, store=str(tmp_path / "store"), margin=0.02)
    assert found.verdict == "fail"
    assert found.report.exists()
    with pytest.raises(UsageError, match="margn: "):
        leadline.compare(before.id, margn=0.02)


@pytest.mark.e2e
def test_two_files_are_evaluated_and_compared(tmp_path: Path, api: dict[str, str]) -> None:
    rows = [f"Question {n}?,The answer is {n},{{}}" for n in range(12)]
    for side, answer in (("old", "The answer is {n}"), ("new", "No idea")):
        lines = [row.format(answer.format(n=n)) for n, row in enumerate(rows)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["question,expected_answer,actual_answer", *lines]))
    (tmp_path / "own.py").write_text(OWN)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=os.environ | api, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    # 12 rows each of rouge and own; equal answers are scored once, and a changed file only its own evaluator.
    assert done.stdout.splitlines()[-2:] == ["pass True fail 2", "24 13 0 12"]


@pytest.mark.parametrize(
    ("data", "metrics", "said"),
    [
        ([{"foo": "q", "bar": "a"}], ["exact_match"], 'map={"question": "COLUMN", "actual_answer": "COLUMN"}.'),
        (
            [{"response": "a", "model answer": "b"}],
            ["exact_match"],
            'map={"actual_answer": "model answer"}',
        ),
        ([{"question": "q", "actual_answer": "a", "retrieved_context": ["c"]}], ["faithfulness"], 'judge="MODEL"'),
    ],
)
def test_errors_say_what_to_do_in_python(data: Any, metrics: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(LeadlineError) as caught:
        leadline.evaluate(data, metrics=metrics, store=tmp_path)
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
