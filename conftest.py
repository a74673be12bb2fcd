"""Servers and databases that the tests of any room may ask for; a server is started by the first test that does."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import absl.logging
import pytest
from hypothesis import HealthCheck, settings

from leadline.evaluators.core import registry, user_evaluators
from leadline.tasks.store.store import Store
from tests.support.processes.descendants import kill_started_since
from tests.support.processes.fork_server import use_forks
from tests.support.processes.prefect_fixtures import api, api_url, home, no_server
from tests.support.stores.ledgers import place
from tests.support.stores.postgres import postgres_server, postgres_url
from tests.support.stores.s3 import host, s3, s3_server

__all__ = [
    "api",
    "api_url",
    "home",
    "host",
    "no_server",
    "place",
    "postgres_server",
    "postgres_url",
    "s3",
    "s3_server",
]

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests and the processes that they start share few cores
os.environ["CI"] = "true"  # commands do not say how to keep a server
# Compiled modules are kept, also in a container that says otherwise: the tests start hundreds of processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so; commands that the tests interrupt would inherit it, and go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_forks()

# rouge-score brings absl, whose handler closes its stream when logging is configured anew, as Prefect and uvicorn do:
# it must not be the one that pytest captures with.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

# What CI finds, the next run finds too, and no test fails because the machine is busy. New seeds are for
# HYPOTHESIS_PROFILE=search, which a nightly run sets.
settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("ci"), derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# The core's tests pass in a checkout without plug-ins; these are about the whole.
WHOLE = [
    "docs",
    "deployments",
    "golden/test_walks.py",
    "service",
    "flows/test_planted_secrets.py",
    "test_benchmarks.py",
]
ROOT = Path(__file__).parent
collect_ignore = [] if (ROOT / "plugins").is_dir() else [f"tests/{name}" for name in WHOLE]

LONGEST_FIRST = ("e2e", "browser", "postgres", "service", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with long tests first: one that came last would keep one core busy while the others wait."""
    order: dict[Path, int] = {}
    for item in items:
        longest = next((n for n, name in enumerate(LONGEST_FIRST) if item.get_closest_marker(name)), len(LONGEST_FIRST))
        order[item.path] = min(order.get(item.path, longest), longest)
    items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep all that collecting makes out of the garbage collector's sight: thousands of tests are not garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # extensions complain of objects that they find in the end
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End what a test that failed has started and did not get to end: it would take its time from the next ones."""
    report = yield
    if report.failed and report.when == "call":
        kill_started_since(call.start)
    return report


@pytest.fixture(autouse=True, scope="session")
def _no_kept_server_of_the_users_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let commands find no Prefect server that somebody keeps on this machine."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store."""
    return Store.open(tmp_path / "store")


@pytest.fixture
def anyio_backend() -> str:
    """Return the loop of the tests that are coroutines."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _warnings_are_counted_anew() -> None:
    """Let each test's commands show their first warnings, as each command of a person does in a process of its own."""
    for handler in logging.getLogger("leadline").handlers:
        if hasattr(handler, "_relayed"):
            handler._relayed = 0


@pytest.fixture(autouse=True)
def _own_evaluators_are_forgotten() -> Iterator[None]:
    """Forget the evaluators that a test's commands loaded from files: the next test would find them in every list."""
    known, files = dict(registry._registered), dict(user_evaluators._loaded)
    yield
    modules, prompts = registry._sources(), registry._prompt_files()
    mine = [
        id_
        for id_, kind in registry._registered.items()
        if id_ not in known and id_ not in prompts and kind.__module__ not in modules
    ]
    for id_ in mine:
        del registry._registered[id_]
    for file in user_evaluators._loaded.keys() - files.keys():
        del user_evaluators._loaded[file]


@pytest.fixture(autouse=True)
def _signal_handlers_stay() -> Iterator[None]:
    """Fail a test that leaves another handler for Ctrl-C or SIGTERM behind: the next one to interrupt would meet it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    after = {number: signal.getsignal(number) for number in before}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before
