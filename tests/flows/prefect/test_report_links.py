"""Addresses of reports: of the reading page where there is one that shows the store, else of the bucket or the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.steps import publish_artifacts
from leadline.flows.prefect.report_links import comparison_link, run_link, ui_address
from leadline.flows.shared.history import History
from leadline.flows.shared.job import JobSteps
from leadline.tasks.store.store import Store
from tests.support.stores.s3 import S3

PAGE = "https://leadline.example.org/reports"


def test_reports_of_the_usual_store_are_linked_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_UI_URL", f"{PAGE}/")
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    store, other = Store.open(), Store.open(tmp_path / "other")
    assert run_link(store, store.run("r1")) == f"{PAGE}/runs/r1/report.html"
    assert run_link(other, other.run("r1")) == (other.root / "runs/r1/results/report.html").as_uri()
    report = store.root / "comparisons" / "c1" / "report.html"
    assert comparison_link(store, "c1", report) == report.as_uri(), "there is nothing to serve"
    report.parent.mkdir(parents=True)
    report.touch()
    assert comparison_link(store, "c1", tmp_path / "elsewhere" / "report.html") == f"{PAGE}/comparisons/c1/report.html"
    monkeypatch.delenv("LEADLINE_UI_URL")
    assert run_link(store, store.run("r1"), tmp_path / "copy.html") == (tmp_path / "copy.html").as_uri()


def test_a_bucket_is_linked_itself_only_where_there_is_no_page(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STORE", s3.url)
    store = Store.open()
    assert run_link(store, store.run("r1")) == f"{s3.endpoint}/{s3.bucket}/a/store/runs/r1/results/report.html"
    monkeypatch.setenv("LEADLINE_UI_URL", PAGE)
    assert run_link(store, store.run("r1")) == f"{PAGE}/runs/r1/report.html"


@pytest.mark.parametrize(
    "wrong", ["javascript:alert(1)", "localhost:8585", "http://", "http://u:pw@host", "http://h/?token=x"]
)
def test_what_is_no_address_of_a_page_is_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LEADLINE_UI_URL", wrong)
    assert ui_address() == ""
    assert "LEADLINE_UI_URL" in caplog.text
    assert "pw" not in caplog.text


class Kept(History):
    """Keeps artifacts and events in this process."""

    def __init__(self) -> None:
        self.artifacts: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []

    def artifact(self, key: str, kind: str, data: Any, description: str) -> None:
        self.artifacts[key] = data

    def emit(self, event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
        self.events.append({"event": event, "payload": payload})


def test_artifacts_and_the_gates_event_link_to_the_page_and_tell_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_UI_URL", PAGE)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    kept = Kept()
    file = tmp_path / "rows.jsonl"
    rows = [
        {
            "question": "q",
            "answer": "my card is 4111 1111 1111 1111, and my mail jane.doe@harbour.org",
            "expected_answer": "a",
            "model": "m",
        }
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    config = EvaluateConfig(dataset=str(file), evaluators=["pii_leakage"], fail_on="high")
    result = Evaluate()(config)
    store = Store.open()
    publish_artifacts(JobSteps(kept), store, store.run(result.run), result)
    link = f"{PAGE}/runs/{result.run}/report.html"
    (event,) = kept.events
    assert kept.artifacts["leadline-report"] == f"[Report]({link})"
    assert event["payload"]["report"] == link
    assert f"<{link}>" in kept.artifacts["leadline-summary"]
    assert event["event"] == "leadline.gate.failed"
    assert event["payload"]["worst"] == result.worst != []
