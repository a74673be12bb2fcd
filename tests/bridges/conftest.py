"""What the tests of bridges share: they run in .venv/bridges (make test-bridges) and are left out elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.judges.judge_endpoint import JudgeEndpoint, serving

TOOLS = ("deepeval", "inspect_ai", "langchain", "langgraph", "llama_index", "mlflow", "ragas")
HERE = Path(__file__).parent

collect_ignore_glob = [] if all(map(find_spec, TOOLS)) else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test here."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.bridges)


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a store and a working folder of its own, and let no tool call home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    for name in ("DEEPEVAL_TELEMETRY_OPT_OUT", "RAGAS_DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    """A judge over HTTP, the default one of the process, that says yes to all but what mentions Mars."""
    endpoint = JudgeEndpoint(reply=lambda question: "NO" if "Mars" in question.text else "YES")
    with serving(endpoint):
        monkeypatch.setenv("LEADLINE_JUDGE", "openai/judge")
        monkeypatch.setenv("LEADLINE_JUDGE_API_BASE", endpoint.url)
        monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
        yield endpoint
