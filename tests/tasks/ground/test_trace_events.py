"""Profiles: by the rules of the Trace Event Format, bounded, and of all processes that took part."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.ground.timeline import Timeline, TimeSpan, noting_imports, write_trace
from tests.support.processes.trace_format import check_format

HERE = "host:100:1"


def call(began: float, ended: float) -> dict[str, Any]:
    return {
        "purpose": "faithfulness:verdict", "state": "answered", "intended_at": began, "ended_at": ended, "tries": 1,
        "seconds": ended - began,
    }  # fmt: skip


def test_a_profile_has_a_track_for_each_thread_of_each_process(tmp_path: Path) -> None:
    spans = [
        TimeSpan("start", "part", 50_000_000, 51_000_000, HERE, "parts"),
        TimeSpan("score", "part", 51_000_000, 56_000_000, HERE, "parts"),
        TimeSpan("cpu-0", "chunk", 51_500_000, 53_500_000, "host:200:1", "MainThread 200"),
        TimeSpan('bl"eu \u2028', "evaluator", 51_600_000, 52_600_000, "host:200:1", "MainThread 200"),
        TimeSpan("cpu-1", "chunk", 51_500_000, 53_500_000, "host:300:1", "MainThread 300"),
    ]
    write_trace(tmp_path / "p.json", spans, [], run="r")
    events = check_format(tmp_path / "p.json")
    assert [(event["name"], event["ts"], event["dur"]) for event in events[:2]] == [
        ("start", 0, 1_000_000),
        ("score", 1_000_000, 5_000_000),
    ]
    assert len({event["pid"] for event in events}) == 3
    assert json.loads((tmp_path / "p.json").read_text())["otherData"] == {"began": 50.0, "run": "r"}


def test_calls_take_as_many_tracks_as_there_were_in_flight(tmp_path: Path) -> None:
    calls = [call(10.0, 11.0), call(10.1, 10.6), call(10.2, 12.0), call(10.7, 11.5), call(11.0, 11.2), call(12.0, 11.9)]
    write_trace(tmp_path / "p.json", [], calls)
    events = check_format(tmp_path / "p.json")
    assert len(events) == len(calls)
    assert len({event["tid"] for event in events}) == 3
    assert events[0]["args"] == {"state": "answered", "tries": 1, "seconds": 1.0}


def test_a_profile_of_nothing_can_be_opened(tmp_path: Path) -> None:
    write_trace(tmp_path / "p.json", [], [])
    assert check_format(tmp_path / "p.json") == []


def test_imports_are_noted_within_the_block_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("slow_one", "slow_two", "quick"):
        pause = "" if name == "quick" else "import time; time.sleep(0.01)\n"
        (tmp_path / f"{name}.py").write_text(pause + ("import slow_two\n" if name == "slow_one" else ""))
        monkeypatch.delitem(sys.modules, name, raising=False)
    timeline = Timeline()
    loader = importlib.machinery.SourceFileLoader
    before = loader.exec_module
    with noting_imports(timeline):
        importlib.import_module("slow_one")
        importlib.import_module("quick")
    assert loader.exec_module is before
    assert [span.name for span in timeline.spans if span.kind == "import" and span.name != "quick"] == [
        "slow_two",
        "slow_one",
    ]
