"""Times of a run: parts that add up to the whole, lanes that overlap, and the moment at which the process began."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.ground import timeline as module
from leadline.tasks.ground.timeline import (
    RunTime,
    Timeline,
    TimeSpan,
    in_part,
    in_step,
    noting_imports,
    process_began,
    timed_by,
    write_trace,
)
from tests.support.processes.trace_format import check_format


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_moment_counts_to_exactly_one_part(clock: Clock) -> None:
    timeline = Timeline(began=99.0, clock=clock)
    clock.wait(1)
    with timeline.part("load"):
        clock.wait(2)
        with timeline.part("plan"):
            clock.wait(4)
        clock.wait(8)
    clock.wait(16)
    with timeline.part("publish"):
        clock.wait(32)
    clock.wait(64)
    found = timeline.so_far()
    assert found.parts == {"start": 18.0, "load": 10.0, "plan": 4.0, "publish": 32.0, "end": 64.0}
    assert found.total == clock.now - 99
    spans = [span for span in timeline.spans if span.kind == "part"]
    assert all(before.ended == after.began for before, after in pairwise(spans))


def test_parts_add_up_however_they_are_rounded(clock: Clock) -> None:
    timeline = Timeline(clock=clock)
    for part in ("load", "plan", "score"):
        with timeline.part(part):
            clock.wait(1 / 3)
    found = timeline.so_far()
    assert found.total == pytest.approx(sum(found.parts.values()), abs=1e-12)
    assert found.total == pytest.approx(1, abs=0.003)


def test_a_part_that_fails_is_counted(clock: Clock) -> None:
    timeline = Timeline(clock=clock)

    def fail() -> None:
        with timeline.part("load"):
            clock.wait(3)
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        fail()
    clock.wait(1)
    assert timeline.so_far().parts == {"start": 1.0, "load": 3.0}


def test_processor_time_counts_to_the_part_in_which_it_was_used() -> None:
    timeline = Timeline()
    with timeline.part("load"):
        time.sleep(0.05)
    with timeline.part("plan"):
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
    processor = timeline.so_far().processor
    assert list(processor) == ["start", "load", "plan"]
    assert processor["load"] < 0.04 <= processor["plan"]


def test_lanes_overlap_and_steps_of_one_name_add_up(clock: Clock) -> None:
    timeline = Timeline(clock=clock)
    with timeline.part("score"):
        timeline.mark_lane("cpu")
        timeline.mark_lane("judge")
        clock.wait(2)
        timeline.mark_lane("cpu")
        clock.wait(3)
        timeline.mark_lane("judge")
    with timeline.part("aggregate"):
        for _ in range(2):
            with timeline.step("gather"):
                clock.wait(1)
    found = timeline.so_far()
    assert found.lanes == {"cpu": 2.0, "judge": 5.0}
    assert found.steps == {"aggregate": {"gather": 2.0}}
    assert found.in_words() == "7.0 s: start 0.0, score 5.0 (cpu 2.0, judge 5.0), aggregate 2.0"


def test_times_come_back_from_a_record(clock: Clock) -> None:
    timeline = Timeline(clock=clock)
    with timeline.part("score"):
        timeline.mark_lane("gpu")
    found = timeline.so_far()
    assert RunTime.from_record({"time": found.to_json()}) == found
    assert RunTime.from_record({"status": "running"}) is None


def test_spans_are_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPANS", 10)
    timeline = Timeline(clock=clock)
    for number in range(12):
        with timeline.step(str(number)):
            clock.wait(1)
    assert len(timeline.spans) == 10 + 1, "and the part that is on"
    assert timeline.dropped == 2


def test_deeper_code_measures_the_command_that_is_being_run(clock: Clock) -> None:
    with in_part("load"), in_step("server"):
        clock.wait(1)  # nobody asked
    timeline = Timeline(clock=clock)
    with timed_by(timeline), in_part("load"), in_step("read"):
        clock.wait(2)
    found = timeline.so_far()
    assert (found.parts, found.steps) == ({"start": 0.0, "load": 2.0}, {"load": {"read": 2.0}})


def test_lanes_may_be_marked_from_any_thread(clock: Clock) -> None:
    timeline = Timeline(clock=clock)
    threads = [threading.Thread(target=timeline.mark_lane, args=["cpu"]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timeline.so_far().lanes == {"cpu": 0.0}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a process was started")
def test_a_command_begins_with_its_process_not_with_its_first_line() -> None:
    code = "import time; time.sleep({pause}); first = time.monotonic()\n" + (
        "from leadline.tasks.ground.timeline import process_began; print(first - process_began(first))"
    )

    def before_first_line(pause: float) -> float:
        found = subprocess.run(
            [sys.executable, "-c", code.format(pause=pause)], capture_output=True, text=True, check=True
        )
        return float(found.stdout)

    assert 0.3 <= before_first_line(0.3) < 20


def test_a_process_that_was_another_program_before_began_with_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(module, "_SLOWEST_START_S", 0.0)
    assert process_began(now) == now


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
