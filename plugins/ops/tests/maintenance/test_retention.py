"""Which runs keep their results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.plugins.ops.maintenance.retention import Retention, load_retention, runs_to_drop, seconds_of

NOW = datetime(2026, 6, 30, tzinfo=UTC).timestamp()
DAY = 86_400.0


def record(day: int, **fields: Any) -> dict[str, Any]:
    """Return the record of a run of June 2026."""
    return {"status": "completed", "started": f"2026-06-{day:02}T00:00:00+00:00", "dataset_name": "suite"} | fields


def test_without_rules_all_runs_keep_their_results() -> None:
    assert runs_to_drop({"a": record(1), "b": record(2)}, Retention(), NOW) == {}


def test_the_youngest_runs_of_each_dataset_stay() -> None:
    runs = {"a": record(1), "b": record(2), "c": record(3), "rare": record(1, dataset_name="other")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == ["a"]


def test_runs_that_scored_others_again_take_no_place_of_the_youngest() -> None:
    runs = {"a": record(1), "b": record(2), "c": record(3), "again": record(4, rescored="c")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == ["a"]


def test_both_rules_together_drop_what_both_allow() -> None:
    runs = {f"r{day:02}": record(day) for day in range(1, 30)}
    found = runs_to_drop(runs, Retention(keep_last=3, older_than=10 * DAY), NOW)
    assert list(found) == [f"r{day:02}" for day in range(1, 20)]
    assert found["r01"] == "29 days old, 28 younger runs of its dataset"


def test_a_run_in_work_and_one_that_is_needed_stay() -> None:
    runs = {"a": record(1, status="running"), "b": record(1), "c": record(1, status="lost")}
    assert list(runs_to_drop(runs, Retention(older_than=DAY), NOW, needed={"b"})) == ["c"]


def test_failed_runs_do_not_count_among_the_youngest_and_go_like_the_others() -> None:
    runs = {"a": record(1), "b": record(2, status="failed"), "c": record(3), "d": record(4, status="failed")}
    assert list(runs_to_drop(runs, Retention(keep_last=2), NOW)) == []
    assert list(runs_to_drop(runs, Retention(keep_last=1), NOW)) == ["a", "b"]


@pytest.mark.parametrize(
    ("patterns", "dropped"), [(("*",), ["c"]), (("production",), ["b", "c"]), (("release-*", "prod*"), ["c"])]
)
def test_tags_keep_results(patterns: tuple[str, ...], dropped: list[str]) -> None:
    runs = {
        "a": record(1, tags={"production": "2026"}),
        "b": record(1, tags={"release-1": "2026"}),
        "c": record(1),
    }
    assert list(runs_to_drop(runs, Retention(older_than=DAY, keep_tags=patterns), NOW)) == dropped


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("12h", 43_200), ("30d", 30 * DAY), ("8w", 56 * DAY)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "3 days", "1.5d", "99999999d", "٣d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration"):
        seconds_of(text)


def test_settings_complete_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_retention() == Retention()
    text = '[retention]\nkeep_last = 30\nolder_than = "90d"\nkeep_tags = ["production"]\nscores_older_than = "26w"\n'
    Path("leadline.toml").write_text(text, encoding="utf-8")
    assert load_retention() == Retention(30, 90 * DAY, ("production",), 182 * DAY)
    assert load_retention(2, "1d", ("x",), "2d") == Retention(2, DAY, ("x",), 2 * DAY)
    Path("leadline.toml").write_text("[retention]\nkeep_lsat = 30\n", encoding="utf-8")
    with pytest.raises(UsageError, match="keep_lsat"):
        load_retention()
