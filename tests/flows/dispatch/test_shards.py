"""Chunks on workers, watched through an API that tests script: whatever happens, nobody waits for ever."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending, Running, Scheduled, State

from leadline.evaluators.ground import ErrorCode
from leadline.flows.dispatch import lanes, shards
from leadline.flows.dispatch.lanes import NoWorkers, Stopped, WorkerLost
from leadline.flows.dispatch.pools import Pool
from leadline.flows.dispatch.score_chunk import JUDGE_DOWN, NO_DEVICE, UNFIT
from leadline.flows.dispatch.shards import Board, Shards, ShardTimeouts, table
from leadline.flows.evaluate.prefect_steps import PrefectSteps
from leadline.flows.prefect import prefect_steps
from leadline.flows.shared.settings import Dispatch
from leadline.tasks.ground.files import write_json
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.store.store import Store

LONG = 1_000.0
SCORED = {"chunk": "judge-0000", "scored": 7, "unscored": 1, "seconds": {}}
DONE = Completed(message="1 chunk scored")
QUICK = ShardTimeouts(poll=0.01, start=LONG, silence=LONG, offline=LONG, waiting=LONG, running=LONG, api=LONG)


def patient(**limits: float) -> ShardTimeouts:
    return replace(QUICK, **limits)


def chunk(number: int = 0) -> Chunk:
    return Chunk("store", "run", "dataset", "judge", number, 0, 7, 8, 8)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> Iterator[None]:
    """The store of the chunks is a folder of this test."""
    with chdir(tmp_path):
        yield


class Api:
    """What Shards use of Prefect: flow runs go through the states of a script, and stay in the last one.

    Args:
        *script: The states.
        left: What each shard leaves of its chunks in the store, by their names; that of one which is done by default.
    """

    def __init__(self, *script: State[Any], left: Mapping[str, Any] | None = None) -> None:
        self.left = left if left is not None else {"judge-0000": SCORED} if DONE in script else {}
        self.scripts: list[tuple[State[Any], ...]] = [script]
        self.started: list[dict[str, Any]] = []
        self.cancelled: list[UUID] = []
        self.workers = 1
        self.away = False
        self.heartbeats: Callable[[], list[UUID]] = list
        self.task_runs: list[SimpleNamespace] = []
        self._states: dict[UUID, list[State[Any]]] = {}

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def run_deployment(self, name: str, **arguments: Any) -> SimpleNamespace:
        script = self.scripts[min(len(self.started), len(self.scripts) - 1)]
        self.started.append({"name": name, **arguments})
        id_ = uuid4()
        self._states[id_] = list(script)
        for part in arguments["parameters"]["chunks"]:
            if (name := Chunk(**part).name) in self.left:
                write_json(Store.open("store").run("run").outcomes / f"{name}-{id_}.json", self.left[name])
        return SimpleNamespace(id=id_)

    def read_flow_runs(self, flow_run_filter: Any, limit: int) -> list[SimpleNamespace]:
        if self.away:
            raise httpx.ConnectError("refused")
        return [
            SimpleNamespace(id=id_, state=self._next(id_)) for id_ in flow_run_filter.id.any_ if id_ in self._states
        ]

    def _next(self, id_: UUID) -> State[Any]:
        states = self._states[id_]
        return states.pop(0) if len(states) > 1 else states[0]

    def read_task_runs(self, flow_run_filter: Any, limit: int) -> list[SimpleNamespace]:
        return self.task_runs

    def read_events(self, event_filter: Any, limit: int) -> SimpleNamespace:
        return SimpleNamespace(events=[SimpleNamespace(id=id_) for id_ in self.heartbeats()])

    def set_flow_run_state(self, id_: UUID, state: State[Any]) -> None:
        assert state.type == StateType.CANCELLING
        self.cancelled.append(id_)


def use(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "get_client", lambda **_: api)
    monkeypatch.setattr(shards, "run_deployment", api.run_deployment)
    monkeypatch.setattr(shards, "look_at", lambda _, lane: Pool(lane, lane, api.workers))


@contextmanager
def serving(
    api: Api, monkeypatch: pytest.MonkeyPatch, timeouts: ShardTimeouts = QUICK, **options: Any
) -> Iterator[tuple[Shards, Callable[[Chunk], Future[ChunkResult]]]]:
    """Yield shards on this API, and a way to score a chunk in the background."""
    use(api, monkeypatch)
    with ThreadPoolExecutor(8) as threads, Shards({"judge": 2}, timeouts, **options) as opened:
        yield opened, lambda one: threads.submit(opened.score, one)


def test_a_completed_shard_brings_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Scheduled(), Pending(), Running(), DONE)
    with serving(api, monkeypatch) as (_, score):
        assert score(chunk()).result(5) == ChunkResult("judge-0000", 7, 1)
    (started,) = api.started
    assert started["name"] == "score-chunk/judge"
    assert started["flow_run_name"] == "score judge-0000 of run"
    assert set(started["tags"]) == {"leadline", "run:run", "lane:judge"}
    assert api.cancelled == []


def test_a_shard_is_completed_even_if_its_counts_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Api(Completed()), monkeypatch) as (_, score):
        assert score(chunk()).result(5).scored == 8


def test_workers_share_out_the_chunks_and_each_takes_its_own_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Scheduled(), Running(), left={"judge-0000": SCORED, "judge-0003": SCORED})
    with serving(api, monkeypatch, patient(poll=0.2)) as (opened, score):
        waiting = [score(chunk(number)) for number in range(5)]
        while len(opened.all) < 2:
            time.sleep(0.01)
        one, other = ([part["number"] for part in started["parameters"]["chunks"]] for started in api.started)
        assert (one, other) == ([0, 2, 4], [1, 3])
        assert api.started[0]["flow_run_name"] == "score judge-0000 and 2 more of run"
        api.task_runs = [
            SimpleNamespace(name="score judge-0000", state=Completed(message="7 scored, 1 not")),
            SimpleNamespace(name="score judge-0001", state=Failed(name=JUDGE_DOWN, message="no verdict")),
            SimpleNamespace(name="score judge-0002", state=Running()),
        ]
        assert waiting[0].result(5).scored == 7, "it is known before its shard ends"
        assert isinstance(waiting[1].exception(5), JudgeDown)
        assert not waiting[2].done()
        api.task_runs = []
        for states in api._states.values():
            states[:] = [Crashed(message="killed")]
        assert all(isinstance(waiting[number].exception(5), WorkerLost) for number in (2, 4))
        assert waiting[3].result(5).scored == 7, "its process died after it, so it is not tried again"
        api._states.clear()
        api.scripts = [(Completed(),)]
        again = [score(chunk(number)) for number in (2, 4)]
        assert [one.result(5).scored for one in again] == [8, 8]
    assert [len(started["parameters"]["chunks"]) for started in api.started[2:]] == [1, 1], "two workers are idle"


def test_a_shard_says_at_its_end_which_of_its_chunks_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {"judge-0000": SCORED, "judge-0001": {"failed": "Failed", "message": "OSError: no room"}}
    api = Api(Running(), Failed(message="1 of 2 chunks failed"), left=left)
    use(api, monkeypatch)
    with ThreadPoolExecutor(2) as threads, Shards({"judge": 1}, patient(poll=0.2)) as opened:
        good, bad = (threads.submit(opened.score, chunk(number)) for number in (0, 1))
        assert good.result(5).scored == 7
        assert "no room" in str(bad.exception(5))
    assert len(api.started) == 1


def test_each_attempt_is_a_flow_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running(), Crashed(message="killed"))
    api.scripts.append((Running(), DONE))
    with serving(api, monkeypatch) as (_, score):
        with pytest.raises(WorkerLost, match="killed"):
            score(chunk()).result(5)
        api.left = {"judge-0000": SCORED}
        assert score(chunk()).result(5).scored == 7
    first, second = api.started
    assert first["idempotency_key"] != second["idempotency_key"]
    assert second["flow_run_name"].endswith("attempt 2")


@pytest.mark.parametrize("state", [Failed(message="no such table"), Cancelled(message="by somebody")])
def test_a_shard_that_fails_or_is_cancelled_says_why(monkeypatch: pytest.MonkeyPatch, state: State[Any]) -> None:
    with serving(Api(state), monkeypatch) as (_, score), pytest.raises(WorkerLost, match=str(state.message)):
        score(chunk()).result(5)


def test_a_judge_that_is_down_is_told_from_a_lost_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running(), Failed(name=JUDGE_DOWN, message="the judge gave no verdict"))
    with serving(api, monkeypatch) as (_, score), pytest.raises(JudgeDown, match="no verdict"):
        score(chunk()).result(5)


def test_a_worker_that_cannot_score_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Failed(name=UNFIT, message="does not see the run"))
    with serving(api, monkeypatch) as (_, score), pytest.raises(NoWorkers, match="does not see"):
        score(chunk()).result(5)


def test_a_worker_without_the_device_says_what_is_wrong_with_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in ((NO_DEVICE, ErrorCode.MODEL_DEVICE), (UNFIT, ErrorCode.WORKER_NONE)):
        with serving(Api(Failed(name=name, message="m")), monkeypatch) as (_, score), pytest.raises(NoWorkers) as said:
            score(chunk()).result(5)
        assert said.value.code == code


@pytest.mark.parametrize(
    ("limit", "state"),
    [
        ("start", Pending()),
        ("start", State(type=StateType.CANCELLING)),
        ("waiting", Scheduled()),
        ("running", Running()),
    ],
)
def test_no_state_is_waited_in_for_ever(monkeypatch: pytest.MonkeyPatch, limit: str, state: State[Any]) -> None:
    api = Api(state)
    with serving(api, monkeypatch, patient(**{limit: 0.1})) as (_, score):
        with pytest.raises(WorkerLost):
            score(chunk()).result(5)
        assert len(api.cancelled) == 1


def test_a_flow_run_that_was_deleted_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running())
    api.read_flow_runs = lambda **_: []  # type: ignore[method-assign]
    with serving(api, monkeypatch) as (_, score), pytest.raises(WorkerLost, match="deleted"):
        score(chunk()).result(5)


def test_a_pool_without_workers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Scheduled())
    api.workers = 0
    with serving(api, monkeypatch, patient(offline=0.2)) as (_, score):
        with pytest.raises(NoWorkers, match="'judge'"):
            score(chunk()).result(5)
        assert len(api.cancelled) == 1


def test_a_queue_is_waited_in_while_workers_are_online(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(*[Scheduled()] * 60, DONE)
    with serving(api, monkeypatch, patient(offline=0.2)) as (_, score):
        assert score(chunk()).result(5).scored == 7


def test_a_process_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    api, last = Api(Running()), uuid4()
    api.heartbeats = lambda: [last]
    with serving(api, monkeypatch, patient(silence=0.2)) as (_, score):
        with pytest.raises(WorkerLost, match="not heard of"):
            score(chunk()).result(5)
        assert len(api.cancelled) == 1


@pytest.mark.parametrize("heartbeats", [lambda: [uuid4()], list], ids=["heard of", "heartbeats switched off"])
def test_a_process_that_is_heard_of_or_never_was_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, heartbeats: Callable[[], list[UUID]]
) -> None:
    api = Api(*[Running()] * 80, DONE)
    api.heartbeats = heartbeats
    with serving(api, monkeypatch, patient(silence=0.1)) as (_, score):
        assert score(chunk()).result(5).scored == 7


def test_a_short_absence_of_the_api_costs_nothing_and_a_long_one_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running(), DONE)
    with serving(api, monkeypatch, patient(api=0.5)) as (_, score):
        api.away = True
        waiting = score(chunk())
        time.sleep(0.2)
        api.away = False
        assert waiting.result(5).scored == 7
        api.away = True
        with pytest.raises(WorkerLost, match="API was away"):
            score(chunk(1)).result(5)


def test_an_error_that_nobody_foresaw_costs_no_more_than_an_absence_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running(), DONE)

    def unforeseen(**_: Any) -> list[SimpleNamespace]:
        raise ValueError("no such state")

    with serving(api, monkeypatch, patient(api=0.5)) as (_, score):
        monkeypatch.setattr(api, "read_flow_runs", unforeseen)
        waiting = score(chunk())
        time.sleep(0.2)
        monkeypatch.undo()
        use(api, monkeypatch)
        assert waiting.result(5).scored == 7
        monkeypatch.setattr(api, "read_flow_runs", unforeseen)
        with pytest.raises(WorkerLost, match="ValueError: no such state"):
            score(chunk(1)).result(5)


def test_leaving_cancels_what_has_not_ended_and_starts_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Running())
    with serving(api, monkeypatch) as (opened, score):
        waiting = [score(chunk(0)), score(chunk(1))]
        while len(opened.all) < 2:
            time.sleep(0.01)
    assert set(api.cancelled) == set(opened.all)
    assert all(isinstance(one.exception(5), Stopped) for one in waiting)
    assert opened.ending
    with pytest.raises(Stopped):
        opened.score(chunk(2))


def test_the_table_shows_every_attempt_with_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    api = Api(Running(), Crashed())
    with serving(api, monkeypatch, changed=lambda all_: seen.append(table(all_))) as (_, score):
        with pytest.raises(WorkerLost):
            score(chunk()).result(5)
        api.scripts = [(Running(), DONE)]
        score(chunk()).result(5)
        deadline = time.monotonic() + 5
        while "1 completed" not in seen[-1] and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "2 shards: 1 crashed, 1 completed" in seen[-1]
    assert seen[-1].count("| judge-0000 |") == 2


def test_the_steps_of_a_flow_have_chunks_scored_by_shards_and_show_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Api(Running(), DONE), monkeypatch)
    shown: list[str] = []
    monkeypatch.setattr(Board, "_write", lambda self, text: shown.append(text))
    monkeypatch.setattr(prefect_steps, "get_run_logger", lambda: logging.getLogger("flow"))  # there is no flow here
    with lanes.open_lanes(1, [chunk()], {"judge": 2}, Dispatch.WORKERS, PrefectSteps()) as opened:
        assert opened.score(chunk()) == ChunkResult("judge-0000", 7, 1)
    assert "1 completed" in shown[-1]


@pytest.mark.parametrize("dispatch", [Dispatch.AUTO, Dispatch.WORKERS])
def test_a_lane_whose_workers_vanish_is_scored_here_unless_workers_were_demanded(
    monkeypatch: pytest.MonkeyPatch, dispatch: Dispatch
) -> None:
    api, here = Api(Scheduled()), list[Chunk]()
    api.workers = 0
    use(api, monkeypatch)
    monkeypatch.setattr(lanes, "score_on_all_cores", lambda one: here.append(one) or ChunkResult(one.name, 8, 0))
    chunks = [chunk(0), chunk(1)]
    engine = SimpleNamespace(elsewhere=lambda _, workers: Shards(workers, patient(offline=0.2)))
    with lanes.open_lanes(1, chunks, {"judge": 2}, dispatch, engine) as opened:
        if dispatch == Dispatch.WORKERS:
            with pytest.raises(NoWorkers):
                opened.score(chunks[0])
            return
        assert [opened.score(one).scored for one in chunks] == [8, 8]
    assert here == chunks
    assert len(api.started) == 1, "once is enough to know that nobody is there"


def test_few_rules_are_not_worth_a_trip_unless_workers_were_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Api(), monkeypatch)
    few = [Chunk("store", "run", "dataset", "cpu", 0, 0, 9, 10, 40)]
    assert lanes.open_lanes(1, few, {"cpu": 1}, Dispatch.AUTO, SimpleNamespace()).widths["cpu"] == 1
    assert lanes.Lanes(1, few, {"cpu": 1}, Dispatch.WORKERS).widths["cpu"] == lanes.AT_ONCE
