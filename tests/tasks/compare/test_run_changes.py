"""What changed in a run since its baseline: which run that is, and what is kept of the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.tasks.analyse.changes import Changes, read_changes
from leadline.tasks.compare.run_changes import find_changes
from leadline.tasks.db import open_run
from leadline.tasks.runs.baseline import check_against, find_baseline
from leadline.tasks.runs.lookup import set_tag
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy
from tests.tasks.compare.two_runs import LOWER, SHARE, cases, completed


def made(
    root: Path, values: Mapping[str, Sequence[float | str]], *, record: Mapping[str, Any] | None = None, **more: Any
) -> Run:
    """Make a completed run of a dataset that is called ``suite``."""
    return completed(root, values, metric=SHARE, record={"identities": {"toy": {}}} | dict(record or {}), **more)


def changes_of(store: Store, run: Run, against: str | None = None) -> Changes:
    find_changes(store, run, against)
    with open_run(store, run, read_only=True) as connection:
        found = read_changes(connection)
    assert found is not None
    return found


class TestWhatChanged:
    def test_broken_and_fixed_rows_are_named_by_model_with_the_old_answer(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1, 1, 0, 1], "k": [1, 1, 1, 1]}, rows=cases(4, ["m", "k"], answer="Once."))
        after = made(tmp_path, {"m": [0, 1, 1, 0], "k": [1, 1, 1, 1]}, rows=cases(4, ["m", "k"], answer="Twice."))
        found = changes_of(store, after)
        first, second = found.models
        assert (first.model, first.n_broken, first.n_fixed, first.n_same_answers) == ("m", 2, 1, 0)
        assert [(row.case, row.baseline_answer) for row in first.broken] == [("c000", "Once."), ("c003", "Once.")]
        assert [row.case for row in first.fixed] == ["c002"]
        assert (second.n_broken, second.n_fixed) == (0, 0)
        assert "2 newly broken (m), 1 newly fixed (m)" in found.summary

    def test_an_identical_run_says_that_nothing_changed(self, store: Store, tmp_path: Path) -> None:
        before, after = (made(tmp_path, {"m": [1, 0, 1]}) for _ in range(2))
        assert changes_of(store, after).summary == f"since run {before.id}: nothing changed"

    def test_other_answers_that_pass_alike_are_counted(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1, 0, 1]})
        after = made(tmp_path, {"m": [1, 0, 1]}, rows=cases(3, answer="another"))
        assert "no row changed sides (3 answers changed); 1 metric cannot be told" in changes_of(store, after).summary

    def test_the_same_answer_with_another_verdict_is_no_change_of_the_model(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1, 1]})
        found = changes_of(store, made(tmp_path, {"m": [0, 1]}))
        assert "1 row with the same answer was judged differently" in found.summary
        (model,) = found.models
        assert (model.n_broken, model.n_rejudged, model.broken) == (0, 1, ())

    def test_new_cases_and_cases_that_are_gone_are_counted(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1, 1, 1]})
        after = made(tmp_path, {"m": [1, 1]}, rows=[row for row in cases(5) if row["case"] in ("c002", "c004")])
        found = changes_of(store, after)
        assert (found.baseline.new_cases, found.baseline.removed_cases) == (1, 2)
        assert "1 new case; 2 cases gone" in found.summary

    def test_what_was_measured_differently_is_said_and_not_compared(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1, 1]}, identity={"judge": {"model": "old"}})
        after = made(tmp_path, {"m": [0, 0]}, rows=cases(2, answer="another"), identity={"judge": {"model": "new"}})
        (model,) = changes_of(store, after).models
        assert [metric.key for metric in model.differently] == ["toy.passes"]
        assert "judge.model: old → new" in model.metrics[0].reason
        assert model.n_broken == 0

    def test_a_baseline_that_another_policy_judged_is_noted(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1]}).update({"policy": {"digest": "one"}})
        after = made(tmp_path, {"m": [1]})
        after.update({"policy": {"digest": "two"}})
        found = changes_of(store, after)
        assert "The gates are not comparable: the baseline was judged by another policy." in found.baseline.notes
        assert found.summary.endswith("; judged by another policy")

    def test_what_only_one_run_measured_is_noted(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1]})
        toys = (Toy(metrics=(SHARE,)), Toy("other", metrics=(LOWER,)))
        scores = [Given("c000", "m", 1.0, "passes"), Given("c000", "m", 0.1, "harm", "other")]
        after = completed(tmp_path, scores, rows=cases(1), evaluators=toys, record={"identities": {"toy": {}}})
        assert "Not measured by the baseline: other." in changes_of(store, after).baseline.notes

    def test_one_model_is_compared_with_the_other_one(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"v1": [1, 1]})
        (model,) = changes_of(store, made(tmp_path, {"v2": [0, 1]})).models
        assert (model.model, model.baseline_model, model.n_broken) == ("v2", "v1", 1)

    def test_none_compares_nothing(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"m": [1]})
        after = made(tmp_path, {"m": [0]})
        find_changes(store, after, "none")
        with open_run(store, after, read_only=True) as connection:
            assert read_changes(connection) is None


class TestBaseline:
    def test_it_is_the_production_run_if_that_fits_else_the_one_before(self, store: Store, tmp_path: Path) -> None:
        runs = [made(tmp_path, {"m": [1]}) for _ in range(3)]
        assert find_baseline(store, runs[2]).run == runs[1]
        set_tag(store, runs[0], "production")
        chosen = find_baseline(store, runs[2])
        assert (chosen.run, chosen.tag) == (runs[0], "production")
        assert find_baseline(store, runs[2], "previous").run == runs[1]

    def test_runs_older_than_the_one_before_are_not_read(self, store: Store, tmp_path: Path) -> None:
        before, after = (made(tmp_path, {"m": [1]}) for _ in range(2))
        oldest = store.run("20200102-030405-000000")
        oldest.path.mkdir()
        (oldest.path / "run.json").write_text("{")
        assert find_baseline(store, after, "previous").run == before

    def test_of_runs_that_began_in_one_second_the_last_is_the_one_before(self, store: Store, tmp_path: Path) -> None:
        for end, part in (("aaaaaa", 1), ("bbbbbb", 9), ("cccccc", 5)):
            made(tmp_path, {"m": [1]}).path.rename(store.root / "runs" / f"20260102-030405-{end}")
            store.run(f"20260102-030405-{end}").update({"started": f"2026-01-02T03:04:05.{part}+00:00"})
        after = made(tmp_path, {"m": [1]})
        assert find_baseline(store, after, "previous").run == store.run("20260102-030405-bbbbbb")

    def test_a_production_run_of_other_cases_is_passed_over(self, store: Store, tmp_path: Path) -> None:
        other = made(tmp_path, {"m": [1]}, rows=[cases(9)[8]], record={"dataset_name": "other"})
        set_tag(store, other, "production")
        after = made(tmp_path, {"m": [1, 1]})
        assert find_baseline(store, after).note == "no earlier run of this dataset to compare with"
        shares = made(tmp_path, {"m": [1, 1]}, record={"dataset_name": "renamed"}, rows=cases(9)[7:])
        assert find_baseline(store, shares).run == other

    def test_runs_that_did_not_complete_or_share_no_evaluator_do_not_count(self, store: Store, tmp_path: Path) -> None:
        first = made(tmp_path, {"m": [1]})
        made(tmp_path, {"m": [1]}, record={"status": "failed"})
        made(tmp_path, {"m": [1]}, record={"identities": {"other": {}}})
        after = made(tmp_path, {"m": [1]})
        assert find_baseline(store, after).run == first

    def test_a_named_run_must_be_there_and_completed(self, store: Store, tmp_path: Path) -> None:
        failed = made(tmp_path, {"m": [1]}, record={"status": "failed"})
        after = made(tmp_path, {"m": [1]})
        with pytest.raises(UsageError, match="no run 'nope'"):
            check_against(store, "nope")
        with pytest.raises(UsageError, match="tag 'nope'"):
            check_against(store, "tag:nope")
        check_against(store, "previous")
        assert find_baseline(store, after, failed.id).note == f"run {failed.id} is no baseline: it is failed"
        assert find_baseline(store, after, after.id).note == f"{after.id} is this run itself"

    @pytest.mark.parametrize("damage", ["removed", "torn"])
    def test_one_that_cannot_be_read_is_a_note(self, store: Store, tmp_path: Path, damage: str) -> None:
        before, after = made(tmp_path, {"m": [1]}), made(tmp_path, {"m": [1]})
        if damage == "removed":
            before.database.unlink()
        else:
            before.database.write_bytes(b"no database")
        found = changes_of(store, after)
        assert found.models == ()
        assert found.summary.startswith(f"not compared with run {before.id}: ")

    def test_without_a_model_in_common_it_is_a_note(self, store: Store, tmp_path: Path) -> None:
        made(tmp_path, {"a": [1], "b": [1]})
        assert "No model of the baseline" in changes_of(store, made(tmp_path, {"c": [1], "d": [1]})).summary
