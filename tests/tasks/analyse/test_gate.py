"""The gate: pass, fail, inconclusive, and one clear sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.core import INF, Metric
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.answer_shares import LEAST_OF_PART, ShareStratum, good_share, weighted
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.flips import find_flips
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Policy, Proof, Role, Rule
from leadline.tasks.policy.questions import Question
from leadline.tasks.statistics.label_correction import ErrorRates
from tests.support.stores.problem_factory import GROUPED, SEED
from tests.support.stores.run_factory import VALUE, Given, Toy, answer, make_run


def gate(
    folder: Path,
    values: list[float | str],
    *,
    toys: list[Toy] | None = None,
    policy: Policy = SEED,
    rows: list[dict[str, Any]] | None = None,
    others: Mapping[str, list[float | str]] = MappingProxyType({}),
    chosen: bool = True,
    **how: Any,
) -> Decision:
    rows = rows or [answer(f"c{i}", "a") for i in range(len(values))] or [answer("c", "a")]
    given = [Given(row["case"], "a", value) for row, value in zip(rows, values, strict=False)]
    given += [Given(f"c{i}", "a", value, evaluator=id_) for id_, of in others.items() for i, value in enumerate(of)]
    store, run = make_run(folder, rows=rows, scores=given, evaluators=toys or [Toy()])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_flips(connection)
        find_problems(connection, policy)
        decision = decide(connection, policy, chosen=chosen, **how)
    assert decision.reason.endswith(".")
    assert "\n" not in decision.reason
    return decision


GOOD: list[float | str] = [0.9] * 20
POOR: list[float | str] = [0.6] * 20  # medium
BAD: list[float | str] = [0.1] * 20  # high


@pytest.mark.parametrize(
    ("values", "fail_on", "expected"),
    [
        (GOOD, "never", "pass"),
        (GOOD, "medium", "pass"),
        (POOR, "never", "pass"),
        (POOR, "high", "pass"),
        (POOR, "medium", "fail"),
        (BAD, "high", "fail"),
        (BAD, "medium", "fail"),
        (BAD, "never", "fail"),
    ],
)
def test_problems_of_models_fail_the_gate_from_the_severity_asked_for(tmp_path, values, fail_on, expected) -> None:
    assert gate(tmp_path, values, fail_on=fail_on).gate == expected


def test_the_reason_names_the_first_problem(tmp_path: Path) -> None:
    reason = gate(tmp_path, BAD, fail_on="high").reason
    assert reason.startswith("1 problem of high severity, the first: Evaluated model a failed to satisfy the threshold")


def test_problems_of_the_instrument_never_fail_the_gate(tmp_path: Path) -> None:
    decision = gate(tmp_path, [*GOOD, *["timeout"] * 20], fail_on="medium")
    assert decision.gate == "inconclusive"
    assert decision.reason == "Toy Evaluator could score only 50 % of the rows of model a; 95 % were asked for."


@pytest.mark.parametrize(("min_coverage", "expected"), [(0.9, "pass"), (0.91, "inconclusive"), (0.0, "pass")])
def test_coverage_is_inclusive(tmp_path: Path, min_coverage: float, expected: str) -> None:
    assert gate(tmp_path, [*GOOD[:18], "timeout", "timeout"], min_coverage=min_coverage).gate == expected


def test_rows_that_are_not_applicable_are_not_missing(tmp_path: Path) -> None:
    assert gate(tmp_path, [*GOOD, *[""] * 50], fail_on="high").gate == "pass"


def test_a_failing_model_fails_even_where_coverage_is_low(tmp_path: Path) -> None:
    assert gate(tmp_path, [*BAD, *["timeout"] * 20], fail_on="high").gate == "fail"


def test_a_run_that_measured_nothing_decides_nothing(tmp_path: Path) -> None:
    assert gate(tmp_path, []) == Decision("inconclusive", "Nothing was scored.")


def test_an_evaluator_that_could_not_run_leaves_it_open(tmp_path: Path) -> None:
    decision = gate(tmp_path, GOOD, toys=[Toy(), Toy("bad", error="boom")], fail_on="high")
    assert decision == Decision("inconclusive", "1 evaluator could not run, the first: Bad Evaluator.")


SPREAD: list[float | str] = [0.9, 0.55] * 5  # mean 0.725: the interval contains the threshold 0.75


@pytest.mark.parametrize(
    ("values", "role", "expected"),
    [
        (GOOD, Role.SHOULD, "pass"),
        (BAD, Role.SHOULD, "fail"),
        (SPREAD, Role.SHOULD, "inconclusive"),
        (BAD, Role.INFORMATION, "inconclusive"),  # nothing that could have failed was measured
        ([*GOOD, 0.7], Role.MUST, "fail"),
        (GOOD, Role.MUST, "pass"),
        ([*GOOD, "timeout", "timeout"], Role.MUST, "inconclusive"),
    ],
)
def test_the_role_of_a_metric_decides(tmp_path: Path, values: list[float | str], role: Role, expected: str) -> None:
    decision = gate(tmp_path, values, toys=[Toy(rule=Rule(role=role))], policy=GROUPED, fail_on="high")
    assert decision.gate == expected, decision.reason


def test_a_mean_that_may_miss_its_threshold_by_chance_is_no_pass(tmp_path: Path) -> None:
    values: list[float | str] = [0.95, 0.6] * 5  # mean 0.775: the interval contains 0.75
    decision = gate(tmp_path, values, policy=GROUPED)
    assert decision.gate == "inconclusive"
    assert "Value of model a is 0.775 against a threshold of 0.75, which 10 answers cannot decide." in decision.reason


def test_what_rows_cannot_decide_is_told_of_conversations_where_rows_are_conversations(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a") for i in range(10)]
    scores = [Given(f"c{i}", "a", (0.95, 0.6)[i % 2]) for i in range(10)]
    store, run = make_run(tmp_path, rows=rows, scores=scores, evaluators=[Toy()])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_problems(connection, GROUPED)
        connection.execute("INSERT INTO turn_scores SELECT 0, 1, 0, 1, 0, 'scored', NULL, 1.0")
        assert "which 10 conversations cannot decide" in decide(connection, GROUPED, chosen=True).reason


@pytest.mark.parametrize("rows", [71, 72])
@pytest.mark.parametrize(
    ("ends", "higher_is_better", "value", "few", "enough"),
    [
        ((0.0, INF), False, 2.0, "inconclusive", "pass"),
        ((0.0, INF), False, 9.0, "fail", "fail"),
        ((0.0, INF), True, 2.0, "inconclusive", "fail"),
        ((0.0, INF), True, 9.0, "pass", "pass"),
        ((-INF, 10.0), True, 9.0, "inconclusive", "pass"),
        ((-INF, 10.0), True, 2.0, "fail", "fail"),
        ((-INF, 10.0), False, 9.0, "inconclusive", "fail"),
        ((-INF, 10.0), False, 2.0, "pass", "pass"),
    ],
)
def test_few_rows_decide_nothing_on_the_side_where_the_range_of_their_metric_has_no_end(
    tmp_path: Path, ends: tuple[float, float], higher_is_better: bool, value: float, few: str, enough: str, rows: int
) -> None:
    metric = Metric("value", "Value", higher_is_better, range=ends, threshold=5.0, primary=True)
    values: list[float | str] = [value + n % 3 / 10 for n in range(rows)]
    decision = gate(tmp_path, values, toys=[Toy(metrics=[metric])], policy=GROUPED)
    assert decision.gate == (enough if rows == 72 else few), decision.reason
    why = "which 71 answers cannot decide: fewer than 72 independent rows of a metric without a range."
    assert (why in decision.reason) is (decision.gate == "inconclusive")


def test_few_verdicts_of_a_judge_do_not_fail_the_gate(tmp_path: Path) -> None:
    toy = Toy(rule=Rule(min_rows=20), judged=True)
    assert gate(tmp_path / "few", BAD[:10], toys=[toy], policy=GROUPED).gate == "inconclusive"
    assert gate(tmp_path / "enough", BAD, toys=[toy], policy=GROUPED).gate == "fail"


@pytest.mark.parametrize(
    ("certain", "min_rows", "expected"),
    [
        (True, 21, "inconclusive"),
        (True, 20, "pass"),
        (False, 21, "pass"),
    ],
)
def test_good_values_of_few_rows_leave_it_open_where_certainty_is_asked_for(
    tmp_path: Path, certain: bool, min_rows: int, expected: str
) -> None:
    decision = gate(tmp_path, GOOD, toys=[Toy(rule=Rule(min_rows=min_rows))], policy=replace(GROUPED, certain=certain))
    assert decision.gate == expected, decision.reason


@pytest.mark.parametrize("policy", [SEED, GROUPED])
def test_a_named_evaluator_that_measured_nothing_keeps_the_gate_from_passing(tmp_path: Path, policy: Policy) -> None:
    toys = [Toy(), Toy("silent", named=True)]
    decision = gate(tmp_path, GOOD, toys=toys, policy=policy)
    assert decision.gate == "inconclusive"
    assert decision.reason.endswith("silent was asked for by name and measured nothing.")
    assert gate(tmp_path / "unnamed", GOOD, toys=[Toy(), Toy("silent")], policy=policy).gate == "pass"


@pytest.mark.parametrize("column", ["category", "nowhere"])
def test_a_slice_of_the_policy_that_cannot_be_told_leaves_it_open(tmp_path: Path, column: str) -> None:
    toy = Toy(rule=Rule(slices=(column,), min_rows=5))
    rows = [answer(f"c{i}", "a", categories=["few" if i < 4 else "many"]) for i in range(40)]
    scores = [Given(f"c{i}", "a", 0.7 if i < 4 else 0.95) for i in range(40)]
    store, run = make_run(tmp_path, rows=rows, scores=scores, evaluators=[toy])
    with open_run(store, run) as connection:
        aggregate(connection)
        find_slices(connection)
        find_problems(connection, GROUPED)
        decision = decide(connection, GROUPED, chosen=True)
    assert decision.gate == "inconclusive"
    assert f"must hold for each value of {column}" in decision.reason


@pytest.mark.parametrize(("verdict", "expected"), [("fail", "fail"), ("inconclusive", "inconclusive")])
def test_a_must_metric_of_the_whole_dataset_is_decided_by_its_value(tmp_path, verdict: str, expected: str) -> None:
    rows, scores = [answer(f"c{i}", "a") for i in range(20)], [Given(f"c{i}", "a", 0.1) for i in range(20)]
    store, run = make_run(tmp_path, rows=rows, scores=scores, evaluators=[Toy(rule=Rule(role=Role.MUST))])
    with open_run(store, run) as connection:
        aggregate(connection)
        connection.execute("UPDATE metrics SET dataset_level = true")
        connection.execute("UPDATE aggregates SET n_pass = NULL, verdict = ?", [verdict])
        find_problems(connection, GROUPED)
        assert decide(connection, GROUPED, chosen=True).gate == expected


def test_a_mean_does_not_hide_a_part_of_the_answers_that_is_bad(tmp_path: Path) -> None:
    toy = Toy(rule=Rule(min_pass_share=0.75))
    third: list[float | str] = [0.5, 0.99, 0.99, 0.99] * 20  # mean 0.87, 75 % pass
    assert gate(tmp_path / "enough", third, toys=[toy], policy=GROUPED).gate == "pass"
    decision = gate(tmp_path / "unsure", [*third, 0.7, 0.7], toys=[toy], policy=GROUPED)
    assert decision.gate == "inconclusive"
    assert (
        "73.2 % of the answers of model a satisfy Value, 75 % should, which 82 answers cannot decide" in decision.reason
    )
    many: list[float | str] = [0.6, 0.99] * 60
    assert gate(tmp_path / "surely", many, toys=[toy], policy=GROUPED).gate == "fail"


ASKS = GROUPED.extended({}, asks=(Question.SAFE, Question.RIGHT))
SAFE = Toy(rule=Rule(role=Role.MUST, question=Question.SAFE))


def outcomes(decision: Decision) -> dict[str, str]:
    return {str(answer.question): answer.outcome for answer in decision.answers}


def test_a_question_that_nothing_looked_at_is_told_with_what_would_decide_it(tmp_path: Path) -> None:
    decision = gate(tmp_path, GOOD, toys=[SAFE], policy=ASKS, chosen=False)
    assert decision.gate == "pass", "the dataset has nothing to hold the answers against"
    assert outcomes(decision) == {
        "safe": "pass", "right": "not looked at", "grounded": "not looked at", "form": "not looked at",
        "fast": "not looked at",
    }  # fmt: skip
    assert all(bool(each.remedy) == (each.outcome == "not looked at") for each in decision.answers)


def test_the_question_of_goals_is_told_where_something_looked_at_them_or_somebody_asks_it(tmp_path: Path) -> None:
    goal = Toy("goal", rule=Rule(role=Role.MUST, question=Question.GOAL))
    decision = gate(tmp_path, GOOD, toys=[SAFE, goal], policy=ASKS, others={"goal": GOOD}, chosen=False)
    assert outcomes(decision)["goal"] == "pass"
    asked = gate(tmp_path / "b", GOOD, toys=[SAFE], policy=ASKS.asking([Question.GOAL]), chosen=False)
    assert outcomes(asked)["goal"] == "not looked at"


def test_expected_answers_that_nothing_was_held_against_leave_the_gate_open(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a", expected=["yes"]) for i in range(20)]
    decision = gate(tmp_path, GOOD, toys=[SAFE], policy=ASKS, rows=rows, chosen=False)
    assert (decision.gate, outcomes(decision)["right"]) == ("inconclusive", "not looked at")
    safe_alone = gate(tmp_path / "b", GOOD, toys=[SAFE], policy=ASKS.asking([Question.SAFE]), rows=rows, chosen=False)
    assert safe_alone.gate == "pass"


def test_a_question_that_is_not_asked_fails_the_gate_unless_it_was_left_out(tmp_path: Path) -> None:
    toys = [SAFE, Toy("form", rule=Rule(role=Role.MUST, question=Question.FORM))]
    values: list[float | str] = [*GOOD, 0.1]
    both = {"toys": toys, "others": {"form": values}}
    assert gate(tmp_path, [*GOOD, 0.9], policy=ASKS, chosen=False, **both).gate == "fail"
    asked = ASKS.asking([Question.SAFE])
    assert gate(tmp_path / "b", [*GOOD, 0.9], policy=asked, chosen=False, **both).gate == "pass"


@pytest.mark.parametrize("proof", ["none", "likeness", "exact", "mean"])
def test_likeness_may_fail_and_never_passes(tmp_path: Path, proof: Proof) -> None:
    metric = replace(VALUE, share=True)
    toy = Toy(metrics=(metric,), rule=Rule(proof=proof), unproven=True)
    rows = [answer(f"c{i}", "a", expected=["yes"]) for i in range(20)]
    passed = gate(tmp_path, [1.0] * 20, toys=[toy], policy=ASKS.asking([Question.RIGHT]), rows=rows)
    likeness = proof in ("none", "likeness")
    assert passed.gate == ("inconclusive" if likeness else "pass")
    assert ("never that they are right" in passed.reason) == likeness
    assert gate(tmp_path / "b", [0.0] * 20, toys=[toy], policy=ASKS, rows=rows).gate == "fail"


def test_fewer_than_eight_cases_pass_only_where_all_hold(tmp_path: Path) -> None:
    toy = Toy(metrics=(replace(VALUE, share=True),), rule=Rule(proof="exact"))
    asked = ASKS.asking([Question.RIGHT])
    rows = [answer(f"c{i}", "a", expected=["yes"]) for i in range(5)]
    assert gate(tmp_path, [1.0] * 5, toys=[toy], policy=asked, rows=rows).gate == "pass"
    some = gate(tmp_path / "b", [1.0] * 4 + [0.0], toys=[toy], policy=asked, rows=rows)
    assert (some.gate, "From 5 distinct cases no share can be told." in some.reason) == ("inconclusive", True)


def test_the_same_answer_to_several_cases_counts_once(tmp_path: Path) -> None:
    toy = Toy(metrics=(replace(VALUE, share=True),), rule=Rule(proof="exact"))
    asked = ASKS.asking([Question.RIGHT])
    same = [
        answer(f"c{i}", "a", answer=f"This is the long answer number {i % 4}.", expected=["yes"]) for i in range(40)
    ]
    other = [answer(f"c{i}", "a", answer=f"This is the long answer number {i}.", expected=["yes"]) for i in range(40)]
    values: list[float | str] = [0.0, 0.0, 1.0, 1.0] * 10
    assert gate(tmp_path, values, toys=[toy], policy=asked, rows=same).gate == "inconclusive"
    assert gate(tmp_path / "b", values, toys=[toy], policy=asked, rows=other).gate == "fail"


def test_the_errors_of_what_decides_are_allowed_for(tmp_path: Path) -> None:
    """Of right answers 80 % pass and of wrong ones 10 %, so that 80 % that pass are all right, and 40 % are not."""
    rule = Rule(proof="estimate", right_that_pass=(800, 1000), wrong_that_fail=(900, 1000))
    toy = Toy(metrics=(replace(VALUE, share=True),), rule=rule, judged=True)
    rows = [answer(f"c{i}", "a", expected=["yes"]) for i in range(100)]
    asked = ASKS.asking([Question.RIGHT])
    all_right, some_wrong = [1.0] * 80 + [0.0] * 20, [1.0] * 40 + [0.0] * 60
    assert gate(tmp_path, all_right, toys=[toy], policy=asked, rows=rows).gate == "pass"
    assert gate(tmp_path / "b", some_wrong, toys=[toy], policy=asked, rows=rows).gate == "fail"


def test_answers_that_a_rule_fails_may_be_wrong_however_many_it_fails_of_others_that_are_right(tmp_path: Path) -> None:
    """A bot that answers in the reference's own words has no right answers that fail: those that do are wrong."""
    rule = Rule(proof="estimate", right_that_pass=(500, 1000), wrong_that_fail=(950, 1000))
    toy = Toy(metrics=(replace(VALUE, share=True),), rule=rule)
    rows = [answer(f"c{i}", "a", expected=["yes"]) for i in range(100)]
    asked = ASKS.asking([Question.RIGHT])
    some, hardly_any = [1.0] * 75 + [0.0] * 25, [1.0] * 10 + [0.0] * 90
    assert gate(tmp_path, some, toys=[toy], policy=asked, rows=rows).gate == "inconclusive"
    assert gate(tmp_path / "b", [1.0] * 100, toys=[toy], policy=asked, rows=rows).gate == "pass"
    assert gate(tmp_path / "c", hardly_any, toys=[toy], policy=asked, rows=rows).gate == "fail"


@pytest.mark.parametrize(("passed", "low", "high"), [(1.0, 0.83, 1.0), (0.0, 0.0, 0.17)])
def test_no_share_is_known_better_than_without_errors(passed: float, low: float, high: float) -> None:
    _, least, most = good_share(passed, 20, ErrorRates(0.5, 1e6, 0.9, 1e6))
    assert least <= low + 0.01
    assert most >= high - 0.01


def test_labels_of_parts_that_a_metric_tells_apart_say_more_than_labels_alone_and_cover() -> None:
    """Thirty labels of 400 answers, of which 80 % are right; the metric passes 94 % of these and 10 % of the others."""
    random = np.random.default_rng(1)
    covers, widths, alone = [], [], []
    for _ in range(300):
        right = random.random(400) < 0.8
        passed = random.random(400) < np.where(right, 0.94, 0.1)
        labelled = random.permutation(400)[:30]
        strata = [
            ShareStratum(len(part), right[part].sum(), len(part), None)
            for part in (labelled[passed[labelled]], labelled[~passed[labelled]])
        ]
        if min(stratum.n for stratum in strata) < LEAST_OF_PART:
            continue
        _, low, high = weighted(strata, [passed.sum(), (~passed).sum()])
        covers.append(low <= 0.8 <= high)
        widths.append(high - low)
        _, low, high = good_share(right[labelled].mean(), 30, None)
        alone.append(high - low)
    assert np.mean(covers) >= 0.95
    assert np.mean(widths) < 0.85 * np.mean(alone)


def test_empty_answers_are_the_models_problem(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a", answer=["", "nan", "None"][i % 3] if i < 8 else "So.") for i in range(40)]
    decision = gate(tmp_path, [0.9] * 40, policy=ASKS, rows=rows)
    assert decision.gate == "fail"
    assert "8 of 40 answers are empty" in decision.reason
    expected = [{**row, "expected": [row["answer"] or "So."]} for row in rows if row["answer"]]
    assert "are empty" not in gate(tmp_path / "b", [0.9] * 38, policy=ASKS, rows=expected).reason
