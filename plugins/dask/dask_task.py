"""Scoring a chunk on a Dask worker, a process that stays from chunk to chunk and from run to run."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

from distributed import get_worker
from distributed.core import Status

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import masked
from leadline.evaluators.judge_client.event_loop import Cancelled, cancel_all
from leadline.flows.dispatch.fitness import Unfit, check_identities, find_run
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.runs.lookup import status
from leadline.tasks.score.chunk import JudgeDown, score_chunk
from leadline.tasks.store.store import Store

log = logging.getLogger("leadline.dispatch")

LOOK_EVERY_S: Final = 1.0
"""Pause between two looks whether a chunk that waits for a judge is still wanted."""

_lock: Final = threading.Lock()
_in_work: Final[Counter[str]] = Counter()


def score(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Score a chunk; return its counts, or under ``failed`` why there are none, as plain values.

    Args:
        parameters: The fields of the chunk.
    """
    chunk = Chunk(**parameters)
    try:
        _, record = find_run(chunk)
        if (ended := status(record)) != "running":
            return _failed("Stopped", f"The run {chunk.run} is {ended}: nobody waits for this chunk.")
        _check_once(chunk.store, chunk.run, chunk.lane)
        with _watched(chunk.run):
            return asdict(score_chunk(chunk))
    except (Unfit, JudgeDown) as error:
        return _failed(type(error).__name__, str(error))
    except Cancelled:
        return _failed("Stopped", f"{chunk.name}: nobody waits for it any more.")
    except Exception as error:
        log.exception("%s failed", chunk.name)
        return _failed("Failed", f"{type(error).__name__}: {error}")


def _failed(kind: str, message: str) -> dict[str, Any]:
    return {"failed": kind, "message": masked(message), "host": socket.gethostname(), "worker": get_worker().address}


@lru_cache(maxsize=64)
def _check_once(store: str, run: str, lane: Lane) -> None:
    """Check once for a run and lane that this process would compute what was planned; a refusal is not remembered."""
    check_identities(Store.open(store).run(run), lane)


@contextmanager
def _watched(run: str) -> Iterator[None]:
    """Give up judge calls once Dask wants the task no more, as when its run was interrupted.

    All calls of the process end then, so it is only done while no chunk of another run is in work.
    """
    wanted = _wanted()
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_EVERY_S):
            with _lock:
                if not wanted() and set(+_in_work) == {run}:
                    cancel_all()

    with _lock:
        _in_work[run] += 1
    threading.Thread(target=look, name="leadline-wanted", daemon=True).start()
    try:
        yield
    finally:
        done.set()
        with _lock:
            _in_work[run] -= 1


def _wanted() -> Callable[[], bool]:
    """Return what tells whether Dask still wants the task that runs in this thread."""
    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status in (Status.running, Status.paused) and task is not None and task.state == "executing"

    return wanted
