"""Regressions: what a model did right in the baseline and does wrong now is one problem per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.compare.run_changes import find_changes
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Role, Rule
from leadline.tasks.store.store import Store
from tests.support.stores.problem_factory import GROUPED, SEED
from tests.support.stores.run_factory import Toy, table
from tests.tasks.compare.two_runs import SHARE, cases, completed


def regressions(
    root: Path, before: Sequence[float], after: Sequence[float], *, role: Role = Role.SHOULD, **more: Any
) -> list[dict[str, Any]]:
    """Return the regressions of a model whose rows passed (1) or failed (0) as given."""
    toys = (Toy(metrics=(SHARE,), rule=Rule(role=role)),)
    for part, line in enumerate((before, after)):
        rows = cases(len(line), answer=f"Answer {part}.")
        run = completed(root, {"m": line}, metric=SHARE, rows=rows, evaluators=toys, record={"identities": {"toy": 1}})
    store = Store.open(root / "store")
    find_changes(store, run, "previous")
    with open_run(store, run) as connection:
        find_problems(connection, more.get("policy", GROUPED))
        return table(connection, "problems", kind="regression")


def test_a_model_that_is_surely_worse_is_one_problem_of_high_severity_that_names_its_cases(tmp_path: Path) -> None:
    (problem,) = regressions(tmp_path, [1] * 60, [0] * 20 + [1] * 40)
    assert (problem["severity"], problem["fault"], problem["harm"]) == ("high", "model", 20 / 60)
    assert "m is worse than in run " in problem["description"]
    assert "20 of 60 answers of m passed in run " in problem["description"]
    assert "(Toy 20): c000, c001, c002 and 17 more." in problem["description"]
    assert problem["attrs"]["test_case_keys"][:2] == ["c000", "c001"]
    assert (problem["attrs"]["n_broken"], problem["attrs"]["worse_metrics"]) == (20, ["toy.passes"])


def test_broken_answers_that_may_be_chance_are_less_severe(tmp_path: Path) -> None:
    (more_broken,) = regressions(tmp_path / "a", [1] * 30, [0, 0, *[1] * 28])
    assert more_broken["severity"] == "medium"
    (more_fixed,) = regressions(tmp_path / "b", [1, 0, 0, 0, *[1] * 26], [0, *[1] * 29])
    assert more_fixed["severity"] == "low"


def test_improvements_information_and_the_policy_sonar_give_none(tmp_path: Path) -> None:
    assert regressions(tmp_path / "a", [0] * 20, [1] * 20) == []
    assert regressions(tmp_path / "b", [1] * 20, [0] * 20, role=Role.INFORMATION) == []
    assert regressions(tmp_path / "c", [1] * 20, [0] * 20, policy=SEED) == []
