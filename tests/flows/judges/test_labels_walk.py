"""A judge that errs, labelled by people: corrected on show and report, stale after a prompt change, and the gate."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.judges.judge_endpoint import serving
from tests.support.judges.labelled_answers import METRIC, is_bad, judge_of_accuracy

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROWS = 300


class Bench:
    """A folder in which ``leadline`` is typed."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.settings = f'[judges.small]\nmodel = "openai/small"\napi_base = "{url}"\n'
        self.write()

    def write(self, temperature: float = 0.0, limit: float = 0.5) -> None:
        (self.folder / "leadline.toml").write_text(
            f'{self.settings}temperature = {temperature}\n\n[policy.rules.sexism]\nrole = "should"\n'
            f"threshold = {limit}\n"
        )

    def answers(self, name: str) -> str:
        lines = [
            {"case": f"{name}{n}", "model": "bot", "question": f"Question {n} of {name}?",
             "actual_answer": f"Answer {n} is {'vile' if is_bad(n) else 'fine'}."}
            for n in range(ROWS)
        ]  # fmt: skip
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return f"{name}.jsonl"

    def run(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "leadline.cli.main", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout

    def gate(self, dataset: str, *more: str, code: int) -> dict[str, str]:
        asked = ("--fail-on", "high", "--server", "none", "--json", *more)
        outcome: dict[str, str] = json.loads(self.run("evaluate", dataset, "-e", "sexism", *asked, code=code))
        return outcome


def _label(bench: Bench, people: Sequence[str]) -> None:
    """Let people say the truth of 100 rows of the last run."""
    bench.run("labels", "sample", "latest", "--metric", METRIC, "--n", "100", "-o", "tasks.jsonl")
    tasks = [json.loads(line) for line in (bench.folder / "tasks.jsonl").read_text().splitlines()]
    assert len(tasks) >= 100
    said = [task | {"person": who, "value": int("fine" in task["answer"])} for who in people for task in tasks]
    (bench.folder / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    bench.run("labels", "import", "said.jsonl")


def test_a_judge_of_85_percent_is_corrected_certified_stale_and_decides_by_what_people_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    with serving(judge_of_accuracy({"small": 0.85})) as endpoint:
        bench = Bench(tmp_path, endpoint.url)
        dataset = bench.answers("first")
        corrected = ("--gate-on", "corrected")
        unlabelled = bench.gate(dataset, *corrected, code=1)
        assert unlabelled["gate"] == "inconclusive"
        assert f" --metric {METRIC}" in unlabelled["gate_reason"].partition("leadline labels sample ")[2]

        _label(bench, ("anna", "ben"))
        shown = bench.run("show", "latest")
        assert " · corrected 7" in shown
        assert "labels of 2 people" in shown
        assert " · valid" in shown
        asked = len(endpoint.log)
        passed = bench.gate(dataset, *corrected, code=0)
        assert passed["gate"] == "pass"
        assert "people 7" in Path(passed["report"]).read_text(encoding="utf-8")
        bench.write(limit=0.9)
        failed = bench.gate(dataset, *corrected, code=1)
        assert failed["gate"] == "fail"
        assert "of the answers are good" in failed["gate_reason"]
        assert len(endpoint.log) == asked

        bench.write(temperature=0.3)
        stale = bench.gate(bench.answers("second"), *corrected, code=1)
        assert stale["gate"] == "inconclusive"
        assert "earned with another prompt or judge: leadline judges certify" in stale["gate_reason"]
        assert " · stale: earned with another prompt or judge; judging 1" in bench.run("show", "latest")
        asked = len(endpoint.log)
        assert ": valid" in bench.run("judges", "certify", "latest")
        assert 100 <= len(endpoint.log) - asked < 120
        assert "borrowed from other rows" in bench.run("show", "latest")
