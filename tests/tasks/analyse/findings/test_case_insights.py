"""Insights on cases and checks: hard, easy, contradictory and equal cases, checks at odds, slices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.evaluators.core import Metric
from tests.support.stores.problem_factory import Needs
from tests.support.stores.run_factory import Basis, Given, Toy, answer
from tests.support.stores.scoring import registered
from tests.tasks.analyse.findings.test_model_choice import insights, of_type


def test_cases_that_every_model_fails_are_named_and_the_reference_is_suspected_where_answers_agree(
    tmp_path: Path,
) -> None:
    rows = [
        answer(f"c{i}", m, expected=["x"], answer="It is 5.4 metres" if i == 1 else f"{m}{i}")
        for i in range(6)
        for m in "ab"
    ]
    scores = [Given(f"c{i}", m, 0.1 if i < 2 or (i == 2 and m == "a") else 0.9) for i in range(6) for m in "ab"]
    (hard,) = of_type(insights(tmp_path, rows=rows, scores=scores), "weak-point")
    assert hard["description"] == (
        'Every model fails the same check on 2 cases, such as "What is c1?". On one of them the models give nearly the '
        "same answer, and it is not the expected one."
    )
    assert hard["attrs"]["test_case_keys"] == ["c1", "c0"]


def test_a_case_that_one_model_passes_or_only_one_model_answered_is_not_failed_by_all(tmp_path: Path) -> None:
    rows = [answer("c0", "a"), answer("c0", "b"), answer("c1", "a")]
    scores = [Given("c0", "a", 0.1), Given("c0", "b", 0.9), Given("c1", "a", 0.1)]
    assert of_type(insights(tmp_path, rows=rows, scores=scores), "weak-point") == []


def test_cases_that_every_model_passes_are_counted(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", m) for i in range(20) for m in "ab"]
    scores = [Given(f"c{i}", m, 0.9 if i < 15 or m == "a" else 0.1) for i in range(20) for m in "ab"]
    (easy,) = of_type(insights(tmp_path, rows=rows, scores=scores), "easy-cases")
    assert easy["description"].startswith("15 of 20 cases (75 %) are passed by every model on every check")
    assert len(easy["row_ids"]) == 15


def test_questions_asked_twice_are_contradictions_or_duplicates(tmp_path: Path) -> None:
    rows = [
        answer("c0", "a", question="How deep is it?", expected=["5 m"]),
        answer("c1", "a", question="how  deep is it? ", expected=["6 m"]),
        answer("c2", "a", question="Who?", expected=["Ann"]),
        answer("c3", "a", question="Who?", expected=["ann"]),
        answer("c4", "a", question="What is the total?", expected=["1"], context=["bill one"]),
        answer("c5", "a", question="What is the total?", expected=["2"], context=["bill two"]),
    ]
    found = insights(tmp_path, rows=rows, scores=[Given(row["case"], "a", 0.9) for row in rows])
    (contradiction,) = of_type(found, "contradiction")
    assert (
        '1 question stands in several cases (2 in all) with different expected answers: "How deep is it?"'
        in (contradiction["description"])
    )
    assert contradiction["attrs"]["test_case_keys"] == ["c0", "c1"]
    (same,) = of_type(found, "duplicates")
    assert same["attrs"]["test_case_keys"] == ["c2", "c3"]


class Second(Needs):
    spec = replace(Needs.spec, id="second")


def test_two_checks_of_the_same_thing_that_contradict_each_other_are_named_with_their_kappa(tmp_path: Path) -> None:
    other = Metric("other", "Other", True, threshold=0.75, primary=True)
    rows = [answer(f"c{i}", "a", expected=["x"], context=["y"]) for i in range(40)]
    scores = [Given(f"c{i}", "a", 0.9 if i % 2 else 0.1, evaluator=Needs.spec.id) for i in range(40)]
    scores += [Given(f"c{i}", "a", 0.9 if i % 3 else 0.1, "other", "second") for i in range(40)]
    toys: list[Any] = [Toy(Needs.spec.id), Toy("second", metrics=[other])]
    with registered(Needs, Second):
        (odd,) = of_type(insights(tmp_path, rows=rows, scores=scores, evaluators=toys), "disagreement")
    assert "contradict each other on 50 % of 40 answers: 13 pass only Second, 7 only Test.Needs" in odd["description"]
    assert odd["attrs"]["kappa"] < 0.1
    assert len(odd["row_ids"]) == 13


def test_a_check_that_always_says_the_same_has_no_correlation_with_another(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a", expected=["x"], context=["y"]) for i in range(40)]
    scores = [Given(f"c{i}", "a", 0.9 if i % 2 else 0.1, evaluator=Needs.spec.id) for i in range(40)]
    scores += [Given(f"c{i}", "a", 1.0, evaluator="second") for i in range(40)]
    with registered(Needs, Second):
        found = insights(tmp_path, rows=rows, scores=scores, evaluators=[Toy(Needs.spec.id), Toy("second")])
    (odd,) = of_type(found, "disagreement")
    assert odd["attrs"]["correlation"] is None
    assert "correlation" not in odd["description"]


def test_the_least_grounded_sentence_of_all_models_is_shown_if_it_misses_the_threshold(tmp_path: Path) -> None:
    def basis(case: str, model: str, value: float) -> Basis:
        told = {"sentence": f"Of {case}.", "start": 0, "end": 3, "value": value, "closest": "Near it."}
        return Basis(case, model, evidence={"data": {"least_grounded": told}})

    rows = [answer(case, model) for case in ("c0", "c1") for model in "ab"]
    made = {"rows": rows, "scores": [Given(row["case"], row["model"], 0.9) for row in rows]}
    found = insights(tmp_path / "1", evidence=[basis("c0", "a", 0.4), basis("c1", "b", 0.2)], **made)
    (sentence,) = of_type(found, "grounding")
    assert '"Of c1."' in sentence["description"]
    assert sentence["attrs"]["model_name"] == "b"
    assert of_type(insights(tmp_path / "2", evidence=[basis("c0", "a", 0.8)], **made), "grounding") == []


def test_slices_that_are_better_or_follow_the_retrieval_are_insights(tmp_path: Path) -> None:
    rows = [
        answer(f"c{i}", "a", categories=[("tides", "dues", "waste")[i % 3]], documents=["d"],
               context=[["text", "d" if i % 2 else "e"]])
        for i in range(80)
    ]  # fmt: skip
    by_category = [Given(f"c{i}", "a", 0.95 if i % 3 == 0 else 0.8 + i % 7 / 100) for i in range(80)]
    (better,) = of_type(insights(tmp_path / "1", rows=rows, scores=by_category), "slice")
    assert better["description"].startswith("a does better on rows of category tides: Value 0.95")
    by_retrieval = [Given(f"c{i}", "a", (0.9 if i % 2 else 0.3) + i % 7 / 100) for i in range(80)]
    (worse,) = of_type(insights(tmp_path / "2", rows=rows, scores=by_retrieval), "slice")
    assert "answers whose expected document was" in worse["description"]
    assert worse["actions"].startswith("Improve the retrieval first")


def test_a_run_without_scores_has_no_insights(tmp_path: Path) -> None:
    assert insights(tmp_path / "1", rows=[answer("c", "a")]) == []
    assert insights(tmp_path / "2", rows=[answer("c", "a")], evaluators=[]) == []
