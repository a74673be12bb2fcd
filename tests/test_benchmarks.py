"""Every benchmark runs, in a size that takes seconds, so that none rots; what they measure is looked at by a person."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import all as every
from benchmarks import crowd, dispatch, end_to_end, history, judge, night, verdicts
from leadline.evaluators.models import runtime

SMALL = {
    "aggregation --cases 200 --models 2 --metrics 5 --repeats 1": "2,000 scores, 10 aggregates, 5 flips, 420 slices",
    "classification 500 3": "500 predictions of 3 labels, times scikit-learn",
    "comparing --cases 200 --metrics 2": "200 cases, 2 metrics",
    "coverage --draws 10": "pass/fail, 15 points worse",
    "detection 3": '"difference of mAP": 0.0',
    "endpoint --capacity": "calls/s",
    "loading --rows 50 --repeats 1": "parquet, times Arrow",
    "tool_calls 200": "difference of the mean F1: 0.0e+00",
    "traces --spans 300": "orjson: 300 spans",
    "trust_simulation --runs 2": "Corrected shares: coverage",
    "workbench --runs 3 --rows 400": "3 runs, one of 400 rows",
    "verdicts --draws 1 --rows 20": "judge that errs in 10%, 30% wrong",
}
WITH_MODELS = {
    "bare_models --rows 2 --repeats 1 --only toxicity grounding": "there is no GPU",
    "bare_models --texts 12": "12 texts: greatest difference",
    "embedding --rows 2 --repeats 1": "raw encode",
    "judge 1": "calls per case of four RAG evaluators: 5.00",
    "models --rows 2 --repeats 1 --only toxicity": "toxicity",
    "rules 40": "speed-up over plain loops",
    "warm 1": "1 rows; bleu",
}
PARTS = {"history", "live_service", "machine", "subjects", "trust_figures", "trust_sets", "all"}
"""What others are made of, or run the others."""
ELSEWHERE = {"trust", "label_simulation"}
"""Held by tests/tasks/statistics/test_trust_figures.py and tests/tasks/judges/labels/test_label_simulation.py."""
IN_PROCESSES = {"dispatch", "end_to_end", "night", "crowd", "webhook_load"}


def said(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a benchmark's ``main`` and return what it prints."""
    name, *arguments = command.split()
    monkeypatch.setattr("sys.argv", [name, *arguments])
    importlib.import_module(f"benchmarks.{name}").main()
    return capsys.readouterr().out


@pytest.mark.parametrize("command", SMALL)
def test_a_small_size_runs(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(verdicts, "WRONG", (0.3,))
    monkeypatch.setattr(verdicts, "JUDGES", 1)
    monkeypatch.setattr(verdicts, "BOTS", {"labels": verdicts.BOTS["labels, all right"]})
    assert SMALL[command] in said(command, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("command", WITH_MODELS)
def test_a_small_size_runs_with_models(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judge, "ROUNDS", 1)
    monkeypatch.setattr("benchmarks.bare_models.LAYERS", ((1, 64),))  # named, not imported: it brings PyTorch
    runtime.unload()  # they look at the one model that they have loaded
    assert WITH_MODELS[command] in said(command, monkeypatch, capsys)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("what", "told"), [("dask", "one Dask worker"), ("overhead", "per chunk"), ("judges", "1 workers")]
)
def test_dispatch_runs(
    what: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"CHUNKS": (2,), "ROWS": 20, "JUDGED_ROWS": 24, "WORKERS": (1,), "DASK_RULES": 40, "DASK_JUDGED": 10}
    for name, value in (sizes | {"OVERHEAD_CHUNKS": 2}).items():
        monkeypatch.setattr(dispatch, name, value)
    assert told in said(f"dispatch {what}", monkeypatch, capsys)


@pytest.mark.e2e
def test_whole_commands_are_measured_beside_no_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: dict[str, Any] = {
        "MANY": 10,
        "COLLECTED": 6,
        "LATENCY_S": 0.01,
        "QUICK_S": 0.01,
        "MODEL_S": 0.01,
        "LOOPED": 50,
    }
    for name, value in sizes.items():
        monkeypatch.setattr(end_to_end, name, value)
    bench = end_to_end.Bench(tmp_path, 1, (50, 50))
    for measure in (bench.help, bench.collect, bench.scale):
        measure()
    told = capsys.readouterr().out
    assert "collect of 6 answers at 10 ms" in told
    assert "50 rows x pii_leakage, looping_detection" in told


def test_what_became_slower_on_the_same_machine_is_told_from_the_history(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    assert history.keep(file, {"a": 2.0, "b": 2.0}) == []
    assert history.keep(file, {"a": 2.29, "c": 9.0}) == [], "14 % is within what medians differ by"
    other = json.loads(file.read_text().splitlines()[0]) | {"machine": "a faster one", "medians": {"b": 0.1}}
    file.write_text(file.read_text() + json.dumps(other) + "\n")
    [line] = history.keep(file, {"a": 2.0, "b": 2.4})
    assert "by 20%: b, 2.00 s -> 2.40 s" in line
    assert len(file.read_text().splitlines()) == 4


@pytest.mark.service
@pytest.mark.soak
@pytest.mark.parametrize("command", ["crowd --runs 2", "night --minutes 0.1 --every 2 --kill-every 3",
                                     "webhook_load --minutes 0.05 --kills 1"])  # fmt: skip
def test_benchmarks_of_the_service_run(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(night, "LOOK_S", 1)
    monkeypatch.setattr(night, "ALERTS_S", 5)
    monkeypatch.setattr(crowd, "ROWS", 3)
    monkeypatch.setattr("sys.exit", lambda code: None if code == 0 else pytest.fail(capsys.readouterr().out))
    assert "WRONG" not in said(command, monkeypatch, capsys)


def test_each_benchmark_is_run_here_or_is_a_part_of_one() -> None:
    there = {path.stem for path in Path(every.__file__).parent.glob("[!_]*.py")}
    run = {command.split()[0] for command in (*SMALL, *WITH_MODELS)} | IN_PROCESSES
    assert run | PARTS | ELSEWHERE == there
    assert set(every.NAMES) <= run
