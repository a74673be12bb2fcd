"""Runs whose chunks go to Dask: real scheduler, real workers, real kills."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.flows.dispatch.lanes import NoWorkers, Stopped
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.steps import EvaluationSteps
from leadline.flows.shared.settings import Judges
from leadline.plugins.dask import dask_cluster, dispatcher
from leadline.plugins.dask.dask_cluster import LocalCluster, connect, workers_by_lane
from leadline.plugins.dask.dispatcher import DaskChunks, DaskTimeouts
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.store.store import Store
from tests.flows.evaluate.test_flip_causes import MisreadingJudge
from tests.flows.evaluate.test_flip_causes import write as write_pairs
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import SILENT, JudgeEndpoint, serving
from tests.support.processes.dask_farm import DaskFarm
from tests.support.processes.waiting import eventually
from tests.support.stores.results import read_run, tables_of
from tests.support.stores.s3 import S3, environment

RULES: Final = ("bleu", "encoding_guardrail", "pii_leakage", "rouge")
JUDGED: Final = ("databricks.correctness", "databricks.relevance_to_query")
IN_FLIGHT: Final = 8
QUICK: Final = DaskTimeouts(poll=0.1, look=0.5, offline=4.0)

FATAL: Final = """
import os, signal
import leadline

@leadline.register
class Fatal(leadline.RowEvaluator):
    '''Print more than a pipe holds, and kill the process at one row.'''

    spec = leadline.Spec.simple("fatal", inputs=["actual_answer"], higher_is_better=True)

    def score_row(self, row, ctx):
        print("." * 1000)
        if row.actual_answer.endswith("is 7 m."):
            os.kill(os.getpid(), signal.SIGKILL)
        return leadline.RowScore({"fatal": 1.0})
"""


KILLED_AT_START: Final = """
import os, signal, sys
from pathlib import Path

if any("spawn_main" in argument for argument in sys.orig_argv):
    for death in range({deaths}):
        try:
            Path(__file__).with_name(f"death-{{death}}").touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskFarm]:
    with DaskFarm(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture
def farm(scheduler: DaskFarm) -> Iterator[DaskFarm]:
    """A scheduler without workers."""
    yield scheduler
    scheduler.kill_workers()


class Bench:
    """Evaluations without Prefect, in a folder with a judge's configuration."""

    def __init__(self, folder: Path, rows: int, endpoint: JudgeEndpoint | None = None) -> None:
        self.folder = folder
        write_berths(folder / "rows.jsonl", rows)
        settings = {"max_in_flight": IN_FLIGHT, "start_in_flight": IN_FLIGHT, "down_after_s": 1.0}
        (folder / "judges.toml").write_text((endpoint or JudgeEndpoint()).toml(**settings))

    def run(
        self, evaluators: tuple[str, ...], dispatch: str, store: str = "store", trials: int = 1, **options: Any
    ) -> EvaluateResult:
        judges = Judges(
            config=str(self.folder / "judges.toml"), trials=trials, trial_rows="all" if trials == 1 else "auto"
        )
        config = EvaluateConfig(
            dataset=str(self.folder / "rows.jsonl"), evaluators=evaluators, store=self.store(store),
            judges=judges, dispatch=dispatch, processes=2, **options,
        )  # fmt: skip
        return Evaluate()(config)

    def store(self, store: str) -> str:
        """Return where a store is: in this folder, unless it is an address."""
        return store if "://" in store else str(self.folder / store)

    def outcome(self, store: str = "store") -> dict[str, list[tuple[Any, ...]]]:
        """Return what the latest run found."""
        tables = ("scores", "aggregates", "problems", "stopping", "flip_rates", "flip_causes")
        return tables_of(Store.open(self.store(store)), *tables)


def test_without_dask_the_refusal_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("dask_cluster", "dask_task", "dispatcher"):
        monkeypatch.delitem(sys.modules, f"leadline.plugins.dask.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'leadline\[dask\]'") as error:
        Bench(tmp_path, 1).run(("bleu",), "dask")
    assert "\n" not in str(error.value)


def test_a_scheduler_that_is_not_there_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask_cluster.connect, "__defaults__", (None, 0.5))
    with pytest.raises(NoWorkers, match=r"scheduler at tcp://127\.0\.0\.1:9 does not answer") as error:
        Bench(tmp_path, 1).run(("bleu",), "dask://127.0.0.1:9")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place", ["dask://", "dask://host", "tcp://host:1", "elsewhere", "dask://user:key@host:1"])
def test_what_is_no_place_is_refused(place: str) -> None:
    said = "must hold no credentials" if "key" in place else "is no place to score chunks"
    with pytest.raises(ValueError, match=said):
        EvaluateConfig(dataset="x", dispatch=place)


@pytest.mark.e2e
def test_a_run_on_a_cluster_of_its_own_finds_what_it_finds_here_and_outlives_a_fatal_row(tmp_path: Path) -> None:
    (tmp_path / "fatal.py").write_text(FATAL)
    with serving(JudgeEndpoint(passing(0.67))) as endpoint:
        bench = Bench(tmp_path, 600, endpoint)
        here = bench.run((*RULES, "databricks.correctness"), "inline", "here")
        there = bench.run((*RULES, "databricks.correctness"), "dask", "there")
        counts = Counter(endpoint.answered)
    assert (there.scored, there.unscored) == (here.scored, 0)
    assert bench.outcome("there") == bench.outcome("here")
    assert set(counts.values()) == {2}, "each question was answered once for each store"
    fatal = bench.run(("fatal",), "dask", "fatal", evaluator_files=(str(tmp_path / "fatal.py"),))
    assert (fatal.scored, fatal.unscored) == (100, 500), "the chunk of the fatal row, and no other"
    reasons = read_run(Store.open(tmp_path / "fatal"), "SELECT DISTINCT reason FROM scores WHERE status = 'unscored'")
    assert reasons == [{"reason": "worker_lost"}]


@pytest.mark.e2e
@pytest.mark.parametrize(("deaths", "starts"), [(dask_cluster.STARTS - 1, True), (dask_cluster.STARTS, False)])
def test_a_worker_process_that_is_killed_as_it_starts_is_started_again(
    deaths: int, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(KILLED_AT_START.format(deaths=deaths))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    cluster = LocalCluster({"cpu": 1})
    if starts:
        with cluster, connect(cluster.address, cluster.security) as client:
            assert [len(workers) for workers in workers_by_lane(client).values()] == [1]
    else:
        with pytest.raises(LeadlineError, match="local cluster did not start"):
            cluster.__enter__()
    assert len(list(tmp_path.glob("death-*"))) == deaths
    assert "Traceback" not in capfd.readouterr().err


def test_a_chunk_for_a_worker_that_is_gone_goes_to_the_one_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are bound to workers once one was found unfit; a process that is started anew has another address."""
    from distributed import Future

    dask = DaskChunks("dask://127.0.0.1:1", {"judge": 1}, DaskTimeouts(poll=0.01))
    bound = Mock(spec=Future, done=Mock(return_value=False))
    monkeypatch.setattr(dask, "_check", lambda _: None)
    dask._unfit["tcp://unfit"] = "another version"
    dask._workers = {"judge": ("tcp://unfit", "tcp://old")}
    chunk = Chunk("store", "run", "dataset", "judge", 0, 0, 9, 10, 10)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(dask._wait, chunk, bound, dask._fit(chunk))
        time.sleep(0.1)
        assert not waiting.done(), "its worker is there"
        dask._workers = {"judge": ("tcp://unfit",)}
        time.sleep(0.1)
        assert not waiting.done(), "it may be started anew"
        dask._workers = {"judge": ("tcp://unfit", "tcp://new")}
        assert waiting.result(10) is False
    bound.cancel.assert_called_once()
    assert dask._fit(chunk) == ["tcp://new"]


@pytest.mark.e2e
def test_killed_workers_are_replaced_and_nothing_is_lost_or_asked_twice(farm: DaskFarm, tmp_path: Path) -> None:
    with serving(JudgeEndpoint(passing(0.67), latency=0.1)) as endpoint, ThreadPoolExecutor(1) as thread:
        bench = Bench(tmp_path, 210, endpoint)
        first, second = farm.start_workers("judge", "judge")
        running = thread.submit(bench.run, JUDGED, farm.address)
        eventually(lambda: len(endpoint.answered) > 60, 60, "some answers")
        farm.kill_children(first)
        asked = len(endpoint.answered)
        eventually(lambda: len(endpoint.answered) > asked + 60, 60, "more answers")
        farm.kill(second)
        result = running.result(120)
        counts = Counter(endpoint.answered)
    assert (result.scored, result.unscored) == (420, 0)
    assert len(counts) == 420
    assert sum(counts.values()) - len(counts) <= 2 * IN_FLIGHT, "more was asked again than was in flight"
    assert farm.stop(first) == 0


@pytest.mark.e2e
def test_a_run_on_dask_stops_when_decided_where_it_stops_here_even_if_a_worker_is_killed_in_a_later_wave(
    farm: DaskFarm, tmp_path: Path
) -> None:
    with serving(JudgeEndpoint(passing(0.9))) as endpoint, ThreadPoolExecutor(1) as thread:
        bench = Bench(tmp_path, 0, endpoint)
        write_berths(tmp_path / "rows.jsonl", 200)
        asking: dict[str, Any] = {"fail_on": "high", "stop_when": "decided"}
        here = bench.run(JUDGED[:1], "inline", "here", **asking)
        asked = len(endpoint.log)
        (worker,) = farm.start_workers("judge")
        # Silent in the second wave, until its worker is killed.
        endpoint.fault = lambda _: SILENT if len(endpoint.answered) > asked + 55 else None
        running = thread.submit(bench.run, JUDGED[:1], farm.address, "there", **asking)
        eventually(lambda: len(endpoint.answered) > asked + 55, 60, "answers in the second wave")
        farm.kill_children(worker)
        endpoint.fault = lambda _: None
        there = running.result(120)
        counts = Counter(endpoint.answered[asked:])
    assert asked == 100, "it goes on for more than a wave, and stops early"
    assert there.gate == here.gate == "pass"
    assert there.stopping.startswith("Decided PASS after 100 of 200 cases")
    assert bench.outcome("there") == bench.outcome("here")
    assert len(counts) == asked, "no case beyond the decision was asked about"
    assert counts.total() - asked <= IN_FLIGHT


@pytest.mark.e2e
@pytest.mark.soak
def test_whose_flips_they_are_is_found_on_dask_as_it_is_here_even_if_a_worker_is_killed_in_the_last_part(
    farm: DaskFarm, tmp_path: Path
) -> None:
    with serving(JudgeEndpoint(MisreadingJudge())) as endpoint, ThreadPoolExecutor(1) as thread:
        bench = Bench(tmp_path, 0, endpoint)
        write_pairs(tmp_path / "rows.jsonl")
        here = bench.run(JUDGED[:1], "inline", "here", trials=2, attribute_flips=True)
        once = Counter(endpoint.answered)
        (worker,) = farm.start_workers("judge")
        enough = 2 * once.total() - 20
        endpoint.fault = lambda _: SILENT if len(endpoint.answered) > enough else None
        running = thread.submit(bench.run, JUDGED[:1], farm.address, "there", trials=2, attribute_flips=True)
        eventually(lambda: len(endpoint.answered) > enough, 60, "answers of the last part")
        farm.kill_children(worker)
        endpoint.fault = lambda _: None
        there = running.result(120)
        counts = Counter(endpoint.answered) - once
    assert (there.computed, there.unscored) == (here.computed, 0)
    assert bench.outcome("there") == bench.outcome("here")
    assert bench.outcome("there")["flip_causes"]
    assert once <= counts
    assert counts.total() - once.total() <= IN_FLIGHT


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("write", "judge", "asking", "parts"),
    [
        pytest.param(
            write_pairs,
            MisreadingJudge(),
            {"trials": 2, "attribute_flips": True},
            {"", "-trials", "-flip-causes"},
            marks=pytest.mark.soak,
        ),
        (partial(write_berths, rows=500), passing(0.97), {"fail_on": "high", "stop_when": "decided"}, {"-w00", "-w01"}),
    ],
    ids=["flip causes", "waves"],
)
def test_a_worker_on_another_host_gets_all_parts_of_a_plan_through_the_bucket(
    tmp_path: Path, s3: S3, write: Any, judge: Any, asking: dict[str, Any], parts: set[str]
) -> None:
    (tmp_path / "farm").mkdir()
    elsewhere = environment(s3.endpoint, tmp_path / "elsewhere")
    with DaskFarm(tmp_path / "farm", elsewhere) as farm, serving(JudgeEndpoint(judge)) as endpoint:
        bench = Bench(tmp_path, 0, endpoint)
        write(tmp_path / "rows.jsonl")
        here = bench.run(JUDGED[:1], "inline", "here", **asking)
        once = Counter(endpoint.answered)
        farm.start_workers("judge")
        there = bench.run(JUDGED[:1], farm.address, s3.url, **asking)
        counts = Counter(endpoint.answered) - once
    assert (there.computed, there.unscored) == (here.computed, 0)
    assert bench.outcome(s3.url) == bench.outcome("here")
    assert counts == once
    held = {path.name for path in (tmp_path / "elsewhere").rglob("judge*.parquet")}
    assert held >= {f"judge{part}.parquet" for part in parts}, "what the worker got"


@pytest.mark.e2e
def test_without_its_scheduler_a_run_goes_on_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher.DaskChunks.__init__, "__defaults__", (QUICK,))
    (tmp_path / "farm").mkdir()
    with (
        DaskFarm(tmp_path / "farm") as farm,
        serving(JudgeEndpoint(passing(0.67), latency=0.1)) as endpoint,
        ThreadPoolExecutor(1) as thread,
    ):
        bench = Bench(tmp_path, 210, endpoint)
        farm.start_workers("judge")
        running = thread.submit(bench.run, JUDGED, farm.address)
        eventually(lambda: len(endpoint.answered) > 60, 60, "some answers")
        farm.kill("scheduler")
        result = running.result(120)
        counts = Counter(endpoint.answered)
    assert (result.scored, result.unscored) == (420, 0)
    assert len(counts) == 420
    assert sum(counts.values()) - len(counts) <= 2 * IN_FLIGHT


@pytest.mark.e2e
def test_workers_take_only_what_they_can_score_and_stop_asking_for_a_run_that_left(
    farm: DaskFarm, tmp_path: Path
) -> None:
    farm.start_workers("judge")
    with serving(JudgeEndpoint(passing(0.67), latency=0.3)) as endpoint, ThreadPoolExecutor(2) as threads:
        Bench(tmp_path, 400, endpoint)
        seen = []

        class Steps(EvaluationSteps):
            def score(self, chunks: Any, *rest: Any) -> None:
                assert {chunk.lane for chunk in chunks} == {"cpu", "judge"}
                chunk = next(chunk for chunk in chunks if chunk.lane == "judge")
                with (
                    DaskChunks(farm.address, {"judge": 1}, QUICK) as dask,
                    pytest.raises(NoWorkers, match="does not see the run"),
                ):
                    dask.score(replace(chunk, store=str(tmp_path / "elsewhere")))
                with DaskChunks(farm.address, {"judge": 1}, QUICK) as dask:
                    waiting = threads.submit(dask.score, chunk)
                    eventually(lambda: len(endpoint.log) > 10, 60, "questions")
                assert isinstance(waiting.exception(10), Stopped)
                time.sleep(3)
                seen.append(len(endpoint.log))
                time.sleep(2)
                seen.append(len(endpoint.log))
                super().score(chunks, *rest)

        config = EvaluateConfig(
            dataset=str(tmp_path / "rows.jsonl"), evaluators=("bleu", JUDGED[0]), store=str(tmp_path / "store"),
            judges=Judges(config=str(tmp_path / "judges.toml")), dispatch=farm.address,
        )  # fmt: skip
        result = Evaluate().carry_out(config, Steps())
        counts = Counter(endpoint.answered)
    assert Store.open(tmp_path / "store").run(result.run).read()["workers"] == {"judge": 1}, "rules stay here"
    assert seen[0] == seen[1], "nobody waits for these answers"
    assert (result.computed, result.unscored) == (800, 0)
    assert sum(counts.values()) - len(counts) <= IN_FLIGHT
