"""Judges that compare answers: a preferred place is a fault of the instrument, and the preferred model an insight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.evaluators.data import PairOutcome, Preferred, outcome, to_payload
from leadline.evaluators.pairwise.preference import Preference
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.db import open_run
from tests.support.stores.problem_factory import GROUPED
from tests.support.stores.run_factory import Basis, Given, Toy, answer, make_run, table

ID = "pairwise.preference"
Verdicts = tuple[Preferred, Preferred]
WON: Verdicts = ("first", "second")
LOST: Verdicts = ("second", "first")
TIED: Verdicts = ("tie", "tie")
BIASED: Verdicts = ("first", "first")


def found(folder: Path, verdicts: Sequence[Verdicts], name: str = ID) -> tuple[list[dict[str, Any]], ...]:
    """Return problems, insights and aggregates of a run in which models a and b were compared case by case."""
    scores, evidence = [], []
    for case, (as_first, as_second) in enumerate(verdicts):
        for model, mine in (
            ("a", outcome("b", as_first, as_second)),
            ("b", outcome("a", as_second, as_first)),
        ):
            scores += _scores(f"c{case}", model, mine, name)
            evidence.append(Basis(f"c{case}", model, name, payload=to_payload([mine])))
    store, run = make_run(
        folder,
        rows=[answer(f"c{case}", model) for case in range(len(verdicts)) for model in "ab"],
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


def test_a_lead_that_may_be_chance_is_called_so(tmp_path: Path) -> None:
    _, (insight,), _ = found(tmp_path, [WON] * 11 + [LOST] * 9, f"{ID}#strict")
    assert "Chance could have put it before b" in insight["description"]
    assert "Add cases" in insight["actions"]
