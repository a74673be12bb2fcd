"""Recording a job that this process does: by Prefect's engine, or by REST alone on the server that this machine keeps.

Prefect's client and engine take longer to import than a small run takes in all, and such a run needs little of them: no
worker takes part, and nobody waits for the server. So a thread writes by Prefect's REST API what its UI shows: the flow
run, a task run for each step and chunk, the log, artifacts and events. The work never waits for it. A server that is
killed meanwhile leaves the history incomplete, and the run as it is.

Sources: the API's own description (``/docs`` of a server), the events of task runs not included, which the engine sends
and the UI does without.
"""

from __future__ import annotations

import http.client
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

from leadline.evaluators.ground import masked
from leadline.evaluators.ground.secret_values import masked_value
from leadline.flows.prefect.server import Api, guarded, prefect_client
from leadline.flows.shared.history import History
from leadline.flows.shared.job import C, Job, K, R, S
from leadline.flows.shared.settings import SCORING_FLOW, Dispatch
from leadline.tasks.ground.timeline import in_step

ANSWER_S: Final = 30.0
"""Longest wait for an answer of a server on this machine, whose processor the run needs too."""

ID_S: Final = 5.0
"""Longest wait of a run for the id of its flow run."""

BUSY_S: Final = 20.0
"""How long a request is made again where the server answers that it, or its database, is busy."""

PAUSE_S: Final = 0.2
DRAIN_S: Final = 15.0
"""Longest wait for what is still to be written when a run ends."""

STOPPED_DRAIN_S: Final = 2.0
"""The same where somebody has stopped the run."""

LONGEST_QUEUE: Final = 20_000
"""Requests that may wait to be written; what comes then is left out, and a line says so."""

LONGEST_LINE: Final = 10_000

_log: Final = logging.getLogger(__name__)

Work: TypeAlias = Callable[["Requests"], None]


class NotTaken(Exception):
    """The server does not take a request."""


class Requests:
    """Requests to an API on this machine, one after another over one connection."""

    def __init__(self, api: str) -> None:
        parts = urlsplit(api)
        self._path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)

    def send(self, method: str, path: str, body: Any) -> Any:
        """Send JSON and return what is answered; a server that is busy is asked again.

        Raises:
            OSError: The server is gone.
            NotTaken: It does not take the request.
        """
        sent = json.dumps(body, default=str).encode()
        deadline = time.monotonic() + BUSY_S
        while True:
            status, answer = self._exchange(method, self._path + path, sent)
            if status < 300:
                return json.loads(answer) if answer else None
            if status not in (429, 503) or time.monotonic() > deadline:
                raise NotTaken(f"{method} {path}: {status} {answer[:300].decode(errors='replace')}")
            time.sleep(PAUSE_S)

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        for last in (False, True):
            try:
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                # A server closes connections that rest; the next request learns of it.
                if last or isinstance(error, TimeoutError):
                    raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
        raise AssertionError

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Writer:
    """Writes to a server from a thread, in order."""

    def __init__(self, api: str) -> None:
        self._requests = Requests(api)
        self._queue: Queue[Work | None] = Queue(LONGEST_QUEUE)
        self._incomplete = ""
        self._gone = Event()
        self._thread = Thread(target=self._write, name="leadline-history", daemon=True)
        self._thread.start()

    def add(self, work: Work) -> None:
        """Have something written after all that was added before it."""
        if self._gone.is_set():
            return
        try:
            self._queue.put_nowait(work)
        except Full:
            self._incomplete = self._incomplete or "the server is too slow"

    def close(self, limit_s: float) -> None:
        """Wait until all is written, and say if it is not.

        Args:
            limit_s: Longest wait.
        """
        with suppress(Full):
            self._queue.put(None, timeout=0 if self._gone.is_set() else limit_s)
        self._thread.join(limit_s)
        if self._thread.is_alive():
            self._incomplete = self._incomplete or "the server is too slow"
        if self._incomplete:
            _log.warning("Prefect's server does not record all of this run: %s", masked(self._incomplete))

    def _write(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work(self._requests)
            except NotTaken as error:
                self._incomplete = self._incomplete or str(error)
            except OSError as error:
                self._incomplete = f"it is gone ({type(error).__name__})"
                self._gone.set()
                break
        self._requests.close()


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Takes the lines of a run's log for its history too."""

    def __init__(self, keep: Callable[[int, str], None]) -> None:
        super().__init__(logging.getLogger("leadline.run"))
        self._keep = keep

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        if level >= logging.INFO:
            self._keep(level, str(msg) % args if args else str(msg))
        super().log(level, msg, *args, **options)


class KeptHistory(History):
    """The history of a flow run.

    Args:
        root: The history of the outermost flow run, if it is not this one.
    """

    def __init__(self, writer: Writer, root: KeptHistory | None = None) -> None:
        self._writer = writer
        self._root = root or self
        self._id = ""  # the server gives it; what uses it is written later
        self._known = Event()
        self.log = _Log(self._keep_line)

    def origin(self) -> Mapping[str, str]:
        """Return the id of the outermost flow run, by which what is in the store is found again."""
        self._root._known.wait(ID_S)
        return {"flow_run": self._root._id}

    @contextmanager
    def running(self, name: str, label: str, parameters: Mapping[str, Any], within: str = "") -> Iterator[None]:
        """Keep the block as a run of a flow.

        Args:
            parameters: What it was asked for, as JSON.
            within: The task run by which it is drawn in another flow run.
        """
        asked = masked_value(dict(parameters))

        def begin(requests: Requests) -> None:
            try:
                flow = requests.send("POST", "/flows/", {"name": name})
                run = {"flow_id": flow["id"], "name": masked(label), "parameters": asked, "state": _state("RUNNING")}
                run |= {"parent_task_run_id": within} if within else {}
                self._id = requests.send("POST", "/flow_runs/", run)["id"]
            finally:
                self._known.set()

        self._writer.add(begin)
        try:
            yield
        except BaseException as error:
            self._end(lambda: f"/flow_runs/{self._id}/set_state", error)
            raise
        self._end(lambda: f"/flow_runs/{self._id}/set_state")

    @contextmanager
    def task_run(self, name: str, label: str, after: Sequence[str] = ()) -> Iterator[str]:
        """Keep the begin and the end of the block as a task run."""
        task_run = str(uuid4())
        inputs = [{"input_type": "task_run", "id": each} for each in after if each]

        def begin(requests: Requests) -> None:
            run: dict[str, Any] = {"id": task_run, "flow_run_id": self._id, "name": masked(label), "task_key": name}
            run |= {"dynamic_key": task_run, "task_inputs": {"wait_for": inputs}, "state": _state("RUNNING")}
            requests.send("POST", "/task_runs/", run)

        self._writer.add(begin)
        try:
            yield task_run
        except BaseException as error:
            self._end(lambda: f"/task_runs/{task_run}/set_state", error)
            raise
        self._end(lambda: f"/task_runs/{task_run}/set_state")

    @contextmanager
    def flow_run(
        self, name: str, label: str, parameters: Mapping[str, Any], after: Sequence[str] = ()
    ) -> Iterator[tuple[History, str]]:
        """Keep the block as a run of a flow within this one."""
        within = KeptHistory(self._writer, self._root)
        with self.task_run(name, label, after) as drawn, within.running(name, label, parameters, drawn):
            yield within, drawn

    def artifact(self, key: str, kind: str, data: Any, description: str) -> None:
        """Keep a text in Markdown, or a table."""
        kept = masked(data) if kind == "markdown" else json.dumps(masked_value(list(data)), default=str)
        about = {"key": key, "type": kind, "data": kept, "description": masked(description)}
        self._writer.add(lambda requests: requests.send("POST", "/artifacts/", about | {"flow_run_id": self._id}))

    def progress(self, description: str) -> Callable[[float], None]:
        """Return what keeps how far a work is, at whole percents only."""
        place, shown = "", -1
        about = {"key": "leadline-progress", "type": "progress", "description": description}

        def keep(percent: int, requests: Requests) -> None:
            nonlocal place
            if place:
                requests.send("PATCH", f"/artifacts/{place}", {"data": float(percent)})
            else:
                new = about | {"data": float(percent), "flow_run_id": self._id}
                place = requests.send("POST", "/artifacts/", new)["id"]

        def update(done: float) -> None:
            nonlocal shown
            if (percent := int(100 * done)) > shown:
                shown = percent
                self._writer.add(lambda requests: keep(percent, requests))

        return update

    def emit(self, event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
        """Send an event that is related to the flow run."""
        about = {"event": event, "resource": dict(resource), "payload": masked_value(dict(payload))}
        about |= {"id": str(uuid4()), "occurred": _now()}

        def send(requests: Requests) -> None:
            related = [{"prefect.resource.id": f"prefect.flow-run.{self._id}", "prefect.resource.role": "flow-run"}]
            requests.send("POST", "/events", [about | {"related": related}])

        self._writer.add(send)

    def _keep_line(self, level: int, text: str) -> None:
        line = {"name": "leadline.run", "level": level, "message": masked(text)[:LONGEST_LINE], "timestamp": _now()}
        self._writer.add(lambda requests: requests.send("POST", "/logs/", [line | {"flow_run_id": self._id}]))

    def _end(self, place: Callable[[], str], error: BaseException | None = None) -> None:
        state = _state("COMPLETED")
        if isinstance(error, Exception):
            state = _state("FAILED", f"{type(error).__name__}: {error}")
        elif error is not None:
            state = _state("CRASHED", "It was stopped.")
        self._writer.add(lambda requests: requests.send("POST", place(), {"state": state, "force": True}))


@contextmanager
def kept_history(api: str, name: str, label: str, parameters: Mapping[str, Any]) -> Iterator[History]:
    """Keep the block as a run of a flow.

    Args:
        api: URL of the API of a server on this machine.
        parameters: What it was asked for, as JSON.
    """
    writer = Writer(api)
    history, limit_s = KeptHistory(writer), DRAIN_S
    try:
        with history.running(name, label, parameters):
            yield history
    except BaseException as error:
        limit_s = DRAIN_S if isinstance(error, Exception) else STOPPED_DRAIN_S
        raise
    finally:
        writer.close(limit_s)


def _state(kind: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "name": kind.capitalize(), "message": masked(message)[:LONGEST_LINE]}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def recorded(api: Api, job: Job[C, K, S, R], config: C, checked: K) -> R:
    """Check and do a job whose run a Prefect server records.

    Prefect's own engine, whose import takes longer than a small run, does it where the server is somebody else's, which
    may be away for a while, want a key, or have workers.
    """
    if api.kind == "kept" and not guarded() and not _has_workers(api, config):
        with kept_history(api.url, job.name, job.run_name(config), job.parameters(config)) as history:
            return job.carry_out(config, job.plain_steps(config, history), checked)
    with in_step("imports"):
        from leadline.flows.prefect.prefect_steps import recorded_by_engine
    with prefect_client(api):
        return recorded_by_engine(job, config, checked)


def _has_workers(api: Api, config: object) -> bool:
    """Return whether chunks of a job may go to workers: it wants them, or there are deployments for them."""
    dispatch = getattr(config, "dispatch", Dispatch.INLINE)
    if dispatch != Dispatch.AUTO:
        return bool(dispatch == Dispatch.WORKERS)
    wanted = {"flows": {"name": {"any_": [SCORING_FLOW]}}, "limit": 1}
    requests = Requests(api.url)
    try:
        return bool(requests.send("POST", "/deployments/filter", wanted))
    except (OSError, NotTaken):  # Prefect's engine knows what to do
        return True
    finally:
        requests.close()
