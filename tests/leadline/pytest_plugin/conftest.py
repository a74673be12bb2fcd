"""Sessions of pytest within a test, with the plugin, in a folder and with a store of their own."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import pytest

import leadline
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.sample_repository import SampleRepository

RunPytest: TypeAlias = Callable[..., pytest.RunResult]


def plugin_options() -> list[str]:
    """Return the options by which a session gets the plugin: none where it is installed."""
    installed = importlib.metadata.entry_points(group="pytest11", name="leadline")
    return [] if installed else ["-p", "leadline.pytest_plugin.plugin"]


def outcomes(path: Path) -> dict[str, str]:
    """Return what a file of JUnit has of each test, by the part of its name in brackets."""
    kinds = ("failure", "error", "skipped")
    return {
        case.attrib["name"].partition("[")[2][:-1]: next((k for k in kinds if case.find(k) is not None), "passed")
        for case in ElementTree.parse(path).getroot().iter("testcase")
    }


@pytest.fixture(scope="session")
def _modules_are_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Evaluate once: sessions within a test forget what they imported, and NumPy cannot be imported again."""
    store = tmp_path_factory.mktemp("warm") / "store"
    data = [{"question": "q", "actual_answer": "a", "expected_answer": "a", "condition": '"a"'}]
    assert len(leadline.evaluate(data, metrics=["pii_leakage", "text_matching", "rouge"], store=store).scores)
    with serving(JudgeEndpoint(lambda question: "absent")) as judge:
        access = {"model": "openai/judge", "api_base": judge.url}
        leadline.check("a", metrics="contact_information", judge=access, store=store)


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, _modules_are_loaded: None) -> RunPytest:
    """Run pytest in this process; options and files are its arguments."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "tasks", "flows")]:
        monkeypatch.delitem(sys.modules, name)  # the user's are others
    for name in ("LEADLINE_JUDGE", "LEADLINE_STORE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path) -> pytest.RunResult:
        return pytester.runpytest_inprocess(*plugin_options(), "-p", "no:cacheprovider", *arguments)

    return run


@pytest.fixture
def evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let later sessions of a test have the results of the first one: their options change no score."""
    from leadline.pytest_plugin import sessions

    evaluate, kept = sessions.evaluate, dict[str, Any]()

    def first(data: Any, **settings: Any) -> Any:
        key = json.dumps([str(data), {**settings, "policy": None}], default=str, sort_keys=True)
        return kept[key] if key in kept else kept.setdefault(key, evaluate(data, **settings))

    monkeypatch.setattr(sessions, "evaluate", first)


@pytest.fixture
def repository(pytester: pytest.Pytester) -> SampleRepository:
    """A user's repository, in which the sessions run."""
    return SampleRepository(pytester.path).write()
