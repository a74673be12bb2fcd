"""The page of costs: sums by day, judge, evaluator, run, team and tag, budgets, and how judges stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from starlette.testclient import TestClient

from leadline.plugins.ui.app import protected, workbench
from leadline.tasks.judges.labels.certificates import Certificate, keep_certificate
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

TOKEN = "a token for the page"
HOSTILE = "<script>alert(1)</script>"


def reader(store: Store) -> TestClient:
    web = TestClient(protected(workbench(store), TOKEN), follow_redirects=False)
    assert web.get("/", params={"token": TOKEN}).status_code == 303
    return web


def judged(store: Store, run_id: str, *, calls: int, usd: float, unknown: int = 0, **record: Any) -> None:
    """Make a run in which BLEU asked a judge."""
    counted = {
        "asked": calls, "answered": calls, "failed": 0, "input_tokens": 10 * calls, "output_tokens": calls,
        "cost_usd": usd, "unknown_price": unknown,
    }  # fmt: skip
    day = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T10:00:00+00:00"
    calls_of_run = counted | {"by_evaluator": [{"evaluator": "bleu", **counted}]}
    run = make_run(store, run_id, record={"started": day, "judge_calls": calls_of_run, **record})
    with duckdb.connect(str(run.database)) as connection:
        connection.execute('UPDATE evaluators SET identity = \'{"judge": {"model": "judge-a"}}\'')


def lines(page: str) -> list[list[str]]:
    """Return the cells of the table of costs."""
    table = page.split('aria-label="Costs"')[1].split("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, flags=re.DOTALL)[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    return [[" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in row] for row in cells]


def test_costs_are_added_up_by_each_of_their_sources(store: Store) -> None:
    team = {"config": {"judges": {"team": "search"}}}
    judged(store, "20260101-a", calls=4, usd=0.5, reused=8, computed=2, **team)
    judged(store, "20260101-b", calls=6, usd=1.0, unknown=2, reused=0, computed=10)
    judged(store, "20260102-c", calls=2, usd=0.0, unknown=2, tags={"production": "x"})
    web = reader(store)
    found = {by: lines(web.get(f"/costs?by={by}").text) for by in ("day", "judge", "evaluator", "run", "team", "tag")}
    day = found["day"]
    assert day[0] == ["2026-01-02 its run", "1", "unknown", "2", "20", "2", "0", "3"]
    assert day[1] == ["2026-01-01 last run", "2", "$1.50 and 2 calls of unknown price", "10", "100", "10", "8", "12"]
    assert found["judge"] == [["judge-a last run", "3", "$1.50 and 4 calls of unknown price", "12", "120", "12"]]
    assert found["evaluator"][0][0] == "bleu last run"
    assert [line[0].split()[-2][:10] for line in found["run"]] == ["2026-01-02", "2026-01-01", "2026-01-01"]
    assert {line[0].partition(" ")[0]: line[2] for line in found["team"]} == {
        "search": "$0.50", "none": "$1.00 and 4 calls of unknown price",
    }  # fmt: skip
    assert [line[0] for line in found["tag"]] == ["none named last run", "production its run"]


def test_days_are_counted_back_from_the_newest_run(store: Store) -> None:
    judged(store, "20250101-a", calls=4, usd=0.5)
    judged(store, "20260101-b", calls=6, usd=1.0)
    web = reader(store)
    assert [line[0][:10] for line in lines(web.get("/costs").text)] == ["2026-01-01"]
    assert [line[0][:10] for line in lines(web.get("/costs?days=all").text)] == ["2026-01-01", "2025-01-01"]


def test_budgets_of_the_settings_stand_with_what_was_spent(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leadline.toml").write_text("[budgets.search]\nmonth_cost = 20\nmonth_calls = 1000\n")
    monkeypatch.chdir(tmp_path)
    page = " ".join(re.sub("<[^>]+>", "", reader(store).get("/costs").text).split())
    assert "$0.00 of $20.00 0 of 1,000" in page


def test_certificates_lead_to_their_run_and_what_is_hostile_is_text(store: Store) -> None:
    judged(store, "20260101-a", calls=4, usd=0.5, name=HOSTILE, tags={HOSTILE: "x"})
    keep_certificate(LabelSet(store, "people"), Certificate(
        f"bleu.{HOSTILE}", "c" * 32, 0.5, "valid", "20260101-a", "2026-01-02T00:00:00+00:00", False, ("people",), "d",
        90, 2, "", "", accuracy=0.91,
    ))  # fmt: skip
    for by in ("run", "tag", HOSTILE):
        page = reader(store).get("/costs", params={"by": by}).text
        assert "<script>alert" not in page
        assert '<a href="/runs/20260101-a">its run</a>' in page
        assert "91 %" in page


def test_an_empty_store_has_a_page(store: Store) -> None:
    page = reader(store).get("/costs").text
    for said in ("There is no run.", "No judge is enrolled", "There is none"):
        assert said in page
