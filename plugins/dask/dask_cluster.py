"""Dask workers that stay: a cluster of a run's own, workers of a scheduler elsewhere, and who serves which lane.

A lane is a resource of Dask: a worker that has ``gpu`` takes chunks of the lane ``gpu``. Rules hold the interpreter's
lock, so that a worker of the lane ``cpu`` is a process per core; one of the lane ``judge`` takes four chunks at a time,
as a run on one machine does, and one of the lane ``gpu`` takes one.

Run as a program it is the cluster of a run: scheduler and workers, which end with the run's process. Everybody who
reaches a scheduler can run any code on its workers, hence the run's own has a TLS key that nobody else knows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from threading import Timer
from types import TracebackType
from typing import Any, Final, Self

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.flows.dispatch.lanes import NoWorkers
from leadline.flows.shared.settings import Dispatch
from leadline.tasks.score.executor import JUDGED_AT_ONCE, default_processes

try:
    import dask
    from distributed import Client, Nanny, Scheduler
    from distributed.security import Security
except ImportError:  # an extra: whoever asks for Dask is told how to get it
    raise UsageError(
        "Dask is not installed.", hint="Install it with: pip install 'leadline[dask]'", code=ErrorCode.WORKER_NONE
    ) from None

PLACES: Final[Mapping[Lane, int]] = {"cpu": 1, "gpu": 1, "judge": JUDGED_AT_ONCE}
"""Chunks that a worker process of a lane takes at a time."""

CONNECT_S: Final = 10.0
START_S: Final = 120.0
"""Longest start of a cluster of one's own; it takes a few seconds on a machine at rest."""

STARTS: Final = 3
"""Tries to start a worker process of a cluster of one's own: a machine short of memory may kill one as it starts."""

ALLOWED_DEATHS: Final = 2
"""Worker processes that a chunk may bring down in a cluster of one's own before it is given up."""

AGAIN_S: Final = 2.0

_ONE_THREAD: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables by which Dask limits libraries to a thread; right for rules on all cores, wrong for a model."""


def scheduler_address(dispatch: str) -> str:
    """Return the address of the scheduler that ``dask://HOST:PORT`` or ``tls://HOST:PORT`` names, as Dask writes it."""
    return f"tcp://{dispatch.removeprefix('dask://')}" if dispatch.startswith("dask://") else dispatch


def connect(address: str, security: Security | None = None, timeout: float = CONNECT_S) -> Client:
    """Return a client of a scheduler.

    Args:
        address: The scheduler's address.
        security: Its keys; by default those of Dask's own configuration.
        timeout: Longest wait, also for a scheduler that went away.

    Raises:
        NoWorkers: It does not answer.
    """
    quiet()
    try:
        return Client(address, security=security, timeout=timeout, set_as_default=False, name="leadline")
    except Exception as error:
        raise NoWorkers(
            f"The Dask scheduler at {address} does not answer: {error or type(error).__name__}.",
            hint="Start one with: dask scheduler, and workers with: leadline service dask-worker ADDRESS --lane LANE",
        ) from None


def quiet() -> None:
    """Keep Dask's own messages from the terminal: what they are about is said in Leadline's words."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def workers_by_lane(client: Client, timeout: float = CONNECT_S) -> Mapping[Lane, tuple[str, ...]]:
    """Return the addresses of the workers of each lane.

    Args:
        client: A client of the scheduler.
        timeout: Longest wait for its answer.
    """
    found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=timeout)["workers"]
    served: dict[Lane, tuple[str, ...]] = {}
    for address, worker in sorted(found.items()):
        for lane in PLACES:
            if worker["resources"].get(lane):
                served[lane] = (*served.get(lane, ()), address)
    return served


def dask_workers(dispatch: str, lanes: Iterable[Lane], processes: int) -> Mapping[Lane, int]:
    """Return the lanes that Dask serves, each with the number of its worker processes.

    Args:
        dispatch: ``dask``, for a cluster of the run's own, or a scheduler's address.
        lanes: The lanes that the run may need.
        processes: Processes of the cpu lane in a cluster of its own.

    Raises:
        NoWorkers: The scheduler does not answer, or has no worker of any of the lanes.
    """
    needed = sorted(set(lanes))
    if dispatch == Dispatch.DASK:
        return {lane: processes if lane == "cpu" else 1 for lane in needed}
    with connect(scheduler_address(dispatch)) as client:
        served = {lane: len(workers) for lane, workers in workers_by_lane(client).items() if lane in needed}
    if needed and not served:
        raise NoWorkers(
            f"The Dask scheduler at {scheduler_address(dispatch)} has no worker of the lanes {', '.join(needed)}.",
            hint=f"Start one: leadline service dask-worker {dispatch} --lane {needed[0]}",
        )
    return served


class LocalCluster(AbstractContextManager["LocalCluster"]):
    """A scheduler and workers on this machine, in a process of their own; they end with this one.

    Args:
        workers: Worker processes by lane.

    Attributes:
        address: Address of the scheduler, once the block is entered.
        security: The key that it asks for.
    """

    def __init__(self, workers: Mapping[Lane, int]) -> None:
        self._workers = workers
        self._process: subprocess.Popen[str] | None = None
        self.address = ""
        self.security: Security | None = None

    def __enter__(self) -> Self:
        self.security = Security.temporary()
        request = {"workers": dict(self._workers), "tls": _tls_of(self.security)}
        command = [sys.executable, "-P", "-m", "leadline.plugins.dask.dask_cluster"]
        self._process = subprocess.Popen(  # noqa: S603 - in its own session: Ctrl-C is for the run, which ends it
            command,
            env=os.environ | {"DASK_LOGGING__DISTRIBUTED": "critical"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018
        too_long = Timer(START_S, self._process.kill)
        too_long.start()
        try:
            self._process.stdin.write(f"{json.dumps(request)}\n")
            self._process.stdin.flush()
            self.address = self._process.stdout.readline().strip()
        finally:
            too_long.cancel()
        if not self.address:
            self.__exit__(None, None, None)
            raise LeadlineError("Dask's local cluster did not start.", code=ErrorCode.WORKER_LOST)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the cluster: it ends when its standard input does."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _tls_of(security: Security) -> dict[str, str]:
    names = ("tls_ca_file", "tls_client_cert", "tls_client_key", "tls_scheduler_cert", "tls_scheduler_key",
             "tls_worker_cert", "tls_worker_key")  # fmt: skip
    return {name: getattr(security, name) for name in names}


def _nannies(address: str, lane: Lane, count: int, **options: Any) -> list[Nanny]:
    """Return worker processes of a lane, each with a parent that starts it anew when it dies."""
    threads = PLACES[lane]
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    if lane != "cpu":
        environment = {name: value for name, value in environment.items() if name not in _ONE_THREAD}
    with dask.config.set({"distributed.nanny.pre-spawn-environ": environment}):
        return [
            Nanny(
                address,
                nthreads=threads,
                resources={lane: threads},
                memory_limit=0,  # what chunks hold is not Dask's to judge
                preload=["leadline.tasks.score.chunk"],
                dashboard=False,
                **options,
            )
            for _ in range(count)
        ]


async def serve(address: str, lane: Lane, count: int, tell: Callable[[str], None], stop: asyncio.Event) -> None:
    """Serve a lane of a scheduler until told to stop; a scheduler that is away or goes away is waited for.

    Args:
        address: The scheduler's address.
        count: Worker processes.
        tell: Called with what happens, a line each.
        stop: Set to end the workers. Chunks in work go to others.
    """
    stopping = asyncio.ensure_future(stop.wait())
    while not stop.is_set():
        nannies = _nannies(address, lane, count)
        serving = asyncio.ensure_future(_serve_once(nannies, lambda: tell(f"Serves {lane} of {address}.")))
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            serving.cancel()
        problem = (await asyncio.gather(serving, return_exceptions=True))[0]
        await asyncio.gather(*(nanny.close(timeout=5) for nanny in nannies), return_exceptions=True)
        if not stop.is_set():
            why = f": {problem}" if isinstance(problem, Exception) and str(problem) else ""
            tell(f"The Dask scheduler at {address} does not answer; it is tried again{why}.")
            await asyncio.wait({stopping}, timeout=AGAIN_S)


async def _serve_once(nannies: list[Nanny], started: Callable[[], None]) -> None:
    await asyncio.gather(*nannies)
    started()
    await asyncio.gather(*(nanny.finished() for nanny in nannies))


def serve_until_signal(address: str, lane: Lane, count: int | None, tell: Callable[[str], None]) -> None:
    """Serve a lane of a scheduler until SIGTERM or Ctrl-C.

    Args:
        address: The scheduler's address.
        count: Worker processes; by default one per core for rules and one for everything else.
        tell: Called with what happens, a line each.
    """

    async def until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(address, lane, count or (default_processes() if lane == "cpu" else 1), tell, stop)

    asyncio.run(until_signal())


async def _own_cluster(workers: Mapping[Lane, int], security: Security, tell: Callable[[str], None]) -> None:
    """Run a scheduler and its workers until standard input ends; ``tell`` gets the scheduler's address."""
    here = {"host": "127.0.0.1", "security": security}
    async with Scheduler(
        port=0, dashboard=False, dashboard_address="127.0.0.1:0", allowed_failures=ALLOWED_DEATHS, **here
    ) as scheduler:
        nannies: list[Nanny] = []

        async def start(lane: Lane) -> None:
            for tries_left in reversed(range(STARTS)):
                [nanny] = _nannies(scheduler.address, lane, 1, **here)
                nannies.append(nanny)
                try:
                    await nanny
                except RuntimeError:  # it has closed itself
                    if not tries_left:
                        raise
                else:
                    return

        starts = [asyncio.ensure_future(start(lane)) for lane, count in workers.items() for _ in range(count)]
        try:
            await asyncio.gather(*starts)
            tell(scheduler.address)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        finally:
            for each in starts:  # one that sees its process closed would start another
                each.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await asyncio.gather(*(nanny.close(timeout=2) for nanny in nannies), return_exceptions=True)


def _main() -> None:
    request = json.loads(sys.stdin.readline())
    # The run reads one line. What evaluators print must not go to that pipe too: nobody would empty it.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(address: str) -> None:
        os.write(answers, f"{address}\n".encode())
        os.close(answers)

    security = Security(require_encryption=True, **request["tls"])
    try:
        asyncio.run(_own_cluster(Counter(request["workers"]), security, tell))
    except RuntimeError as error:  # a worker does not start; the run says so
        sys.exit(f"Dask: {error.__cause__ or error}")
    sys.stdout.flush()
    os._exit(0)  # threads of chunks that nobody waits for must not keep it


if __name__ == "__main__":
    _main()
