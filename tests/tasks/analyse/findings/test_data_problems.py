"""Problems of the dataset: inputs that rows lack, errors of the models' hosts, odd costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.stores.problem_factory import GROUPED, of_type, problems
from tests.support.stores.run_factory import Given, Toy, answer

NEEDS = [Toy("test.needs")]


def needs(case: str, model: str = "a", **fields: Any) -> dict[str, Any]:
    return answer(case, model, **{"expected": ["x"], "context": ["x"]} | fields)


def test_an_input_that_no_row_has_is_a_high_problem_that_names_the_evaluators(tmp_path: Path) -> None:
    rows = [needs(f"c{i}", expected=[]) for i in range(3)]
    scores = [Given(f"c{i}", "a", "", evaluator="test.needs") for i in range(3)]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("high", "dataset", True)
    assert problem["description"].startswith("No row has an expected answer: Test.Needs had nothing to measure.")
    assert problem["attrs"]["field"] == "expected_answer"


def test_an_input_that_some_rows_lack_is_counted_in_rows_and_cases(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", expected=[]), needs("c2"), needs("c2", "b")]
    scores = [Given(row["case"], row["model"], 0.9, evaluator="test.needs") for row in rows if row["case"] != "c1"]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert problem["severity"] == "medium"
    assert "1 of 4 rows (1 test case) have no expected answer" in problem["description"]
    assert problem["attrs"]["test_case_keys"] == ["c1"]


def test_a_plain_language_model_lacks_no_context_beside_rag_systems(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c0", "plain", context=[])]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c0", "plain", "", evaluator="test.needs")]
    assert problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS) == []


def test_a_rag_system_with_some_empty_contexts_does(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", context=[])]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c1", "a", "", evaluator="test.needs")]
    (problem,) = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert "1 of 2 rows (1 test case) have no retrieved context" in problem["description"]


def test_contexts_are_only_noted_where_no_model_is_a_rag_system(tmp_path: Path) -> None:
    rows = [needs("c0", context=[])]
    (problem,) = problems(tmp_path, rows=rows, scores=[Given("c0", "a", "", evaluator="test.needs")], evaluators=NEEDS)
    assert problem["severity"] == "low"


@pytest.mark.parametrize(
    ("evaluator", "params", "lacking"),
    [
        ("text_matching", {}, {"condition"}),
        ("text_matching", {"default_to_expected_answer": True}, set()),
        ("text_matching#mine", {"default_to_expected_answer": True}, set()),
        ("text_matching", {"a parameter": "of another version"}, {"condition"}),
        ("byop", {"prompt_template": "Is {ACTUAL_OUTPUT} polite? true or false"}, set()),
        ("byop", {"prompt_template": "Does {ACTUAL_OUTPUT} follow from {CONTEXT}?"}, {"retrieved_context"}),
        ("databricks.custom", {"judge_prompt": "Is {response} polite?"}, set()),
        ("databricks.custom", {"judge_prompt": "Does {response} answer {request}?"}, {"question"}),
        ("summarization_judge", {}, {"question"}),
    ],
)
def test_an_input_that_the_runs_parameters_make_needless_is_not_missed(
    tmp_path: Path, evaluator: str, params: dict[str, Any], lacking: set[str]
) -> None:
    rows = [answer(f"c{i}", "a", question=None) for i in range(2)]
    scores = [Given(f"c{i}", "a", "" if lacking else 0.9, evaluator=evaluator) for i in range(2)]
    found = problems(tmp_path, rows=rows, scores=scores, evaluators=[Toy(evaluator, params=params)])
    assert {problem["attrs"]["field"] for problem in of_type(found, "dataset")} == lacking


def test_an_evaluator_that_nothing_fits_names_what_the_runs_parameters_need(tmp_path: Path) -> None:
    rows = [answer("c0", "a", answer=None, context=["x"]), answer("c1", "a")]
    toy = Toy("byop", params={"prompt_template": "Does {ACTUAL_OUTPUT} follow from {CONTEXT}?"})
    scores = [Given(f"c{i}", "a", "", evaluator="byop") for i in range(2)]
    (problem,) = of_type(problems(tmp_path, rows=rows, scores=scores, evaluators=[toy]), "dataset", "measured nothing")
    assert set(problem["attrs"]["fields"]) == {"actual_answer", "retrieved_context"}


def test_missing_answers_are_told_apart_from_host_errors(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c1", answer=None), needs("c2", answer=None, error="429 Too Many Requests")]
    scores = [Given("c0", "a", 0.9, evaluator="test.needs"), Given("c1", "a", "", evaluator="test.needs"),
              Given("c2", "a", "host_error", evaluator="test.needs")]  # fmt: skip
    found = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    assert len(found) == 2
    (missing,) = of_type(found, "dataset", "have no actual answer")
    (host,) = of_type(found, "dataset", "error of its host")
    assert missing["attrs"]["n_missing"] == 1
    assert "1 of 3 rows of model a" in host["description"]
    assert "429 Too Many Requests" in host["description"]
    assert (host["severity"], host["instrument"]) == ("high", True)


def test_an_evaluator_that_no_row_fits_for_mixed_reasons_is_told(tmp_path: Path) -> None:
    rows = [needs("c0", expected=[]), needs("c1", context=[])]
    scores = [Given(f"c{i}", "a", "", evaluator="test.needs") for i in range(2)]
    found = problems(tmp_path, rows=rows, scores=scores, evaluators=NEEDS)
    (problem,) = of_type(found, "dataset", "no row has all it needs")
    assert "(expected answer, retrieved context and actual answer)" in problem["description"]


def test_inputs_that_only_some_rows_lack_are_one_note_under_a_policy_that_groups(tmp_path: Path) -> None:
    rows = [*(needs(f"c{i}") for i in range(8)), needs("c8", expected=[]), needs("c9", expected=[], context=[])]
    scores = [Given(row["case"], "a", 0.9, evaluator="test.needs") for row in rows[:8]]
    found = problems(tmp_path, policy=GROUPED, rows=rows, scores=scores, evaluators=NEEDS)
    (problem,) = of_type(found, "dataset")
    assert (problem["kind"], problem["severity"], problem["fault"]) == ("missing_input", "low", "data")
    assert "expected answer 2 of 10 rows and retrieved context 1 of 10 rows" in problem["description"]
    assert problem["attrs"]["test_case_keys"] == ["c8", "c9"]


@pytest.mark.parametrize(("lost", "severity"), [(1, "low"), (2, "medium"), (5, "high")])
def test_host_errors_weigh_as_much_as_the_coverage_that_is_lost(tmp_path: Path, lost: int, severity: str) -> None:
    rows = [answer(f"c{i}", "a", **({"answer": None, "error": "504"} if i < lost else {})) for i in range(20)]
    scores = [Given(f"c{i}", "a", "host_error" if i < lost else 0.9) for i in range(20)]
    found = problems(tmp_path, policy=GROUPED, rows=rows, scores=scores)
    (problem,) = [one for one in found if one["kind"] == "host_errors"]
    assert problem["severity"] == severity
    assert f"{lost} of 20 rows of model a {'has' if lost == 1 else 'have'} an error" in problem["description"]


def test_negative_costs_are_noted_once_by_model(tmp_path: Path) -> None:
    rows = [answer("c0", "a", cost_usd=-0.5), answer("c1", "a", cost_usd=0.1), answer("c0", "b", cost_usd=0.0)]
    scores = [Given(row["case"], row["model"], 0.9) for row in rows]
    (problem,) = problems(tmp_path, rows=rows, scores=scores)
    assert (problem["severity"], problem["type"], problem["instrument"]) == ("low", "cost", True)
    assert problem["attrs"]["cost"] == -0.5


def test_models_that_took_no_part_have_no_problems(tmp_path: Path) -> None:
    rows = [needs("c0"), needs("c0", "idle", expected=[], cost_usd=-1.0, error="boom", answer=None)]
    assert problems(tmp_path, rows=rows, scores=[Given("c0", "a", 0.9, evaluator="test.needs")], evaluators=NEEDS) == []
