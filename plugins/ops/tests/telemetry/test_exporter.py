"""The exporter: what it serves, what it does where a source is away, and what the dashboard asks for."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from leadline.evaluators.judge_client.budget import Limits, TeamBudget
from leadline.evaluators.judge_client.calls import Charge, Reply
from leadline.flows.command.session import Session
from leadline.plugins.ops.telemetry.command import telemetry
from leadline.plugins.ops.telemetry.exporter import MetricsExporter, app_of
from leadline.plugins.ops.telemetry.families import EXPORTED, OF_THE_WEBHOOK, MetricKind
from leadline.tasks.judges.drift.enrolment import Enrolment, Replies, save_enrolment
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.scripted_judge import question
from tests.support.processes.http_servers import QuietHandler, serving_http
from tests.support.stores.runs import make_run

ROOT = Path(__file__).parents[4]
DASHBOARD = ROOT / "deployments" / "grafana.json"


class Prefect(QuietHandler):
    """Stands for Prefect's API: two pools with runs and a worker."""

    authorized = ""

    def do_POST(self) -> None:
        if self.authorized and self.headers.get("Authorization") != self.authorized:
            self._answer({"detail": "no"}, 401)
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/work_pools/filter":
            self._answer([{"name": "cpu"}, {"name": "judge"}])
        elif self.path == "/api/flow_runs/count":
            self._answer(3 if body["flow_runs"]["state"].get("name") == {"any_": ["Late"]} else 1)
        else:
            self._answer([{"name": "a", "status": "ONLINE"}, {"name": "b", "status": "OFFLINE"}])

    def _answer(self, value: Any, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


@pytest.fixture
def api() -> Iterator[str]:
    with serving_http(Prefect) as address:
        yield f"{address}/api"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_LEDGER", raising=False)
    Path("leadline.toml").write_text("[budgets.search]\nmonth_cost = 5\nmonth_calls = 9\n")
    store = Store.open(tmp_path / "store")
    make_run(store, "20260101-100000-aaaaaa")

    async def ask() -> None:
        ledger = open_ledger(store, "run1", Limits(team=TeamBudget("search")))
        await ledger.intend(question("a secret text"), Charge(1.0))
        await ledger.answered(question("a secret text"), Reply("a secret reply", cost_usd=0.5))

    asyncio.run(ask())
    return store


def complete(store: Store, api: str) -> MetricsExporter:
    """Return an exporter that has a value for each metric."""
    exporter = MetricsExporter(store, api, every=0.0)
    exporter.figures()
    make_run(store, "20260101-100001-aaaaaa", record={"chunk_seconds": {"cpu": [0.5]}})
    enrolment = Enrolment("small", "openai/judge", 0, 1, "2026-11-20T03:00:00+00:00", (), (), (), Replies((), ()))
    save_enrolment(store, "a1", enrolment)
    line = ("check/2026-11-21", "a1", 0, 1.0, 100, 3.0, 2.5, 0.4, 0.01, "steady", "", "")
    asyncio.run(open_ledger(store, "check").keep_check(line))
    return exporter


def samples(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def test_metrics_are_served_to_whoever_asks(store: Store, api: str) -> None:
    web = TestClient(app_of(complete(store, api)))
    reply = web.get("/metrics")
    assert web.get("/health").json() == {"ok": True}
    assert reply.headers["content-type"].startswith("text/plain")
    found = samples(reply.text)
    assert found["leadline_up"] == {
        frozenset({("source", source)}): 1 for source in ("store", "ledger", "judges", "api")
    }
    assert found["leadline_runs"][frozenset({("state", "completed")})] == 2
    assert found["leadline_flow_runs"][frozenset({("pool", "cpu"), ("state", "late")})] == 3
    assert found["leadline_workers"][frozenset({("pool", "judge")})] == 1
    assert found["leadline_chunk_seconds_bucket"][frozenset({("lane", "cpu"), ("le", "1.0")})] == 1
    assert found["leadline_team_usd_limit"][frozenset({("team", "search")})] == 5
    assert "secret" not in reply.text


def test_every_metric_has_a_value_and_the_labels_that_it_is_declared_with(store: Store, api: str) -> None:
    found = samples(complete(store, api).text().decode())
    for metric in EXPORTED:
        name = f"{metric.name}_bucket" if metric.kind is MetricKind.HISTOGRAM else metric.name
        extra = {"le"} if metric.kind is MetricKind.HISTOGRAM else set()
        for labels in found[name]:
            assert {label for label, _ in labels} == {*metric.labels, *extra}, name


def test_a_source_that_is_away_takes_no_other_with_it(store: Store) -> None:
    found = samples(MetricsExporter(store, "http://127.0.0.1:9/api").text().decode())
    assert found["leadline_up"][frozenset({("source", "api")})] == 0
    assert found["leadline_up"][frozenset({("source", "store")})] == 1
    assert found["leadline_calls_total"]


def test_a_broken_file_of_budgets_is_a_ledger_that_cannot_be_read(store: Store) -> None:
    Path("leadline.toml").write_text("[budgets")
    found = samples(MetricsExporter(store, None).text().decode())
    assert found["leadline_up"][frozenset({("source", "ledger")})] == 0
    assert frozenset({("source", "api")}) not in found["leadline_up"]


def test_many_that_ask_read_the_store_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = MetricsExporter(store, None, every=600)
    before = exporter.text()
    make_run(store, "20260101-100001-aaaaaa")
    assert exporter.text() == before


def test_the_api_is_asked_with_the_credentials_of_prefect(
    store: Store, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prefect, "authorized", httpx.BasicAuth("admin", "word")._auth_header)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:word")
    found = samples(MetricsExporter(store, api).text().decode())
    assert found["leadline_up"][frozenset({("source", "api")})] == 1


def test_the_command_prints_metrics_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    telemetry.main(["--once", "--store", str(store.root)], obj=Session(), standalone_mode=False)
    assert 'leadline_runs{state="completed"} 1.0' in capsys.readouterr().out


def expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def test_each_query_of_the_dashboard_is_of_a_metric_with_these_labels_and_each_metric_is_on_it() -> None:
    metrics = {metric.name: metric for metric in (*EXPORTED, *OF_THE_WEBHOOK)}
    asked = set()
    queries = list(expressions(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]))
    assert queries
    for query in queries:
        names = re.findall(r"\b(leadline_\w+)(?:\{([^}]*)\})?", query)
        assert names, query
        allowed: set[str] = set()
        for name, selectors in names:
            metric = metrics[name.removesuffix("_bucket")]
            assert name.endswith("_bucket") == (metric.kind is MetricKind.HISTOGRAM), query
            asked.add(metric.name)
            allowed |= {*metric.labels, *(["le"] if metric.kind is MetricKind.HISTOGRAM else [])}
            assert set(re.findall(r"(\w+)\s*[=!]~?", selectors)) <= {*metric.labels, "job"}, query
        for grouped in re.findall(r"\b(?:by|on|ignoring|without) ?\(([^)]*)\)", query):
            assert set(re.findall(r"\w+", grouped)) <= allowed, query
    assert asked == set(metrics)


def test_the_page_names_no_metric_that_is_not_exported() -> None:
    page = (ROOT / "docs" / "operations" / "observing.md").read_text(encoding="utf-8")
    named = re.findall(r"`(leadline_[a-z_]+)(…?)`", page)
    names = [metric.name for metric in (*EXPORTED, *OF_THE_WEBHOOK)]
    assert named
    for name, more in named:
        assert any(each.startswith(name) if more else each == name for each in names), name
    assert "leadline service telemetry --once" in page
