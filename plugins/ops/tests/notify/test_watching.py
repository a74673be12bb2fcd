"""The watcher on a real Prefect server: what is told, once, what an outage leaves for later, and a changed judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.events.schemas.events import ReceivedEvent, Resource
from prefect.settings import PREFECT_API_URL, temporary_settings

from leadline.flows.shared.judge_access import judge_changed
from leadline.plugins.ops.notify import watching
from leadline.plugins.ops.notify.recipients import EVERYTHING, Kind, Notice, Recipient
from leadline.plugins.ops.notify.watching import Watcher
from leadline.tasks.store.store import Store
from tests.support.processes.prefect_runs import Server
from tests.support.stores.runs import make_run

pytestmark = pytest.mark.slow

GROUPS = [[kind] for kind in EVERYTHING if kind not in (Kind.CRASHED, Kind.LOST)] + [[Kind.CRASHED, Kind.LOST]]
EACH = tuple(Recipient(kinds[0], "json://nowhere", frozenset(kinds)) for kinds in GROUPS)
"""Recipients of so few kinds each that no two notices share a message."""

ENDS = frozenset([Kind.FAILED, Kind.CRASHED, Kind.CANCELLED])


@pytest.fixture
def server(api_url: str) -> Server:
    return Server(api_url)


class Told:
    """Keeps what is told, or refuses it."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, Notice]] = []
        self.refusal = ""

    def __call__(self, recipient: Recipient, notice: Notice) -> str:
        if not self.refusal:
            self.notices.append((recipient.name, notice))
        return self.refusal

    def titles(self) -> list[str]:
        return sorted(notice.title for _, notice in self.notices)


def lost_run(store: Store, run_id: str, **record: Any) -> None:
    """Make a run whose process is gone."""
    now = datetime.now(UTC).isoformat()
    make_run(store, run_id, record={"status": "lost", "error": "Gone.", "started": now, "gate": None} | record)


def test_whatever_keeps_a_run_from_its_gate_is_told_once(server: Server, store: Store, tmp_path: Path) -> None:
    told = Told()

    def look() -> int:  # as after a restart
        return Watcher(tmp_path / "notify", EACH, store, "http://prefect", told).look()

    server.run("before", "FAILED")
    lost_run(store, "20260101-before")
    assert look() == 0, "what was before is no news"
    nightly = {"name": "nightly", "dataset": "answers.json"}
    failed = server.run(
        "handsome-tortoise", "FAILED", config=nightly, message="DatasetError: There is no file answers.json."
    )
    server.run("by hand", "CANCELLED")
    crashed = server.run("killed", "CRASHED", message="No heartbeat for five minutes.")
    server.run("well", "COMPLETED")
    server.run(
        "wise-owl",
        "SCHEDULED",
        "Late",
        config={"dataset": "a/forgotten.json"},
        due=datetime.now(UTC) - timedelta(minutes=16),
    )
    server.run("soon", "SCHEDULED", "Late", due=datetime.now(UTC) - timedelta(minutes=2))
    worst = {"worst": ["beta leaks"], "changed": "2 newly broken"}
    link = {"report": "http://page/runs/r1/report.html"}
    server.gate("failed", {"reason": "1 problem of high severity."} | worst | link)
    server.gate("inconclusive", {"reason": "Too little was scored.", "report": "javascript:alert(1)"})
    server.gate("passed", {"reason": "All is well."})
    lost_run(store, "20260102-lost")
    lost_run(store, "20260102-killed", flow_run=crashed)
    assert look() == 7
    assert told.titles() == [
        "by hand (harbour) was cancelled, so its gate says nothing",
        "forgotten (harbour) is due and has not started",
        "killed (harbour) crashed, so its gate says nothing",
        "nightly (20260102-lost) was lost with its process, so its gate says nothing",
        "nightly (harbour) failed, so its gate says nothing",
        "nightly (r1) fails its gate",
        "nightly (r1): whether it passes its gate cannot be told",
    ]
    bodies = {name: notice.body for name, notice in told.notices}
    assert bodies["failed"] == f"DatasetError: There is no file answers.json.\nhttp://prefect/runs/flow-run/{failed}"
    assert bodies["fail"].splitlines() == [
        "1 problem of high severity.", "- beta leaks", "Changed: 2 newly broken", "http://page/runs/r1/report.html",
    ]  # fmt: skip
    assert bodies["inconclusive"] == "Too little was scored."
    assert look() == look() == 0
    assert len(told.notices) == 7


def test_an_outage_of_the_server_and_of_a_service_delays_a_notice_and_loses_none(
    server: Server, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.plugins.ops.notify.outbox.FIRST_PAUSE_S", 0.0)
    told, folder, everything = Told(), tmp_path / "notify", [Recipient("team", "json://nowhere", ENDS)]
    assert Watcher(folder, everything, store, send=told).look() == 0
    server.run("while away", "FAILED")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        away = Watcher(folder, everything, store, send=told)
        assert [away.look(), away.look()] == [0, 0]
    told.refusal = "Connection refused."
    assert Watcher(folder, everything, store, send=told).look() == 0
    told.refusal = ""
    assert Watcher(folder, everything, store, send=told).look() == 1
    assert told.titles() == ["while away (harbour) failed, so its gate says nothing"]


def test_a_recipient_hears_only_what_it_asked_for(server: Server, store: Store, tmp_path: Path) -> None:
    told = Told()
    watcher = Watcher(tmp_path / "notify", [Recipient("x", "json://x", frozenset([Kind.CRASHED]))], store, send=told)
    watcher.look()
    server.run("failed", "FAILED")
    server.run("crashed", "CRASHED")
    assert watcher.look() == 1
    assert told.titles() == ["crashed (harbour) crashed, so its gate says nothing"]


@pytest.mark.slow
def test_the_watcher_writes_json_too(tmp_path: Path) -> None:
    (tmp_path / "leadline.toml").write_text('[[notify]]\nname = "team"\nurl_env = "TEAM_URL"\n', encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    # Nobody listens on port 9, which is one line of the log.
    environment = {**kept, "TEAM_URL": "json://127.0.0.1:9", "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_CLIENT_MAX_RETRIES": "0"}
    environment["LEADLINE_LOG_FORMAT"] = "json"
    done = subprocess.run(
        [sys.executable, "-m", "leadline.cli.main", "service", "notify", "watch", "--once", "--folder", "memory"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert ("leadline.notify", "warning") in {(line["logger"], line["level"]) for line in found}


STANDING = {
    "key": "a1",
    "model": "openai/judge",
    "epoch": 0,
    "in_words": "CHANGED since 2026-11-24: 17.0 of 100 probes get another verdict",
    "signs": [{"severity": "medium", "text": "the provider's fingerprint went from fp_a1 to fp_c7"}],
}


@pytest.fixture
def sent() -> dict[str, Any]:
    return judge_changed("small", STANDING)


def test_it_names_the_judge_and_the_command_that_accepts_the_change(sent: dict[str, Any]) -> None:
    assert sent["event"] == "leadline.judge.changed"
    assert sent["resource"] == {"prefect.resource.id": "leadline.judge.a1", "prefect.resource.name": "small"}
    assert sent["payload"]["accept"] == "leadline judges accept small"
    assert sent["payload"]["signs"] == ["the provider's fingerprint went from fp_a1 to fp_c7"]


def test_people_are_told_once_of_a_change_that_several_runs_found(
    sent: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        ReceivedEvent(
            event=sent["event"],
            resource=Resource(sent["resource"]),
            payload=sent["payload"],
            id=uuid4(),
            occurred=datetime.now(UTC),
            received=datetime.now(UTC),
        )
        for _ in range(2)
    ]
    monkeypatch.setattr(watching, "pages", lambda client, wanted, limit: events)
    notices = list(watching._judges(None, datetime.now(UTC)))  # type: ignore[arg-type]
    assert len({notice.key for notice in notices}) == 1
    assert notices[0].kind is Kind.CHANGED
    assert notices[0].title == "The judge small is not the one that was enrolled any more"
    assert "17.0 of 100 probes" in notices[0].body
    assert "leadline judges accept small" in notices[0].body
