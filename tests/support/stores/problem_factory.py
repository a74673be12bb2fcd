"""The problems of tiny runs, and what all the tests of them need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.evaluators.core import EvalContext, RowEvaluator, Spec
from leadline.evaluators.data import Row, RowField, RowScore
from leadline.tasks.analyse.aggregate import aggregate, measure_trials
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.flips import find_flips
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Policy
from tests.support.stores.run_factory import VALUE, Given, answer, make_run, table
from tests.support.stores.scoring import registered

SEED = Policy("sonar", problems="seed")
GROUPED = Policy("default")


class Needs(RowEvaluator):
    """Needs an expected answer, a context and an answer."""

    spec = Spec(
        id="test.needs",
        name="Needs",
        family="classification",
        inputs=(RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(VALUE,),
        problem_type="classification",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        raise AssertionError("not asked for")


def problems(folder: Path, *, policy: Policy = SEED, **made: Any) -> list[dict[str, Any]]:
    """Make a run (see :func:`.make_run`), and return what its search for problems finds."""
    made.setdefault("rows", [answer(g.case, g.model) for g in made.get("scores", ())])
    made["rows"] = list({(row["case"], row["model"]): row for row in made["rows"]}.values())
    store, run = make_run(folder, **made)
    with registered(Needs), open_run(store, run) as connection:
        aggregate(connection)
        measure_trials(connection)
        find_slices(connection)
        find_flips(connection)
        counted = find_problems(connection, policy)
        found = table(connection, "problems")
        assert find_problems(connection, policy) == counted, "a second look finds the same"
        assert table(connection, "problems") == found
    assert sum(counted.values()) == len(found)
    assert [counted[s] for s in ("high", "medium", "low")] == [
        sum(problem["severity"] == s for problem in found) for s in ("high", "medium", "low")
    ]
    assert [p["problem_id"] for p in found] == list(range(len(found)))
    assert all(problem["actions"] and problem["description"] for problem in found)
    return found


def of_type(found: Sequence[dict[str, Any]], type_: str, words: str = "") -> list[dict[str, Any]]:
    """Return those of a type whose descriptions have the words."""
    return [problem for problem in found if problem["type"] == type_ and words in problem["description"]]


def even(n: int, value: float, model: str = "a", **more: Any) -> list[Given]:
    """Return n scores around a value."""
    return [Given(f"c{i}", model, value + (0.01 if i % 2 else -0.01), **more) for i in range(n)]
