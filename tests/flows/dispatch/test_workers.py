"""Runs whose chunks go to workers: real server, real workers, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.tasks.store.store import Store
from tests.flows.evaluate.test_flip_causes import MisreadingJudge
from tests.flows.evaluate.test_flip_causes import write as write_pairs
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import SILENT, JudgeEndpoint, serving
from tests.support.processes.terminal import Terminal
from tests.support.processes.waiting import eventually
from tests.support.processes.worker_farm import Farm
from tests.support.stores.results import tables_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RULES: Final = ("bleu", "encoding_guardrail", "pii_leakage", "rouge", "sensitive_data_leakage", "valor.bleu")
JUDGED: Final = ("databricks.correctness", "databricks.relevance_to_query")
IN_FLIGHT: Final = 8
FOUND: Final = ("scores", "aggregates", "problems", "stopping", "flip_rates", "flip_causes")


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder = tmp_path_factory.mktemp("farm")
    with Farm(folder, folder / "prefect") as farm:
        yield farm


@pytest.fixture(autouse=True)
def _no_workers_left(farm: Farm) -> Iterator[None]:
    yield
    farm.stop_workers()


def write_rows(path: Path, rows: int, asked: int | None = None) -> Path:
    """Write answers; those after the first ``asked`` have no question, so that no judge can be asked of them."""
    lines = []
    for n in range(rows):
        line = {"case": f"c{n}", "model": f"m{n % 2}", "expected_answer": f"Berth {n} is {n} metres deep.",
                "actual_answer": f"Berth {n} has a depth of {n % 7} metres."}  # fmt: skip
        lines.append(line | ({"question": f"How deep is berth {n}?"} if asked is None or n < asked else {}))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class Bench:
    """``leadline evaluate`` against the farm, in a folder with a judge's configuration."""

    def __init__(self, farm: Farm, folder: Path, endpoint: JudgeEndpoint | None = None) -> None:
        self._terminal = Terminal(folder, farm.environment)
        if endpoint is not None:
            settings = {"max_in_flight": IN_FLIGHT, "start_in_flight": IN_FLIGHT, "down_after_s": 1.0}
            (folder / "leadline.toml").write_text(endpoint.toml(**settings))

    def start(
        self,
        dataset: Path,
        evaluators: tuple[str, ...],
        dispatch: str = "workers",
        store: str = "store",
        more: tuple[str, ...] = (),
    ) -> subprocess.Popen[str]:
        chosen = [part for name in evaluators for part in ("-e", name)]
        options = ("--dispatch", dispatch, "--store", store, "--json", *more)
        return self._terminal.start("evaluate", str(dataset), *chosen, *options)

    def run(self, dataset: Path, evaluators: tuple[str, ...], *where: str, more: tuple[str, ...] = ()) -> Any:
        return finish(self.start(dataset, evaluators, *where, more=more))

    def outcome(self, store: str = "store") -> dict[str, list[tuple[Any, ...]]]:
        """Return what the latest run found."""
        return tables_of(self._terminal.store(store), *FOUND)

    def latest(self, store: str = "store") -> str:
        runs = self._terminal.store(store).runs()
        return runs[-1].id if runs else ""


def finish(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    return json.loads(out)


def test_without_workers_auto_scores_here_and_workers_is_refused_in_a_line(farm: Farm, tmp_path: Path) -> None:
    bench, dataset = Bench(farm, tmp_path), write_rows(tmp_path / "rows.jsonl", 20)
    result = bench.run(dataset, ("rouge",), "auto")
    assert result["scored"] > 0
    assert farm.shards(result["run"]) == []
    refused = bench.start(dataset, ("rouge",), "workers")
    _, err = refused.communicate(timeout=60)
    assert refused.returncode == 3
    assert "no worker is online in the work pool 'cpu'" in err.splitlines()[-1]
    assert "leadline service worker --pool cpu" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_run_on_workers_finds_what_the_same_run_finds_here_even_if_the_judge_is_away_for_a_while(
    farm: Farm, tmp_path: Path
) -> None:
    dataset = write_rows(tmp_path / "rows.jsonl", 250, asked=110)
    farm.start_workers("cpu", "judge", limit=2)
    with serving(JudgeEndpoint(passing(0.67))) as endpoint:
        bench = Bench(farm, tmp_path, endpoint)
        here = bench.run(dataset, RULES + JUDGED, "inline", "here")
        asked = len(endpoint.log)
        endpoint.down_from = asked + 40
        process = bench.start(dataset, RULES + JUDGED, "workers", "there")
        eventually(lambda: farm.shards_in("FAILED", bench.latest("there")), 180, "a shard whose judge is down")
        down = farm.shards_in("FAILED", bench.latest("there"))[0]
        endpoint.down_from = None
        there = finish(process)
        counts = Counter(endpoint.answered)
    assert farm.shards(here["run"]) == []
    assert down["state_name"] == "JudgeDown"
    assert "the judge gave no verdict" in down["state"]["message"]
    completed = [one["name"].split()[1] for one in farm.shards_in("COMPLETED", there["run"])]
    assert sorted(completed) == ["cpu-0000", "judge-0000"], "a worker takes all chunks of its lane in turn"
    assert bench.outcome("there") == bench.outcome("here")
    assert len(bench.outcome("there")["scores"]) > 4_000
    assert set(counts.values()) == {2}, "each question was answered once for each store"
    assert sum(counts.values()) == 2 * asked


def test_killed_shards_and_workers_are_replaced_and_nothing_is_lost_or_asked_twice(farm: Farm, tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "rows.jsonl", 210)
    with serving(JudgeEndpoint(passing(0.67), latency=0.2)) as endpoint:
        bench = Bench(farm, tmp_path, endpoint)
        first, second = farm.start_workers("judge", "judge")
        process = bench.start(dataset, JUDGED)
        eventually(lambda: len(endpoint.answered) > 100, 180, "some answers")
        eventually(lambda: len(farm.shards_in("RUNNING", bench.latest())) == 2, 90, "two shards at work")
        farm.kill_shards(first)
        eventually(lambda: farm.shards_in("CRASHED", bench.latest()), 30, "a crash that is noticed")
        farm.kill_worker(second)
        result = finish(process)
        counts = Counter(endpoint.answered)
        shards = farm.shards(result["run"])
        shown = farm.artifacts("leadline-shards")[-1]
    assert (result["scored"], result["unscored"]) == (420, 0)
    assert len(counts) == 420
    assert sum(counts.values()) - len(counts) <= IN_FLIGHT, "more was asked again than was in flight"
    assert result["judge_made_again"] <= IN_FLIGHT
    states = Counter(one["state_type"] for one in shards)
    assert states.keys() == {"CRASHED", "COMPLETED"}
    assert states["CRASHED"] == 1
    assert 2 <= states["COMPLETED"] <= 3, "chunks that come back apart are shared out apart"
    assert len({one["name"] for one in shards}) == len(shards), "a replacement says which attempt it is"
    assert f"{len(shards)} shards: 1 crashed, {states['COMPLETED']} completed" in shown
    assert all(one["id"] in shown for one in shards)


def test_a_run_on_workers_stops_when_decided_where_it_stops_here_even_if_a_shard_is_killed_in_a_later_wave(
    farm: Farm, tmp_path: Path
) -> None:
    dataset, stop = write_berths(tmp_path / "rows.jsonl", 200), ("--fail-on", "high", "--stop-when", "decided")
    farm.start_workers("cpu")
    (worker,) = farm.start_workers("judge")
    with serving(JudgeEndpoint(passing(0.9))) as endpoint:
        bench = Bench(farm, tmp_path, endpoint)
        here = bench.run(dataset, ("rouge", JUDGED[0]), "inline", "here", more=stop)
        asked = len(endpoint.log)
        # Silent in the second wave, until its shard is killed.
        endpoint.fault = lambda _: SILENT if len(endpoint.answered) > asked + 55 else None
        process = bench.start(dataset, ("rouge", JUDGED[0]), "workers", "there", stop)
        eventually(lambda: len(endpoint.answered) > asked + 55, 120, "answers in the second wave")
        farm.kill_shards(worker)
        endpoint.fault = lambda _: None
        there = finish(process)
        counts = Counter(endpoint.answered[asked:])
    assert asked == 100, "it goes on for more than a wave, and stops early"
    assert here["gate"] == there["gate"] == "pass"
    assert there["stopping"].startswith("Decided PASS after 100 of 200 cases")
    assert bench.outcome("there") == bench.outcome("here")
    assert [line[0] for line in bench.outcome("there")["stopping"]] == [0, 1, 2]
    assert (there["scored"], there["unscored"]) == (here["scored"], 0)
    assert len(counts) == asked, "no case beyond the decision was asked about"
    assert sum(counts.values()) - asked <= IN_FLIGHT, "more was asked again than was in flight"
    shards = farm.shards(there["run"])
    names = sorted(one["name"].split()[1] for one in shards)
    assert names == ["cpu-0000", "judge-w00-0000", "judge-w01-0000", "judge-w01-0000", "judge-w02-0000"]
    assert Counter(one["state_type"] for one in shards) == {"CRASHED": 1, "COMPLETED": 4}


@pytest.mark.soak
def test_whose_flips_they_are_is_found_on_workers_as_it_is_here_even_if_a_shard_is_killed_in_the_last_part(
    farm: Farm, tmp_path: Path
) -> None:
    dataset = write_pairs(tmp_path / "rows.jsonl")
    asking = ("--trials", "2", "--trial-rows", "auto", "--attribute-flips")
    (worker,) = farm.start_workers("judge")
    with serving(JudgeEndpoint(MisreadingJudge())) as endpoint:
        bench = Bench(farm, tmp_path, endpoint)
        bench.run(dataset, JUDGED[:1], "inline", "here", more=asking)
        once = Counter(endpoint.answered)
        asked = len(endpoint.log)
        endpoint.fault = lambda _: SILENT if len(endpoint.answered) > 2 * asked - 20 else None
        process = bench.start(dataset, JUDGED[:1], "workers", "there", asking)
        eventually(lambda: len(endpoint.answered) > 2 * asked - 20, 120, "answers of the last part")
        farm.kill_shards(worker)
        endpoint.fault = lambda _: None
        there = finish(process)
        counts = Counter(endpoint.answered[asked:])
    assert bench.outcome("there") == bench.outcome("here")
    assert bench.outcome("there")["flip_causes"]
    assert once <= counts
    assert counts.total() - asked <= IN_FLIGHT, "more was asked again than was in flight"
    names = [one["name"].split()[1] for one in farm.shards(there["run"])]
    assert [names.count(f"judge{part}-0000") for part in ("", "-trials", "-flip-causes")] == [1, 1, 2]


def test_ctrl_c_ends_the_shards_too(farm: Farm, tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "rows.jsonl", 480)
    with serving(JudgeEndpoint(passing(0.67), latency=0.5)) as endpoint:
        bench = Bench(farm, tmp_path, endpoint)
        farm.start_workers("judge")
        process = bench.start(dataset, JUDGED)
        eventually(lambda: len(endpoint.log) > 20, 60, "questions")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        run = bench.latest()
        eventually(lambda: len(farm.shards_in("CANCELLED", run)) == len(farm.shards(run)), 60, "the shards' end")
        asked = len(endpoint.log)
    assert asked < 900
    assert Store.open(tmp_path / "store").run(run).read()["status"] == "failed"
