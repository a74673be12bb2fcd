"""The flow that looks after a store, on a real Prefect server."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ops.maintenance.flow import MaintainConfig, maintain
from leadline.tasks.store.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("api_url")]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store() -> Store:
    """A store with two runs of a dataset."""
    line = {"question": "How deep is it?", "expected_answer": "It is 5 m deep.", "actual_answer": "It is 5 m deep."}
    Path("answers.json").write_text(json.dumps([line]), encoding="utf-8")
    for _ in range(2):
        Evaluate()(EvaluateConfig(dataset="answers.json", evaluators=("rouge",), store="store"))
    return Store.open("store")


def test_a_store_is_cleaned_checked_and_copied(store: Store) -> None:
    Path("leadline.toml").write_text("[retention]\nkeep_last = 1\n")
    config = MaintainConfig(gc=True, verify=True, backup="copies", store="store")
    state = maintain(config, return_state=True)
    assert state.is_completed(), state.message
    freed, checked, copied = (state.message or "").split("; ")
    assert freed.endswith("freed")
    assert not freed.startswith("0 ")
    assert checked.endswith("files checked, none damaged")
    [copy] = Path("copies").glob("leadline-*.tar")
    assert copied.endswith(f"copied to {copy.absolute()}")
    with tarfile.open(copy) as archive:
        reports = [name for name in archive.getnames() if name.endswith("report.html")]
    assert len(reports) == 1, "the older run's results are gone"


def test_damage_fails_and_is_not_copied(store: Store) -> None:
    for report in store.root.rglob("report.html"):
        report.write_text("another report")
    state = maintain(MaintainConfig(verify=True, backup="copies", store="store"), return_state=True)
    assert state.is_failed()
    assert "2 damaged" in (state.message or "")
    assert not Path("copies").exists()


def test_nothing_is_done_that_was_not_asked_for(store: Store) -> None:
    Path("leadline.toml").write_text("[retention]\nkeep_last = 0\n")
    before = sorted(store.root.rglob("*"))
    assert maintain(MaintainConfig(store="store"), return_state=True).message == "Nothing was asked for"
    assert sorted(store.root.rglob("*")) == before
