"""Which model to choose: by the policy's checks, and against cost and time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Policy, Role, Rule
from tests.support.stores.run_factory import Given, Toy, answer, make_run, table

POLICY = Policy("default")


def insights(folder: Path, **made: Any) -> list[dict[str, Any]]:
    store, run = make_run(folder, **made)
    with open_run(store, run) as connection:
        aggregate(connection)
        find_slices(connection)
        find_problems(connection, POLICY)
        find_insights(connection, POLICY)
        found = table(connection, "insights")
        find_insights(connection, POLICY)
        assert table(connection, "insights") == found, "a second look finds the same"
    assert all(insight["description"] and insight["actions"] for insight in found)
    assert len(found) <= 12
    return found


def of_type(found: Sequence[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [insight for insight in found if insight["type"] == type_]


def models(folder: Path, good: dict[str, int], *, n: int = 60, role: Role = Role.SHOULD, **spent: Any) -> list[Any]:
    """Return the insights of models of which each passes its first so many of n cases; the threshold is lenient."""
    rows = [answer(f"c{i}", m, **{name: values[m] for name, values in spent.items()}) for m in good for i in range(n)]
    scores = [Given(f"c{i}", m, 1.0 if i < good[m] else 0.6) for m in good for i in range(n)]
    toy = Toy(rule=Rule(role=role))
    return insights(folder, rows=rows, scores=scores, evaluators=[toy])


def test_the_best_model_is_recommended_in_one_sentence_before_all_else(tmp_path: Path) -> None:
    found = models(tmp_path, {"a": 40, "b": 58})
    assert found[0]["type"] == "recommendation"
    assert found[0]["description"].startswith(
        "Ship b: 96.7 % of its answers pass every check of the policy (60 answers, 95 % interval "
    )
    assert found[0]["description"].endswith("), surely more than of a (66.7 %).")
    assert found[0]["attrs"]["candidates"] == ["b"]
    assert found[0]["row_ids"] == [118, 119]


def test_models_that_chance_could_have_ordered_are_a_choice_by_other_needs(tmp_path: Path) -> None:
    (choice,) = of_type(models(tmp_path, {"a": 56, "b": 57, "c": 20}), "recommendation")
    assert choice["description"] == (
        "Choose between b and a by other needs: 95 % and 93.3 % of their answers pass every check of the policy, "
        "a difference that may be chance, surely more than of c (33.3 %)."
    )
    assert choice["model_id"] is None
    (all_alike,) = of_type(models(tmp_path / "2", {"a": 56, "b": 57, "c": 56}), "recommendation")
    assert all_alike["description"].startswith("Choose between all 3 models by other needs: 93.3 % to 95 %")
    (equal,) = of_type(models(tmp_path / "3", {"a": 60, "b": 60, "c": 60}), "recommendation")
    assert equal["description"].endswith("by other needs: 100 % of their answers pass every check of the policy.")


def test_a_model_with_problems_of_high_severity_is_not_recommended(tmp_path: Path) -> None:
    (choice,) = of_type(models(tmp_path / "1", {"a": 59, "b": 60}, role=Role.MUST), "recommendation")
    assert choice["description"].startswith("Ship b: 100 % of its answers pass")
    assert choice["description"].endswith("; a has problems of high severity.")
    (none,) = of_type(models(tmp_path / "2", {"a": 20, "b": 55}, role=Role.MUST), "recommendation")
    assert none["description"].startswith("None is ready to ship; b comes nearest: 91.7 %")
    assert none["description"].endswith("; both have problems of high severity.")


def test_one_model_or_no_metric_that_counts_gives_no_recommendation(tmp_path: Path) -> None:
    assert of_type(models(tmp_path / "1", {"a": 40}), "recommendation") == []
    assert of_type(models(tmp_path / "2", {"a": 40, "b": 9}, role=Role.INFORMATION), "recommendation") == []


def test_a_trade_off_names_the_models_on_the_front_and_what_the_best_one_costs(tmp_path: Path) -> None:
    cost = {"a": 0.0001, "b": 0.002, "c": 0.003}
    (trade,) = of_type(models(tmp_path, {"a": 20, "b": 58, "c": 50}, cost_usd=cost), "trade-off")
    assert trade["attrs"]["front"] == ["a", "b"]
    assert "a (33.3 %, 95 % interval" in trade["description"]
    assert "2 USD per 1,000 answers" in trade["description"]
    assert "b has 63 points more than a for 20 times as much." in trade["description"]
    assert "Another is at least as good and cheaper than c." in trade["description"]
    assert [point["model_name"] for point in trade["attrs"]["points"]] == ["a", "b", "c"]
    assert trade["row_ids"]


def test_a_dearer_model_that_is_not_surely_better_is_said_not_to_be(tmp_path: Path) -> None:
    (trade,) = of_type(models(tmp_path, {"a": 56, "b": 57}, duration_s={"a": 1.0, "b": 3.0}), "trade-off")
    assert "b takes 3 times as much as a and is not surely better." in trade["description"]
    (choice,) = of_type(models(tmp_path / "2", {"a": 56, "b": 57}, duration_s={"a": 1.0, "b": 3.0}), "recommendation")
    assert choice["description"].endswith("a difference that may be chance; a is the faster of them.")


def test_a_model_that_is_best_and_cheapest_leaves_nothing_to_trade(tmp_path: Path) -> None:
    (trade,) = of_type(models(tmp_path / "1", {"a": 58, "b": 30}, cost_usd={"a": 0.1, "b": 0.2}), "trade-off")
    assert "passes every check most often and is cheaper than all others" in trade["description"]
    equal = models(tmp_path / "2", {"a": 58, "b": 30}, cost_usd={"a": 0.1, "b": 0.1})
    assert of_type(equal, "trade-off") == of_type(equal, "cost") == []


def test_the_slowest_and_the_dearest_model_link_to_their_longest_answers(tmp_path: Path) -> None:
    rows = [
        answer(f"c{i}", m, duration_s=(9.0 if i == 3 else 1.0) * (m == "a" or 0.5)) for m in "ab" for i in range(30)
    ]
    found = insights(tmp_path, rows=rows, scores=[Given(row["case"], row["model"], 1.0) for row in rows])
    (slow,) = of_type(found, "performance")
    assert slow["description"].startswith("a is the slowest model: 1.27 s per answer on average, against 0.633 s")
    assert "nearly all of its answers stay within 1 s per answer" in slow["description"]
    assert slow["row_ids"][0] == 3


def test_an_absurd_time_does_not_stop_the_insights(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a", duration_s=1.0 if i % 10 else 1e300) for i in range(40)]
    found = insights(tmp_path, rows=rows, scores=[Given(f"c{i}", "a", 0.9) for i in range(40)])
    assert of_type(found, "performance")
