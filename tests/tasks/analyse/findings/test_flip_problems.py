"""Problems of robustness: one per model and kind of perturbation, and only what chance does not explain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.policy.policy import Role, Rule
from tests.support.stores.problem_factory import GROUPED, problems
from tests.support.stores.run_factory import Given, Toy, answer

GOOD, BAD = 1.0, 0.1


def pairs(*changes: tuple[str, Iterable[float], Iterable[float]], metric: str = "value") -> dict[str, Any]:
    """Return rows and scores of pairs: by kind of perturbation, the values before and after."""
    rows, scores = [], []
    for kind, before, after in changes:
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            case = f"{kind}{place}"
            rows += [answer(case, "a"), answer(f"{case}~", "a", original=case, perturbation=kind)]
            scores += [Given(case, "a", old, metric), Given(f"{case}~", "a", new, metric)]
    return {"rows": rows, "scores": scores}


def flips(folder: Path, **made: Any) -> list[dict[str, Any]]:
    return [each for each in problems(folder, policy=GROUPED, **made) if each["kind"] in ("flips", "judge_noise")]


def test_a_kind_that_turns_answers_bad_is_one_problem_with_its_rate_and_cases(tmp_path: Path) -> None:
    made = pairs(("typo:high", [GOOD] * 20, [BAD] * 9 + [GOOD] * 11), ("comma", [GOOD] * 20, [GOOD] * 20))
    (problem,) = flips(tmp_path, **made)
    assert (problem["severity"], problem["fault"], problem["type"]) == ("high", "model", "robustness")
    assert problem["description"].startswith("Under the perturbation typo:high (slips in typing: ")
    assert '): 9 of 20 answers of model "a" turned from passed to failed (45 %' in problem["description"]
    assert "95 % interval 23.1 % to 68.5 %), none from failed to passed" in problem["description"]
    assert problem["attrs"]["pairs"][0] == ["typo:high0", "typo:high0~"]
    assert problem["attrs"]["test_case_keys"] == [f"typo:high{i}~" for i in range(9)]
    assert "Correct spelling" in problem["actions"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([BAD] * 20, [GOOD] * 20),
        ([GOOD, BAD] * 10, [BAD, GOOD] * 10),
    ],
    ids=["improvements", "as many improve as worsen"],
)
def test_improvements_are_no_problems(tmp_path: Path, before: list[float], after: list[float]) -> None:
    assert flips(tmp_path, **pairs(("typo", before, after))) == []


def test_too_few_worsened_cases_are_one_low_problem_that_says_so(tmp_path: Path) -> None:
    made = pairs(*((kind, [GOOD] * 5, [BAD] + [GOOD] * 4) for kind in ("typo", "comma")))
    (problem,) = flips(tmp_path, **made)
    assert problem["severity"] == "low"
    assert "That may be chance" in problem["description"]
    assert "2 of 10 answers" in problem["description"]


def test_many_kinds_with_a_few_flips_each_are_one_problem_beyond_chance(tmp_path: Path) -> None:
    kinds = [f"kind{i}" for i in range(8)]
    (problem,) = flips(tmp_path, **pairs(*((kind, [GOOD] * 10, [BAD] + [GOOD] * 9) for kind in kinds)))
    assert problem["severity"] == "medium"
    assert "Under all perturbations together" in problem["description"]
    assert "8 of 80 answers" in problem["description"]


def test_copies_of_one_case_do_not_count_as_several(tmp_path: Path) -> None:
    rows = [answer("c", "a"), *(answer(f"p{i}", "a", original="c", perturbation="typo") for i in range(20))]
    scores = [Given("c", "a", GOOD), *(Given(f"p{i}", "a", BAD) for i in range(20))]
    (problem,) = flips(tmp_path, rows=rows, scores=scores)
    assert problem["severity"] == "low"


def test_metrics_that_flip_together_are_one_problem_that_names_them(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 10, [BAD] * 10))
    made["scores"] += [Given(g.case, g.model, g.value, evaluator="other") for g in made["scores"]]
    (problem,) = flips(tmp_path, **made, evaluators=[Toy(), Toy("other")])
    assert "By metric: Toy 10 and Other 10." in problem["description"]
    assert problem["attrs"]["worsened_metrics"] == {"toy/value": 10, "other/value": 10}


def test_information_metrics_make_no_flip_problem(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 10, [BAD] * 10))
    assert flips(tmp_path, **made, evaluators=[Toy(rule=Rule(Role.INFORMATION))]) == []


def test_a_judge_that_changes_its_mind_as_often_is_at_fault_itself(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 20, [GOOD] * 17 + [BAD] * 3))
    moods = [Given(g.case, "a", 0.6 if i % 2 else g.value, trial=1) for i, g in enumerate(made["scores"])]
    made["scores"] += [Given(g.case, "a", g.value, trial=2) for g in made["scores"]] + moods
    (problem,) = flips(tmp_path, **made, evaluators=[Toy(judged=True)])
    assert (problem["kind"], problem["severity"], problem["fault"]) == ("judge_noise", "low", "instrument")
    assert "not told from the judge's noise" in problem["description"]
    assert problem["attrs"]["net_low"] <= 0 < problem["attrs"]["net_high"]


def test_a_steady_judge_confirms_that_answers_turned(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 20, [GOOD] * 8 + [BAD] * 12))
    made["scores"] += [Given(g.case, "a", g.value, trial=1) for g in made["scores"]]
    (problem,) = flips(tmp_path, **made, evaluators=[Toy(judged=True)])
    assert (problem["kind"], problem["severity"]) == ("flips", "high")
    assert problem["attrs"]["n_confirmed"] == 12
    assert "12 of those that turned bad are confirmed by every trial." in problem["description"]


def test_where_no_row_was_judged_again_the_judges_noise_is_said_to_be_unmeasured(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 20, [GOOD] * 8 + [BAD] * 12))
    (problem,) = flips(tmp_path, **made, evaluators=[Toy(judged=True)])
    assert "was not measured (--trials 2 --trial-rows auto does)" in problem["description"]
    assert problem["severity"] == "high"  # noise turns as many good as bad, and none turned good


def test_as_many_as_turned_good_may_have_turned_bad_by_noise_that_was_not_measured(tmp_path: Path) -> None:
    made = pairs(("typo", [GOOD] * 60 + [BAD] * 20, [GOOD] * 30 + [BAD] * 30 + [GOOD] * 10 + [BAD] * 10))
    (problem,) = flips(tmp_path / "judged", **made, evaluators=[Toy(judged=True)])
    assert problem["severity"] == "medium"
    (problem,) = flips(tmp_path / "steady", **made)
    assert problem["severity"] == "high"
