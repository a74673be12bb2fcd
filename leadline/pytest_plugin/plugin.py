"""The hooks and fixtures that pytest finds by entry point; sessions without them pay for this module alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from leadline.pytest_plugin.outcomes import Outcome
    from leadline.pytest_plugin.sessions import LeadlineFixture, PluginSession
    from leadline.pytest_plugin.suite import AnswerUnderTest

MARK: Final = "leadline"
CHECK: Final = "leadline_check"
"""Fixture that marked tests are parametrized by."""
_WORKER_KEY: Final = "leadline"

_session: Final = pytest.StashKey["PluginSession"]()
_shared: Final = pytest.StashKey[Path]()
_told: Final = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each is also a setting of pytest's configuration file and of ``leadline.toml``."""
    group = parser.getgroup("leadline", "answers of language models")
    for name, metavar, text in (
        (
            "against",
            "RUN",
            "Earlier run (latest, tag:NAME, an id): cases that failed there are known, others fail.",
        ),
        ("inconclusive", "fail|skip|xfail", "What becomes of tests that cannot be decided. Default: fail."),
        ("fail-cases", "should|must|never", "Least role of a metric that fails its cases' tests. Default: should."),
        ("store", "PLACE", "Store of scores, runs and calls. Default: $LEADLINE_STORE or ./.leadline."),
        ("judge", "MODEL", "Judge of tests that name none."),
    ):
        setting = f"leadline_{name.replace('-', '_')}"
        group.addoption(f"--leadline-{name}", dest=setting, metavar=metavar, default=None, help=text)
        parser.addini(setting, text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(dataset, metrics=..., judge=..., policy=..., limits=..., **settings): evaluate a dataset once and "
        "make a test of each of its cases, of each line of the policy and of the gate; without a dataset, settings of "
        "the fixture leadline.",
    )


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Let functions that are marked with a dataset use the fixture that they are parametrized by."""
    if not isinstance(collector, pytest.Module | pytest.Class) or not collector.funcnamefilter(name):
        return
    marks = getattr(obj, "pytestmark", [])
    if isinstance(obj, type) or not callable(obj) or not isinstance(marks, list):
        return
    own = [mark for mark in marks if mark.name == MARK]
    used = any(mark.name == "usefixtures" and CHECK in mark.args for mark in marks)
    if not used and "dataset" in _merged([*own, *collector.iter_markers(MARK)]):
        pytest.mark.usefixtures(CHECK)(obj)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each case, of each line of the policy, and of the gate."""
    if CHECK not in metafunc.fixturenames:
        return
    settings = _merged(metafunc.definition.iter_markers(MARK))
    if "dataset" not in settings:
        return
    from leadline.evaluators.ground import LeadlineError

    try:
        suite = _session_of(metafunc.config).suite(settings, metafunc.definition.path.parent)
    except LeadlineError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize(CHECK, suite.checks, ids=[check.name for check in suite.checks], indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Take the fixtures of the function's arguments from tests that do not call it: those are about no single case."""
    param = getattr(item, "callspec", None)
    check = param.params.get(CHECK) if param is not None else None
    info = getattr(item, "_fixtureinfo", None)
    if check is None or check.calls_function or info is None:
        return
    item.fixturenames = [name for name in info.initialnames if name not in info.argnames]  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Decide a test by its check; the function's body is run where a case passed."""
    outcome: Outcome | None = pyfuncitem.funcargs.get(CHECK)  # type: ignore[assignment]
    if outcome is None:
        return None
    if outcome.status == "fail":
        pytest.fail(outcome.message, pytrace=False)
    if outcome.status == "known":
        pytest.xfail(outcome.message)
    return None if outcome.calls_function else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten what lists of failures and JUnit's attributes show of a failing case to its first line."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None) if CHECK in getattr(item, "fixturenames", ()) else None
    if crash is not None and crash.message.startswith("Failed: "):
        crash.message = crash.message.partition("\n")[0]
    return report


@pytest.fixture
def leadline_check(request: pytest.FixtureRequest) -> Outcome:
    """The outcome of a case, of a line of the policy, or of the gate; the first test that asks for one evaluates."""
    if not hasattr(request, "param"):
        pytest.fail(f"leadline_case is for tests that are marked: @pytest.mark.{MARK}(DATASET, …).", pytrace=False)
    session = _session_of(request.config)
    items = (getattr(item, "callspec", None) for item in request.session.items)
    chosen = (item.params[CHECK] for item in items if item is not None and CHECK in item.params)
    outcome = session.outcome(request.param).told(chosen)  # goes through them for a line or gate that fails alone
    request.node.user_properties.extend(outcome.properties)
    if outcome.status == "skip" or (
        outcome.status in ("error", "inconclusive") and session.settings.inconclusive == "skip"
    ):
        pytest.skip(outcome.message)
    if outcome.status in ("error", "inconclusive") and session.settings.inconclusive == "xfail":
        pytest.xfail(outcome.message)
    if outcome.status == "error":  # an error of the set-up, as pytest counts them: no answer failed
        pytest.fail(outcome.message, pytrace=False)
    return outcome.failing()


@pytest.fixture
def leadline_case(leadline_check: Outcome) -> AnswerUnderTest:
    """The answer that a marked test is about, with its texts and scores."""
    return leadline_check.answer()


@pytest.fixture
def leadline(request: pytest.FixtureRequest) -> LeadlineFixture:
    """``leadline.check`` and ``leadline.evaluate`` with the session's store, judge and settings."""
    from leadline.pytest_plugin.sessions import LeadlineFixture

    return LeadlineFixture(_session_of(request.config), request.node, _merged(request.node.iter_markers(MARK)))


def _merged(marks: Any) -> dict[str, Any]:
    """Return the settings of all marks together; those of the nearest come first."""
    found: dict[str, Any] = {}
    for mark in marks:
        given: Mapping[str, Any] = {**({"dataset": mark.args[0]} if mark.args else {}), **mark.kwargs}
        found = {**given, **found}
    return found


def _session_of(config: pytest.Config) -> PluginSession:
    if _session not in config.stash:
        from leadline.pytest_plugin.sessions import PluginSession

        shared = getattr(config, "workerinput", {}).get(_WORKER_KEY)
        config.stash[_session] = PluginSession(config, Path(shared) if shared else None)
    return config.stash[_session]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the workers of pytest-xdist a folder in which they find what one of them evaluated."""
    if _shared not in node.config.stash:
        node.config.stash[_shared] = Path(tempfile.mkdtemp(prefix="leadline-pytest-"))
    node.workerinput[_WORKER_KEY] = str(node.config.stash[_shared])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what a worker of pytest-xdist has to tell."""
    node.config.stash.setdefault(_told, []).extend(getattr(node, "workeroutput", {}).get(_WORKER_KEY, []))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Tell the controller of pytest-xdist what a worker did."""
    config = session.config
    if _session in config.stash:
        told = config.stash[_session].told()
        if hasattr(config, "workeroutput"):
            config.workeroutput[_WORKER_KEY] = told
        else:
            config.stash.setdefault(_told, []).extend(told)
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the gate, the calls, the cost and the report of each run."""
    if told := config.stash.get(_told, []):
        from leadline.pytest_plugin.sessions import print_summary

        print_summary(terminalreporter, told)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder that workers shared."""
    if _shared in config.stash:
        shutil.rmtree(config.stash[_shared], ignore_errors=True)
