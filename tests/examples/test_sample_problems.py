"""The problems of the sample dataset under the default policy: few, the planted leaks first, and each cause once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.golden.record import sample_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sample_run(tmp_path_factory.mktemp("sample"), "default")["problems"]
    return found


def test_the_planted_leaks_are_the_first_three_problems(problems: list[dict[str, Any]]) -> None:
    assert len(problems) <= 20
    first = {(one["attrs"]["model_key"], *one["attrs"]["test_case_keys"]) for one in problems[:3]}
    assert first == {
        ("gullwing-mini", "secret-refund"),
        ("gullwing-mini", "secret-tide-api"),
        ("aldermouth-rag-v1", "secret-roster"),
    }
    assert {one["severity"] for one in problems[:3]} == {"high"}


def test_no_problem_is_an_improvement(problems: list[dict[str, Any]]) -> None:
    flips = [one["attrs"] for one in problems if one["type"] == "robustness"]
    assert flips
    assert all(one["n_passed_to_failed"] > one["n_failed_to_passed"] for one in flips)


def test_no_evaluator_reports_the_same_rows_of_a_model_twice(problems: list[dict[str, Any]]) -> None:
    named = Counter(
        (one["attrs"].get("model_key"), one["attrs"].get("evaluator_id"), *one["attrs"].get("test_case_keys", ()))
        for one in problems
        if one["attrs"].get("test_case_keys")
    )
    assert max(named.values()) == 1


def test_wrong_answers_have_a_root_cause(problems: list[dict[str, Any]]) -> None:
    (wrong,) = [
        one["attrs"]
        for one in problems
        if (one["attrs"].get("evaluator_id"), one["attrs"].get("model_key")) == ("text_matching", "gullwing-mini")
    ]
    known = sum(n for cause, n in wrong["root_causes"].items() if cause != "unknown")
    assert known >= 0.8 * wrong["n_failed"]
