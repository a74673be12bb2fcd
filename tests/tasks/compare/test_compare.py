"""Comparing two runs: which cases are paired, what is refused, and what comes out."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.evaluators.classification.labels import Classification
from leadline.evaluators.ground import StoreError, UsageError
from leadline.tasks.compare import Comparison, Margins, MetricComparison, Options, compare
from leadline.tasks.store.store import Store
from tests.support.stores.run_factory import BOARD, Basis, Given, Toy, answer, board_scores
from tests.tasks.compare.two_runs import LOWER, OPEN, SCORE, SHARE, cases, completed


def only(found: Comparison) -> MetricComparison:
    (metric,) = found.metrics
    return metric


def noise(n: int, mean: float, seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [min(1.0, max(0.0, source.gauss(mean, 0.05))) for _ in range(n)]


class TestVerdicts:
    def test_a_clear_drop_fails_and_names_the_flips(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.9] * 20 + [0.3] * 10})
        after = completed(tmp_path, {"m": [0.9] * 5 + [0.2] * 15 + [0.9] + [0.3] * 9})
        found = compare(store, before.id, after.id)
        metric = only(found)
        assert (found.verdict, metric.verdict, metric.change) == ("fail", "fail", "worse")
        assert (metric.passed_to_failed, metric.failed_to_passed) == (15, 1)
        assert (metric.wins, metric.ties, metric.losses) == (1, 14, 15)
        assert metric.effect == pytest.approx((0.6 - 15 * 0.7) / 30)
        assert metric.baseline == pytest.approx(0.7)
        assert [row.case for row in metric.changed_rows if row.direction == "failed_to_passed"] == ["c020"]
        with (found.folder / "flips.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 16
        assert {line["case"] for line in lines if line["direction"] == "passed_to_failed"} == {
            f"c{n:03d}" for n in range(5, 20)
        }

    def test_a_better_candidate_passes(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": noise(60, 0.6)}), completed(tmp_path, {"m": noise(60, 0.8, 2)})
        found = compare(store, before.id, after.id)
        assert (found.verdict, only(found).change) == ("pass", "better")

    def test_half_a_point_is_no_regression(self, store: Store, tmp_path: Path) -> None:
        values = noise(60, 0.6)
        before = completed(tmp_path, {"m": values})
        after = completed(tmp_path, {"m": [v - 0.005 + 0.04 * (-1) ** n for n, v in enumerate(values)]})
        found = compare(store, before.id, after.id, Options(Margins(0.0)))
        assert only(found).effect == pytest.approx(-0.005)
        assert (found.verdict, only(found).change) == ("inconclusive", "none shown")

    def test_an_open_comparison_says_how_many_more_cases_it_takes(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [1, 1, 0, 1, 0, 1, 1, 1] * 12}, metric=SHARE)
        after = completed(tmp_path, {"m": [1, 0, 1, 1, 0, 1, 1, 1] * 12}, metric=SHARE)
        metric = only(compare(store, before.id, after.id))
        assert metric.verdict == "inconclusive"
        assert metric.rows_needed is not None
        assert f"{metric.rows_needed - 96:,} more cases" in metric.reason

    def test_with_fewer_cases_than_the_margin_can_decide_it_says_too_few(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [1, 1, 0, 1, 0, 1, 1, 1]}, metric=SHARE)
        after = completed(tmp_path, {"m": [1, 0, 1, 1, 0, 1, 1, 1]}, metric=SHARE)
        metric = only(compare(store, before.id, after.id))
        assert metric.least_cases is not None
        assert f"Too few cases (8; at least {metric.least_cases} needed)." in metric.reason
        assert (metric.rows_needed or 0) >= metric.least_cases

    def test_where_lower_is_better_a_rise_is_a_loss(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": noise(30, 0.2)}, metric=LOWER)
        after = completed(tmp_path, {"m": noise(30, 0.7, 2)}, metric=LOWER)
        metric = only(compare(store, before.id, after.id))
        assert metric.verdict == "fail"
        assert metric.effect is not None
        assert metric.effect < -0.4
        assert metric.passed_to_failed == 30

    def test_the_same_answers_with_the_same_scores_pass_however_few_they_are(
        self, store: Store, tmp_path: Path
    ) -> None:
        before, after = (completed(tmp_path, {"m": [1, 0, 1]}, metric=SHARE) for _ in range(2))
        found = compare(store, before.id, after.id)
        assert (found.verdict, only(found).coverage.same_answers) == ("pass", 3)
        assert "the same answers" in only(found).reason

    def test_other_answers_with_the_same_scores_are_not_taken_for_the_same(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [1, 0, 1]}, metric=SHARE)
        after = completed(tmp_path, {"m": [1, 0, 1]}, metric=SHARE, rows=cases(3, answer="another"))
        assert compare(store, before.id, after.id).verdict == "inconclusive"

    def test_margins_are_shares_of_the_range_or_a_metrics_own(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": noise(60, 0.6)}), completed(tmp_path, {"m": noise(60, 0.5, 2)})
        assert compare(store, before.id, after.id, Options(Margins(0.2))).verdict == "pass"
        own = Options(Margins(0.2, {"toy.value": 0.01}))
        assert compare(store, before.id, after.id, own).verdict == "fail"

    def test_without_an_end_of_the_range_the_margin_is_a_share_of_the_baseline(
        self, store: Store, tmp_path: Path
    ) -> None:
        before = completed(tmp_path, {"m": [20.0 + n % 3 for n in range(30)]}, metric=OPEN)
        after = completed(tmp_path, {"m": [20.5 + n % 4 for n in range(30)]}, metric=OPEN)
        metric = only(compare(store, before.id, after.id, Options(Margins(0.1))))
        assert metric.margin == pytest.approx(2.1)
        assert metric.verdict == "pass"
        assert metric.passed_to_failed is None
        assert {row.direction for row in metric.changed_rows} == {"better", "worse"}

    def test_infinite_values_are_compared_by_who_wins(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [2.0] * 20 + [math.inf]}, metric=OPEN)
        after = completed(tmp_path, {"m": [math.inf] * 12 + [2.0] * 8 + [math.inf]}, metric=OPEN)
        found = compare(store, before.id, after.id)
        metric = only(found)
        assert (metric.verdict, metric.test, metric.effect, metric.losses) == ("fail", "sign", -math.inf, 12)
        assert json.loads((found.folder / "comparison.json").read_text())["metrics"][0]["effect"] == "-Infinity"


class TestPairing:
    def test_cases_are_matched_by_key_across_datasets(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.1, 0.2, 0.3, 0.4]})
        rows = [answer(f"c{n:03d}", "m") for n in (5, 3, 2, 1)]
        after = completed(tmp_path, {"m": [0.9, 0.4, 0.3, 0.2]}, rows=rows)
        found = compare(store, before.id, after.id)
        metric = only(found)
        assert (metric.coverage.pairs, metric.coverage.only_baseline, metric.coverage.only_candidate) == (3, 1, 1)
        assert metric.effect == 0
        assert any("baseline only" in note for note in found.notes)
        assert any("differ in more than their answers" in note for note in found.notes)

    def test_the_same_cases_with_other_answers_are_no_other_dataset(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.1, 0.2]}, rows=cases(2, ["m"], actual_answer="Once."))
        after = completed(tmp_path, {"m": [0.1, 0.2]}, rows=cases(2, ["m"], actual_answer="Twice."))
        assert before.read().get("dataset") != after.read().get("dataset")
        assert compare(store, before.id, after.id).notes == ()

    def test_a_case_whose_question_changed_is_another_case(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.1, 0.2, 0.3]})
        rows = cases(3)
        rows[1]["question"] = "Something else?"
        after = completed(tmp_path, {"m": [0.1, 0.9, 0.3]}, rows=rows)
        metric = only(compare(store, before.id, after.id))
        assert (metric.coverage.pairs, metric.coverage.changed, metric.effect) == (2, 1, 0)

    def test_what_was_not_scored_counts_against_nobody_and_is_bounded(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.5] * 8 + ["timeout", ""]})
        after = completed(tmp_path, {"m": [0.5] * 7 + ["judge_unavailable"] * 2 + [0.1]})
        metric = only(compare(store, before.id, after.id))
        coverage = metric.coverage
        assert (coverage.pairs, coverage.unscored, coverage.not_applicable) == (7, 2, 1)
        assert coverage.reasons == {"baseline: timeout": 1, "candidate: judge_unavailable": 2}
        assert metric.effect == 0
        # One case is 0.5 before and unknown after, one unknown on both sides.
        assert metric.if_worst == pytest.approx((-0.5 - 1) / 9)
        assert metric.if_best == pytest.approx((0.5 + 1) / 9)

    def test_missing_scores_that_could_change_the_answer_leave_it_open(self, store: Store, tmp_path: Path) -> None:
        values = noise(60, 0.6)
        before = completed(tmp_path, {"m": values})
        scored: list[float | str] = [*noise(50, 0.62, 1), *["timeout"] * 10]
        after = completed(tmp_path, {"m": scored})
        metric = only(compare(store, before.id, after.id))
        assert metric.verdict == "inconclusive"
        assert "unscored" in metric.reason

    def test_trials_are_averaged_within_their_case(self, store: Store, tmp_path: Path) -> None:
        rows = cases(2)
        before = completed(tmp_path, [Given("c000", "m", 0.5), Given("c001", "m", 0.5)], rows=rows, metric=SCORE)
        values: tuple[float | str, ...] = (0.0, 1.0, "timeout")
        trials = [Given("c000", "m", value, trial=trial) for trial, value in enumerate(values)]
        after = completed(tmp_path, [*trials, Given("c001", "m", 0.7)], rows=rows, metric=SCORE)
        metric = only(compare(store, before.id, after.id))
        assert (metric.coverage.pairs, metric.coverage.unscored, metric.wins, metric.ties) == (2, 0, 1, 1)

    def test_copies_count_with_their_original(self, store: Store, tmp_path: Path) -> None:
        rows = cases(6)
        for n in (1, 2):
            rows += [answer(f"c{m:03d}-{n}", "m", original=f"c{m:03d}", perturbation="typo") for m in range(6)]
        change = [-0.1, 0.05, -0.02, 0.03, -0.07, 0.01] * 3
        alone = [completed(tmp_path, {"m": [0.6 + part * d for d in change[:6]]}) for part in (0, 1)]
        copied = [completed(tmp_path, {"m": [0.6 + part * d for d in change]}, rows=rows) for part in (0, 1)]
        single, triple = (only(compare(store, a.id, b.id)) for a, b in (alone, copied))
        assert (single.coverage.pairs, triple.coverage.pairs) == (6, 18)
        assert triple.ci_low == pytest.approx(single.ci_low)
        assert triple.p == pytest.approx(single.p)
        assert triple.p_flips is None

    @pytest.mark.parametrize("likes", [0, 1])
    @pytest.mark.parametrize(
        "kin",
        [
            lambda n: {"original": f"c{n % 6:03d}", "perturbation": "typo"} if n >= 6 else {},
            lambda n: {"answer": f"The same long answer, {n % 6}."},
        ],
        ids=["copies", "long answers that are alike"],
    )
    def test_cases_that_are_kin_on_one_side_only_count_together(
        self, store: Store, tmp_path: Path, likes: int, kin: Callable[[int], dict[str, str]]
    ) -> None:
        change = [-0.1, 0.05, -0.02, 0.03, -0.07, 0.01] * 2
        rows = [
            [answer(f"c{n:03d}", "m", expected=["yes"], **(kin(n) if side == likes else {})) for n in range(12)]
            for side in (0, 1)
        ]
        sides = [completed(tmp_path, {"m": [0.6 + side * d for d in change]}, rows=rows[side]) for side in (0, 1)]
        alone = [completed(tmp_path, {"m": [0.6 + side * d for d in change[:6]]}) for side in (0, 1)]
        both, single = (only(compare(store, a.id, b.id)) for a, b in (sides, alone))
        assert (both.coverage.pairs, both.ci_low) == (12, pytest.approx(single.ci_low))

    def test_no_common_case_is_inconclusive(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.1, 0.2]})
        after = completed(tmp_path, {"m": [0.1]}, rows=[answer("other", "m")])
        assert compare(store, before.id, after.id).verdict == "inconclusive"

    def test_a_metric_that_no_case_is_fit_for_does_not_matter(self, store: Store, tmp_path: Path) -> None:
        toys = (Toy(metrics=(SCORE,)), Toy("other", metrics=(LOWER,)))
        runs = [
            completed(
                tmp_path,
                [Given(f"c{n:03d}", "m", 0.5) for n in range(3)]
                + [Given(f"c{n:03d}", "m", "", "harm", "other") for n in range(3)],
                rows=cases(3),
                evaluators=toys,
            )
            for _ in range(2)
        ]
        found = compare(store, runs[0].id, runs[1].id)
        assert found.verdict == "pass"
        assert [metric.verdict for metric in found.metrics] == ["pass", "not_applicable"]


class TestComparability:
    def test_another_judge_makes_a_metric_incomparable(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": noise(30, 0.5)}, identity={"evaluator": "toy", "judge": {"model": "old"}})
        after = completed(tmp_path, {"m": noise(30, 0.9)}, identity={"evaluator": "toy", "judge": {"model": "new"}})
        found = compare(store, before.id, after.id)
        metric = only(found)
        assert (found.verdict, metric.verdict) == ("inconclusive", "incomparable")
        assert metric.differences == ("judge.model: old → new",)
        allowed = compare(store, before.id, after.id, Options(allow_different_configurations=True))
        assert allowed.verdict == "pass"
        assert any("judge.model: old → new" in note for note in allowed.notes)

    @pytest.mark.parametrize(
        ("swapped", "has", "lacks"), [(False, "baseline", "candidate"), (True, "candidate", "baseline")]
    )
    @pytest.mark.parametrize("harm", [0.0, 1.0])
    def test_a_metric_of_one_side_is_said_to_be_so_and_counts_for_nothing(
        self, store: Store, tmp_path: Path, swapped: bool, has: str, lacks: str, harm: float
    ) -> None:
        both = (Toy(metrics=(SCORE,)), Toy("other", metrics=(LOWER,)))
        scores = [Given("c000", "m", 0.5), Given("c000", "m", harm, "harm", "other")]
        runs = [completed(tmp_path, scores, rows=cases(1), evaluators=both).id, completed(tmp_path, {"m": [0.5]}).id]
        found = compare(store, *(reversed(runs) if swapped else runs))
        metric = found.of("other.harm")
        assert metric.verdict == "one_sided"
        assert f"Only the {has}'s run measured it, the {lacks}'s did not: there is nothing to compare." == metric.reason
        assert {metric.margin, metric.effect, metric.baseline, metric.candidate, metric.p} == {None}
        assert found.verdict == "pass"
        assert found.reason.endswith("Not counted, since only one side measured it: 1 metric.")
        [line] = [
            line
            for line in json.loads((found.folder / "comparison.json").read_text())["metrics"]
            if line["key"] == "other.harm"
        ]
        assert (line["verdict"], line["margin"]) == ("one_sided", None)
        for file in ("report.html", "report.md"):
            assert "nothing to compare" in (found.folder / file).read_text("utf-8")
        assert "NOT COMPARED" in found.report.read_text("utf-8")

    def test_where_no_metric_is_on_both_sides_nothing_is_decided(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"m": [0.5]})
        after = completed(
            tmp_path,
            [Given("c000", "m", 0.1, "harm", "other")],
            rows=cases(1),
            evaluators=[Toy("other", metrics=(LOWER,))],
        )
        found = compare(store, before.id, after.id)
        assert {metric.verdict for metric in found.metrics} == {"one_sided"}
        assert (found.verdict, found.tested) == ("inconclusive", 0)
        assert found.reason.startswith("Nothing could be compared.")

    def test_only_primary_metrics_are_compared_unless_asked(self, store: Store, tmp_path: Path) -> None:
        toy = Toy("board", metrics=BOARD, leaderboard="bool")
        runs = []
        for failing in (3, 5):
            scores = [
                s for n in range(8) for s in board_scores(f"c{n:03d}", "m", generation=n < failing, evaluator="board")
            ]
            runs.append(completed(tmp_path, scores, rows=cases(8), evaluators=(toy,)).id)
        assert [m.metric.key for m in compare(store, runs[0], runs[1]).metrics] == ["board.passes"]
        assert len(compare(store, runs[0], runs[1], Options(all_metrics=True)).metrics) == 5
        named = compare(store, runs[0], runs[1], Options(metrics=("board.failures",)))
        assert only(named).effect == pytest.approx(-2 / 8)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (Options(metrics=("toy.valeu",)), "Did you mean toy.value"),
            (Options(Margins(own={"other.value": 0.1})), "not compared"),
            (Options(Margins(own={"toy.value": -0.1})), "0 or more"),
            (Options(Margins(2.0)), "not a share"),
            (Options(alpha=0.0), "level"),
            (Options(mapping={"m": "n"}), "no model 'n'"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, store: Store, tmp_path: Path, options: Options, said: str) -> None:
        before, after = completed(tmp_path, {"m": [0.5]}), completed(tmp_path, {"m": [0.6]})
        with pytest.raises(UsageError, match=said):
            compare(store, before.id, after.id, options)

    def test_a_run_that_is_being_written_is_said_so(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": [0.5]}), completed(tmp_path, {"m": [0.6]})
        script = f"import duckdb, sys; c = duckdb.connect({str(after.database)!r}); print('open', flush=True); input()"
        import subprocess
        import sys

        with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as other:
            assert other.stdout is not None
            other.stdout.readline()
            with pytest.raises(StoreError, match="in use by another process"):
                compare(store, before.id, after.id)
            other.communicate("\n")


class TestWhoIsCompared:
    def test_two_models_of_one_run(self, store: Store, tmp_path: Path) -> None:
        run = completed(tmp_path, {"a": noise(30, 0.8), "b": noise(30, 0.3)})
        found = compare(store, f"{run.id}:a", ":b")
        assert (found.verdict, only(found).models.label) == ("fail", "a → b")
        with pytest.raises(UsageError, match="Both sides"):
            compare(store, run.id, run.id)

    def test_several_models_are_matched_by_key_and_corrected_together(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"a": noise(80, 0.8), "b": noise(80, 0.8, 2), "gone": noise(80, 0.5)})
        after = completed(tmp_path, {"b": noise(80, 0.3), "a": noise(80, 0.8, 3), "new": noise(80, 0.5)})
        found = compare(store, before.id, after.id)
        assert [(metric.models.label, metric.verdict) for metric in found.metrics] == [("b", "fail"), ("a", "pass")]
        assert found.tested == 2
        assert found.of("toy.value", "b").p_adjusted == pytest.approx(2 * (found.of("toy.value", "b").p or 0))
        assert [note.split(":")[0] for note in found.notes if "model" in note] == [
            "Not in the candidate",
            "Not in the baseline",
        ]

    def test_models_with_other_keys_are_mapped(self, store: Store, tmp_path: Path) -> None:
        before = completed(tmp_path, {"a": [0.5], "b": [0.6]})
        after = completed(tmp_path, {"c": [0.5], "d": [0.6]})
        with pytest.raises(UsageError, match="--map OLD=NEW"):
            compare(store, before.id, after.id)
        found = compare(store, before.id, after.id, Options(mapping={"a": "d"}))
        assert only(found).models.label == "a → d"

    def test_one_model_on_each_side_needs_no_mapping(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"v1": [0.5]}), completed(tmp_path, {"v2": [0.5]})
        assert only(compare(store, before.id, after.id)).models.label == "v1 → v2"


class TestWholeDatasets:
    def labels(self, tmp_path: Path, right: list[bool], rows: list[dict[str, Any]] | None = None) -> str:
        rows = rows or cases(len(right))
        scores, payloads = [], []
        for n, (row, correct) in enumerate(zip(rows, right, strict=True)):
            expected = "spam" if n % 3 == 0 else "ham"
            actual = expected if correct else "ham" if expected == "spam" else "spam"
            scores.append(Given(row["case"], "m", float(correct), "accuracy", "classification"))
            payload = {"expected": expected, "actual": actual}
            payloads.append(Basis(row["case"], "m", "classification", payload=payload))
        toy = Toy("classification", metrics=Classification.spec.metrics, params={})
        return completed(tmp_path, scores, rows=rows, evaluators=(toy,), evidence=payloads).id

    def test_f1_is_compared_by_resampling_and_equals_the_runs_own(self, store: Store, tmp_path: Path) -> None:
        before = self.labels(tmp_path, [n % 10 > 0 for n in range(60)])
        after = self.labels(tmp_path, [n % 3 > 0 for n in range(60)])
        found = compare(store, before, after, Options(metrics=("classification.f1",)))
        metric = only(found)
        for run, value in ((before, metric.baseline), (after, metric.candidate)):
            with duckdb.connect(str(store.run(run).database), read_only=True) as connection:
                (own,) = connection.execute(
                    "SELECT value FROM aggregates JOIN metrics USING (metric_id) WHERE metric = 'f1'"
                ).fetchall()[0]
            assert value == pytest.approx(own, abs=1e-12)
        assert (metric.verdict, metric.test, metric.ci_method) == ("fail", "label swap", "bootstrap")
        assert metric.coverage.pairs == 60
        assert metric.p is not None
        assert metric.p < 0.01

    def test_copies_make_the_interval_wider(self, store: Store, tmp_path: Path) -> None:
        right = [[n % 4 > 0 for n in range(24)], [n % 3 > 0 for n in range(24)]]
        rows = cases(24)
        rows += [answer(f"copy-{n}", "m", original=f"c{n % 24:03d}", perturbation="typo") for n in range(72)]
        plain = [self.labels(tmp_path, side) for side in right]
        copied = [self.labels(tmp_path, side * 4, rows) for side in right]
        options = Options(metrics=("classification.recall",))
        single, fourfold = (only(compare(store, before, after, options)) for before, after in (plain, copied))
        assert single.effect == pytest.approx(fourfold.effect)
        widths = [(metric.ci_high or 0) - (metric.ci_low or 0) for metric in (single, fourfold)]
        assert widths[1] == pytest.approx(widths[0], rel=0.15)

    def test_equal_sides_have_p_1(self, store: Store, tmp_path: Path) -> None:
        before, after = (self.labels(tmp_path, [n % 4 > 0 for n in range(40)]) for _ in range(2))
        metric = only(compare(store, before, after, Options(metrics=("classification.f1",))))
        assert (metric.effect, metric.p) == (0, 1)
