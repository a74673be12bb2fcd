"""Problems of the instrument: rows without a score, crashes, thresholds out of reach, flags."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import leadline
from leadline.evaluators.core import Metric
from leadline.evaluators.data import PairOutcome, Preferred, Reason, outcome, to_payload
from leadline.evaluators.pairwise.preference import Preference
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.instrument_problems import _REASONS
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.db import open_run
from tests.support.stores.problem_factory import GROUPED, even, of_type, problems
from tests.support.stores.run_factory import Basis, Given, Toy, answer, make_run, table


def test_unscored_rows_are_told_by_evaluator_and_reason(tmp_path: Path) -> None:
    scores = [*even(8, 0.9), Given("x", "a", "timeout"), Given("y", "a", "judge_unparseable"), Given("z", "b", 0.9)]
    found = of_type(problems(tmp_path, scores=scores), "evaluation")
    assert [problem["attrs"]["reason"] for problem in found] == ["judge_unparseable", "timeout"]
    assert all(problem["instrument"] for problem in found)
    assert found[0]["severity"] == "medium"
    assert found[0]["attrs"]["coverage"] == 0.8
    assert "Coverage is down to 80 %" in found[0]["description"]
    assert found[0]["attrs"]["test_case_keys"] == ["y"]


@pytest.mark.parametrize(("lost", "severity"), [(5, "low"), (6, "medium"), (20, "medium"), (21, "high")])
def test_unscored_rows_weigh_by_what_they_do_to_coverage(tmp_path: Path, lost: int, severity: str) -> None:
    scores = even(100 - lost, 0.9) + [Given(f"x{i}", "a", "timeout") for i in range(lost)]
    (problem,) = problems(tmp_path, scores=scores)
    assert problem["severity"] == severity


def test_a_missing_model_is_one_problem_for_all_evaluators_and_shows_the_command(tmp_path: Path) -> None:
    toys = [Toy("one"), Toy("two"), Toy("three")]
    messages = {
        "one": "Fetch it: leadline evaluators models fetch x",
        "two": "Fetch it: leadline evaluators models fetch x",
        "three": "other",
    }
    scores = [Given("c", "a", "model_unavailable", evaluator=id_) for id_ in messages]
    evidence = [Basis("c", "a", id_, error=message) for id_, message in messages.items()]
    found = problems(tmp_path, scores=scores, evaluators=toys, evidence=evidence)
    assert len(found) == 2
    assert "One and Two could not score 2 rows (model_unavailable)" in found[0]["description"]
    assert "leadline evaluators models fetch x" in found[0]["description"]
    assert found[0]["severity"] == "high"
    assert found[0]["evaluator_id"] is None


def test_a_judge_that_never_said_a_class_is_told_by_what_it_said_and_not_by_the_commonest_message(
    tmp_path: Path,
) -> None:
    stopped = 'Not asked: for 20 rows no reply was false or true. The replies hold "yes" (40).'
    lost = [f"x{number}" for number in range(22)]
    scores = even(8, 0.9) + [Given(case, "a", "judge_unparseable") for case in lost]
    evidence = [Basis(case, "a", error=stopped if case == "x21" else "It holds none.") for case in lost]
    (problem,) = problems(tmp_path, scores=scores, evidence=evidence)
    assert f"Message: {stopped}" in problem["description"]
    assert problem["actions"].startswith("If prompt or classes are yours, let both name the same words")
    (problem,) = problems(tmp_path / "else", scores=scores, evidence=evidence[:21])
    assert "Message: It holds none." in problem["description"]
    assert problem["actions"].startswith("Read the raw replies")


def test_every_reason_has_its_advice_and_a_refused_call_that_which_can_help(tmp_path: Path) -> None:
    assert set(_REASONS) == set(Reason) - {Reason.HOST_ERROR}
    assert len(set(_REASONS.values())) == len(_REASONS)
    (problem,) = problems(tmp_path, scores=[*even(8, 0.9), Given("x", "a", "judge_refused")])
    assert "key, model name and context length" in problem["actions"]


def test_no_table_gives_a_key_twice() -> None:
    """The linter compares keys that are literals or names, not members of enumerations."""
    root = Path(leadline.__file__).parents[1]
    twice = []
    for path in [
        path for room in ("evaluators", "tasks", "flows", "plugins", "leadline") for path in (root / room).rglob("*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict):
                keys = Counter(ast.unparse(key) for key in node.keys if key is not None)
                twice += [f"{path.name}:{node.lineno}: {key}" for key, count in keys.items() if count > 1]
    assert twice == []


def test_a_missing_device_is_not_said_to_be_a_missing_model(tmp_path: Path) -> None:
    message = "There is no device 'cuda' on this machine."
    scores = [Given("c", "a", "model_unavailable")]
    evidence = [Basis("c", "a", error=message)]
    (problem,) = problems(tmp_path, scores=scores, evidence=evidence)
    first = problem["description"].partition(". ")[0]
    assert "could not score 1 row (model_unavailable): what it runs on this machine is missing or does not" in first
    assert message in problem["description"]
    assert "--device" in problem["actions"]


def test_a_crashed_evaluator_is_one_problem_not_two(tmp_path: Path) -> None:
    scores = [*even(4, 0.9), *(Given(f"c{i}", "a", "evaluator_error", evaluator="bad") for i in range(4))]
    (problem,) = problems(tmp_path, scores=scores, evaluators=[Toy(), Toy("bad", error="KeyError: 'x'")])
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("high", "evaluation", True)
    assert "KeyError: 'x'" in problem["description"]


def test_too_few_cases_are_told_only_when_asked(tmp_path: Path) -> None:
    assert problems(tmp_path / "1", scores=even(4, 0.9), evaluators=[Toy(params={"min_test_cases": 4})]) == []
    (problem,) = problems(tmp_path / "2", scores=even(4, 0.9), evaluators=[Toy(params={"min_test_cases": 5})])
    assert problem["severity"] == "high"
    assert problem["instrument"] is True
    assert problem["attrs"]["min_test_cases"] == 5


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (Metric("v", "V", higher_is_better=True, threshold=1.5, primary=True), "where no value"),
        (Metric("v", "V", higher_is_better=True, threshold=0.0, primary=True), "where every value"),
        (Metric("v", "V", higher_is_better=False, threshold=-0.1, primary=True), "where no value"),
        (Metric("v", "V", higher_is_better=False, range=(0, math.inf), threshold=math.inf), "where every value"),
        (Metric("perplexity", "P", higher_is_better=False, range=(0, math.inf), threshold=0.5), "where no value"),
    ],
)
def test_a_threshold_out_of_reach_is_noted(tmp_path: Path, metric: Metric, words: str) -> None:
    found = problems(tmp_path, scores=even(4, 0.9, metric=metric.key), evaluators=[Toy(metrics=(metric,))])
    (problem,) = [one for one in found if words in one["description"]]
    assert (problem["severity"], problem["instrument"]) == ("low", True)


def test_flags_of_rows_are_told_once_by_kind(tmp_path: Path) -> None:
    flag = {"type": "evaluation", "severity": "low", "message": "The answer is too short to be embedded."}
    leak = {"type": "privacy", "severity": "high", "message": "A key leaked."}
    scores = even(4, 0.9) + even(4, 0.9, "b")
    evidence = [Basis(f"c{i}", m, flags=[flag]) for i in range(3) for m in "ab"] + [Basis("c3", "b", flags=[leak])]
    found = problems(tmp_path, scores=scores, evidence=evidence)
    assert [problem["description"] for problem in found] == [
        "1 row of model b: A key leaked.", "6 rows: The answer is too short to be embedded."
    ]  # fmt: skip
    assert [problem["instrument"] for problem in found] == [False, True]
    assert found[1]["attrs"]["model_names"] == ["a", "b"]


def test_an_unreadable_reply_of_a_judge_is_one_problem(tmp_path: Path) -> None:
    flag = {"type": "evaluation", "severity": "high", "message": "The reply must be one of yes and no; it has none."}
    scores = [*even(9, 0.9), Given("x", "a", "judge_unparseable")]
    evidence = [Basis("x", "a", flags=[flag], error="The reply has none of the words.")]
    assert len(problems(tmp_path / "1", scores=scores, evidence=evidence)) == 2
    (problem,) = problems(tmp_path / "2", policy=GROUPED, scores=scores, evidence=evidence)
    assert (problem["kind"], problem["fault"]) == ("unscored", "instrument")
    assert "Message: The reply has none of the words." in problem["description"]


def test_a_flag_of_a_row_that_fails_a_rule_is_no_second_problem(tmp_path: Path) -> None:
    leak = {"type": "privacy", "severity": "high", "message": "A key leaked."}
    scores = [Given("x", "a", 0.1), Given("y", "a", 0.9)]
    evidence = [Basis("x", "a", flags=[leak]), Basis("y", "a", flags=[leak])]
    found = problems(tmp_path, policy=GROUPED, scores=scores, evidence=evidence)
    (flag,) = [one for one in found if one["kind"] == "flag"]
    assert flag["attrs"]["test_case_keys"] == ["y"]


def test_a_budget_that_cannot_be_kept_says_that_the_price_is_missing(tmp_path: Path) -> None:
    evidence = [Basis("x", "a", error="The price is unknown, so a cost limit cannot be kept.")]
    (problem,) = problems(tmp_path, scores=[*even(9, 0.9), Given("x", "a", "budget")], evidence=evidence)
    assert "(budget): the price of the judge's calls is unknown" in problem["description"]
    assert "input_cost_per_token" in problem["actions"]
    assert "Raise the budget" not in problem["actions"]


ID = "pairwise.preference"
Verdicts = tuple[Preferred, Preferred]
WON: Verdicts = ("first", "second")
LOST: Verdicts = ("second", "first")
TIED: Verdicts = ("tie", "tie")
BIASED: Verdicts = ("first", "first")


def found(
    folder: Path, verdicts: Sequence[Verdicts], name: str = ID, *, also: Verdicts | None = None
) -> tuple[list[dict[str, Any]], ...]:
    """Return problems, insights and aggregates of a run in which models a and b were compared case by case.

    Args:
        also: The verdicts on both against a model c, whose own rows take no part in the run.
    """
    scores, evidence = [], []
    for case, (as_first, as_second) in enumerate(verdicts):
        for model, mine in (
            ("a", outcome("b", as_first, as_second)),
            ("b", outcome("a", as_second, as_first)),
        ):
            others = [] if also is None else [outcome("c", *also)]
            scores += _scores(f"c{case}", model, mine, name)
            evidence.append(Basis(f"c{case}", model, name, payload=to_payload([mine, *others])))
    models = "ab" if also is None else "abc"
    store, run = make_run(
        folder,
        rows=[answer(f"c{case}", model) for case in range(len(verdicts)) for model in models],
        evaluators=[Toy(name, Preference.spec.metrics, judged=True)],
        scores=scores,
        evidence=evidence,
    )
    with open_run(store, run) as connection:
        aggregate(connection)
        find_problems(connection, GROUPED)
        find_insights(connection, GROUPED)
        return table(connection, "problems"), table(connection, "insights"), table(connection, "aggregates")


def _scores(case: str, model: str, mine: PairOutcome, evaluator: str) -> list[Given]:
    return [
        Given(case, model, mine.score, "preference", evaluator),
        Given(case, model, float(mine.consistent), "consistency", evaluator),
    ]


def test_a_judge_that_prefers_the_first_answer_is_a_problem_of_the_instrument(tmp_path: Path) -> None:
    problems, _, _ = found(tmp_path, [WON] * 40 + [LOST] * 22 + [BIASED] * 38)
    (problem,) = problems
    assert (problem["kind"], problem["fault"], problem["severity"]) == ("position_bias", "instrument", "medium")
    assert problem["model_id"] is None
    assert "prefers whichever answer comes first. Of 100 pairs of answers, 38 got another" in problem["description"]
    assert "criteria" in problem["actions"]


def test_a_judge_that_contradicts_itself_without_a_direction_is_another(tmp_path: Path) -> None:
    second: Verdicts = ("second", "second")
    (problem,), _, _ = found(tmp_path, [WON] * 30 + [BIASED] * 35 + [second] * 35)
    assert problem["kind"] == "judge_inconsistent"


def test_a_steady_judge_makes_no_problem_and_the_stronger_model_is_told(tmp_path: Path) -> None:
    problems, (insight,), aggregates = found(tmp_path, [WON] * 45 + [LOST] * 10 + [TIED] * 5)
    assert problems == []
    assert insight["description"].startswith("By Pairwise.Preference a is the strongest of 2 models")
    assert "Its lead is more than chance." in insight["description"]
    strengths = [line for line in aggregates if line["ci_method"] == "jackknife"]
    assert [round(line["value"], 3) for line in strengths] == [0.658, 0.342]
    assert all(line["ci_low"] < line["value"] < line["ci_high"] and line["n_scored"] == 60 for line in strengths)


@pytest.mark.parametrize("against_third", [WON, LOST])
def test_a_rival_that_takes_no_part_in_the_run_is_neither_the_strongest_nor_the_next(
    tmp_path: Path, against_third: Verdicts
) -> None:
    _, (insight,), _ = found(tmp_path, [WON] * 45 + [LOST] * 10, also=against_third)
    assert insight["description"].startswith("By Pairwise.Preference a is the strongest of 2 models")
    assert insight["attrs"]["next_model"] == "b"
    assert set(insight["attrs"]["strengths"]) == {"a", "b"}


def test_a_lead_that_may_be_chance_is_called_so(tmp_path: Path) -> None:
    _, (insight,), _ = found(tmp_path, [WON] * 11 + [LOST] * 9, f"{ID}#strict")
    assert "Chance could have put it before b" in insight["description"]
    assert "Add cases" in insight["actions"]
