"""Figures of judges: one line for each state, and what the last check found."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from leadline.evaluators.settings import Settings
from leadline.plugins.ops.telemetry import families as m
from leadline.plugins.ops.telemetry.figures import judge_figures
from leadline.tasks.judges.drift.drift_check import check_judge
from leadline.tasks.judges.drift.enrolment import enrol
from leadline.tasks.judges.drift.probes import probes_of_file
from leadline.tasks.store.store import Store
from tests.support.judges.changing_judge import ChangingJudge
from tests.support.judges.judge_endpoint import serving
from tests.support.judges.judged_run import judge_at, register, write_rows

NOW = datetime(2026, 11, 16, 3, tzinfo=UTC)


def test_figures_follow_a_judge_from_its_enrolment_to_its_change(tmp_path: Path) -> None:
    register()
    store = Store.open(tmp_path / "store")
    assert judge_figures(store).values == {}
    with serving(ChangingJudge()) as endpoint:
        judge = judge_at(endpoint.url, key="small")
        settings = Settings(judges=(judge,))
        rows = write_rows(tmp_path / "rows.jsonl", 30)
        enrol(store, judge, settings, *probes_of_file(store, str(rows), judge, settings, 20, ["test.brief"]))
        values = judge_figures(store).values
        assert values[m.JUDGE_STATE]["small", "enrolled"] == 1
        assert m.JUDGE_CHECKED not in values
        endpoint.changed = 0.8
        check = check_judge(store, judge, Settings(), now=NOW)
    values = judge_figures(store).values
    assert sum(values[m.JUDGE_STATE].values()) == values[m.JUDGE_STATE]["small", "changed"] == 1
    assert values[m.JUDGE_CHECKED]["small",] == NOW.timestamp()
    assert values[m.JUDGE_P]["small",] == check.p
    assert values[m.JUDGE_EPOCH]["small",] == 0
