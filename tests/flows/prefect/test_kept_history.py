"""What a kept server's history holds of a command's run, and that the work never waits for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from leadline.flows.prefect import kept_history as module
from leadline.flows.prefect import prefect_steps, server
from leadline.flows.prefect.kept_history import Requests, kept_history
from leadline.flows.prefect.server import Api
from leadline.flows.shared.form import FormModel
from leadline.flows.shared.history import History
from leadline.flows.shared.job import Job, JobSteps
from leadline.flows.shared.settings import Dispatch
from tests.support.processes.http_servers import QuietHandler, serving_http


class Form(FormModel):
    number: int = 1
    store: str | None = None
    dispatch: Dispatch = Dispatch.AUTO


class Outcome(BaseModel):
    number: int


class Adding(Job[Form, int, JobSteps, Outcome]):
    """Add one."""

    name, Config = "adding", Form

    def check(self, config: Form) -> int:
        return config.number

    def run(self, config: Form, checked: int, steps: JobSteps) -> Outcome:
        """Add one."""
        return Outcome(number=steps.step("add", lambda: checked + 1))


class Harbour(QuietHandler):
    """Answers as Prefect's API does, as far as a history needs it, after what is to go wrong first."""

    protocol_version = "HTTP/1.1"
    answers: list[int]
    taken: list[tuple[str, Any]]
    pause_s = 0.0
    drops = False

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.pause_s)
        status = self.answers.pop(0) if self.answers else 201
        if status < 300:
            self.taken.append((self.path.removeprefix("/api"), body))
        answer = json.dumps([] if "filter" in self.path else {"id": f"id-{len(self.taken)}"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        self.close_connection = self.drops  # without a word

    do_PATCH = do_POST


@pytest.fixture
def harbour() -> Iterator[tuple[str, type[Harbour]]]:
    handler: type[Harbour] = type("Handler", (Harbour,), {"answers": [], "taken": []})
    with serving_http(handler) as address:
        yield f"{address}/api", handler


@contextmanager
def steps_of(api: str) -> Iterator[JobSteps]:
    with kept_history(api, "sorting", "sorting boxes", {"config": {"n": 1}}) as history:
        yield JobSteps(history, {"load": "boxes.json"})


@pytest.mark.e2e
class TestOnAServer:
    """With a real server of Prefect."""

    def test_it_holds_the_run_its_steps_in_order_jobs_within_and_all_that_is_shown(self, api: dict[str, str]) -> None:
        with steps_of(api["PREFECT_API_URL"]) as steps:
            origin = steps.origin()["flow_run"]
            steps.step("load", lambda: None)
            assert steps.run_job(Adding(), Form(number=41)).number == 42
            steps.step("sort", lambda: None)
            steps.show("boxes", "**3** boxes", "What there is")
            steps.table("kinds", [{"kind": "small", "n": 2}], "By kind")
            steps.link("page", "https://example.org", "Page", "Where")
            steps.log.info("%d boxes", 3)
            progress = steps.history.progress("3 boxes")
            for part in (0.5, 0.501, 1.0):
                progress(part)
        requests = Requests(api["PREFECT_API_URL"])
        mine = {"flow_runs": {"id": {"any_": [origin]}}}
        (run,) = requests.send("POST", "/flow_runs/filter", mine)
        assert (run["name"], run["state_type"], run["parameters"]) == (
            "sorting boxes",
            "COMPLETED",
            {"config": {"n": 1}},
        )
        assert run["start_time"] < run["end_time"]
        tasks = requests.send("POST", "/task_runs/filter", mine | {"sort": "EXPECTED_START_TIME_ASC"})
        assert [(task["name"], task["state_type"]) for task in tasks] == [
            ("load boxes.json", "COMPLETED"), ("adding", "COMPLETED"), ("sort", "COMPLETED"),
        ]  # fmt: skip
        drawn_after = [[each["id"] for each in task["task_inputs"]["wait_for"]] for task in tasks]
        assert drawn_after == [[], [tasks[0]["id"]], [tasks[1]["id"]]]
        (within,) = requests.send(
            "POST", "/flow_runs/filter", {"flow_runs": {"parent_task_run_id": {"any_": [tasks[1]["id"]]}}}
        )
        assert (within["name"], within["state_type"], within["parameters"]["config"]["number"]) == (
            "adding",
            "COMPLETED",
            41,
        )
        shown = {each["key"]: each["data"] for each in requests.send("POST", "/artifacts/filter", mine)}
        assert json.loads(shown.pop("kinds")) == [{"kind": "small", "n": 2}]
        assert shown == {"boxes": "**3** boxes", "page": "[Page](https://example.org)", "leadline-progress": 100.0}
        logs = requests.send("POST", "/logs/filter", {"logs": {"flow_run_id": {"any_": [origin]}}})
        assert [(line["level"], line["message"]) for line in logs] == [(20, "3 boxes")]

    @pytest.mark.parametrize(
        ("error", "kind", "said"),
        [
            (ValueError("no box at s3cret-harbour-key"), "FAILED", "ValueError: no box at"),
            (KeyboardInterrupt(), "CRASHED", "stopped"),
        ],
    )
    def test_what_fails_or_is_stopped_is_told_without_secrets(
        self, api: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: BaseException, kind: str, said: str
    ) -> None:
        monkeypatch.setenv("HARBOUR_API_KEY", "s3cret-harbour-key")

        def fail() -> None:
            raise error

        origin = ""

        def run() -> None:
            nonlocal origin
            with steps_of(api["PREFECT_API_URL"]) as steps:
                origin = steps.origin()["flow_run"]
                steps.step("load", fail)

        with pytest.raises(type(error)):
            run()
        requests = Requests(api["PREFECT_API_URL"])
        mine = {"flow_runs": {"id": {"any_": [origin]}}}
        found = requests.send("POST", "/flow_runs/filter", mine) + requests.send("POST", "/task_runs/filter", mine)
        assert [each["state_type"] for each in found] == [kind, kind]
        for each in found:
            assert said in each["state"]["message"]
            assert "s3cret" not in each["state"]["message"]


def paths(handler: type[Harbour]) -> list[str]:
    return [path for path, _ in handler.taken]


def test_a_server_that_is_busy_is_asked_again(harbour: tuple[str, type[Harbour]], caplog: Any) -> None:
    api, handler = harbour
    handler.answers += [201, 503, 429, 201, 503]
    with steps_of(api) as steps:
        steps.step("load", lambda: None)
    assert paths(handler)[:3] == ["/flows/", "/flow_runs/", "/task_runs/"]
    assert paths(handler)[-1] == "/flow_runs/id-2/set_state"
    assert caplog.messages == []


def test_a_server_that_closes_resting_connections_misses_nothing(
    harbour: tuple[str, type[Harbour]], caplog: Any
) -> None:
    api, handler = harbour
    handler.drops = True
    with steps_of(api) as steps:
        steps.step("load", lambda: None)
    assert len(paths(handler)) == 5
    assert caplog.messages == []


def test_what_is_refused_is_told_once_and_the_rest_is_written(harbour: tuple[str, type[Harbour]], caplog: Any) -> None:
    api, handler = harbour
    handler.answers += [201, 201, 422, 422]
    with steps_of(api) as steps:
        steps.step("load", lambda: None)
    assert paths(handler)[-1] == "/flow_runs/id-2/set_state"
    (said,) = caplog.messages
    assert "POST /task_runs/: 422" in said


def test_the_work_does_not_wait_for_a_slow_server(
    harbour: tuple[str, type[Harbour]], caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, handler = harbour
    handler.pause_s = 0.4
    monkeypatch.setattr(module, "DRAIN_S", 0.1)
    began = time.monotonic()
    with steps_of(api) as steps:
        for n in range(20):
            steps.step(f"step {n}", lambda: None)
    assert time.monotonic() - began < 2
    assert any("too slow" in said for said in caplog.messages)


@pytest.mark.parametrize(("error", "written"), [(ValueError("no box"), True), (KeyboardInterrupt(), False)])
def test_what_failed_is_written_whole_and_only_who_stops_a_run_is_not_kept_waiting(
    harbour: tuple[str, type[Harbour]], monkeypatch: pytest.MonkeyPatch, error: BaseException, written: bool
) -> None:
    api, handler = harbour
    handler.pause_s = 0.2
    monkeypatch.setattr(module, "STOPPED_DRAIN_S", 0.0)
    with pytest.raises(type(error)), steps_of(api):
        raise error
    assert (paths(handler)[-1:] == ["/flow_runs/id-2/set_state"]) is written


def test_no_more_waits_to_be_written_than_is_allowed(
    harbour: tuple[str, type[Harbour]], caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, handler = harbour
    handler.pause_s = 0.2
    monkeypatch.setattr(module, "LONGEST_QUEUE", 4)
    with steps_of(api) as steps:
        for n in range(40):
            steps.log.info("line %d", n)
    assert len(handler.taken) < 12
    assert any("too slow" in said for said in caplog.messages)


def test_a_run_without_its_server_has_no_flow_run_and_goes_on(caplog: Any) -> None:
    began, before = time.monotonic(), threading.active_count()
    with steps_of("http://127.0.0.1:9/api") as steps:
        assert steps.origin() == {"flow_run": ""}
        assert steps.step("load", lambda: 42) == 42
    assert time.monotonic() - began < 5
    assert any("it is gone" in said for said in caplog.messages)
    assert threading.active_count() <= before


@pytest.mark.parametrize(
    ("kind", "dispatch", "deployed", "key", "engine"),
    [
        ("kept", Dispatch.AUTO, "[]", "", False),
        ("kept", Dispatch.INLINE, "[{}]", "", False),
        ("kept", Dispatch.AUTO, "[{}]", "", True),
        ("kept", Dispatch.WORKERS, "[]", "", True),
        ("kept", Dispatch.INLINE, "[]", "key", True),
        ("configured", Dispatch.INLINE, "[]", "", True),
    ],
)
def test_prefects_engine_records_where_there_may_be_workers_a_key_or_an_outage(
    monkeypatch: pytest.MonkeyPatch, kind: Any, dispatch: Dispatch, deployed: str, key: str, engine: bool
) -> None:
    used: list[str] = []

    def by_engine(job: Job[Form, int, JobSteps, Outcome], config: Form, checked: int) -> Outcome:
        used.append("engine")
        return job.carry_out(config, job.plain_steps(config), checked)

    @contextmanager
    def by_thread(*_: Any) -> Iterator[History]:
        used.append("thread")
        yield History()

    asked: Callable[..., Any] = lambda *_: json.loads(deployed)  # noqa: E731
    monkeypatch.setattr(prefect_steps, "recorded_by_engine", by_engine)
    monkeypatch.setattr(module, "kept_history", by_thread)
    monkeypatch.setattr(Requests, "send", asked)
    monkeypatch.setattr(server, "_setting", lambda name, *_: key if name == "PREFECT_API_KEY" else None)
    monkeypatch.setattr(server, "_send_all", lambda _: None)
    config = Form(dispatch=dispatch)
    assert module.recorded(Api("http://127.0.0.1:9/api", kind), Adding(), config, 41).number == 42
    assert used == ["engine" if engine else "thread"]
