"""Every kind of insight in the seed's style: what triggers it, what does not, and how sure it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import Metric
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.insights import find_insights
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Policy
from tests.support.stores.run_factory import BOARD, VALUE, Basis, Given, Toy, answer, board_scores, make_run, table

BOOL = Toy(metrics=BOARD, leaderboard="bool")


POLICY = Policy("sonar", problems="seed")


def insights(folder: Path, **made: Any) -> list[dict[str, Any]]:
    made.setdefault("rows", [answer(g.case, g.model) for g in made.get("scores", ())])
    made["rows"] = list({(row["case"], row["model"]): row for row in made["rows"]}.values())
    store, run = make_run(folder, **made)
    with open_run(store, run) as connection:
        aggregate(connection)
        number = find_insights(connection, POLICY)
        found = table(connection, "insights")
        assert find_insights(connection, POLICY) == number == len(found)
        assert table(connection, "insights") == found
    assert [insight["type"] for insight in found] == sorted(insight["type"] for insight in found)
    assert all(insight["actions"] for insight in found)
    return found


def of_type(found: Sequence[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [insight for insight in found if insight["type"] == type_]


def scores(model: str, values: Sequence[float], metric: str = "value") -> list[Given]:
    return [Given(f"c{i}", model, value, metric) for i, value in enumerate(values)]


# Best and worst


def test_best_and_worst_models_are_named_with_their_values(tmp_path: Path) -> None:
    made = scores("a", [0.8, 0.9] * 10) + scores("b", [0.5, 0.6] * 10) + scores("c", [0.2, 0.3] * 10)
    best, worst = of_type(insights(tmp_path, scores=made), "accuracy")
    assert best["description"].startswith("a is the best by Toy: Value 0.85 (95 % interval")
    assert "20 rows" in best["description"]
    assert "more than chance at 95 %" in best["description"]
    assert worst["description"].startswith("c is the worst by Toy: Value 0.25")
    assert best["attrs"]["scores"] == pytest.approx({"a": 0.85, "b": 0.55, "c": 0.25})
    assert list(best["attrs"]["scores"]) == ["a", "b", "c"]
    assert (best["model_id"], worst["model_id"]) == (0, 2)


def test_models_that_chance_could_have_ordered_are_called_alike(tmp_path: Path) -> None:
    draw = random.Random(4)
    made = [g for model in "ab" for g in scores(model, [draw.random() for _ in range(30)])]
    best, _ = of_type(insights(tmp_path, scores=made), "accuracy")
    assert "Not distinguishable from" in best["description"]
    assert best["attrs"]["not_distinguishable_from"]
    assert "Add test cases" in best["actions"]


def test_models_that_are_all_alike_are_said_to_be_so_briefly(tmp_path: Path) -> None:
    draw = random.Random(4)
    made = [g for model in "abcd" for g in scores(model, [draw.random() for _ in range(30)])]
    best, worst = of_type(insights(tmp_path, scores=made), "accuracy")
    for insight in (best, worst):
        assert "Not distinguishable from any other model at 95 %." in insight["description"]
        assert len(insight["attrs"]["not_distinguishable_from"]) == 3


def test_a_small_steady_difference_on_the_same_cases_is_seen_though_intervals_overlap(tmp_path: Path) -> None:
    values = [i / 30 for i in range(30)]
    made = scores("a", [v * 0.9 + 0.05 + (i % 3) / 100 for i, v in enumerate(values)])
    made += scores("b", [v * 0.9 for v in values])
    best, _ = of_type(insights(tmp_path, scores=made), "accuracy")
    assert "more than chance" in best["description"]


def test_perturbed_copies_do_not_make_a_difference_certain(tmp_path: Path) -> None:
    ours, theirs = [0.9, 0.3, 0.8, 0.4], [0.5, 0.35, 0.6, 0.45]
    rows = [answer(f"c{i}", m) for i in range(4) for m in "ab"]
    rows += [answer(f"p{j}-{i}", m, original=f"c{i}") for i in range(4) for j in range(20) for m in "ab"]
    made = [
        Given(row["case"], row["model"], (ours if row["model"] == "a" else theirs)[int(row["case"][-1])])
        for row in rows
    ]
    best, _ = of_type(insights(tmp_path, rows=rows, scores=made), "accuracy")
    assert "Not distinguishable from b" in best["description"]


def test_one_model_or_a_tie_says_nothing(tmp_path: Path) -> None:
    assert of_type(insights(tmp_path / "1", scores=scores("a", [0.8, 0.9])), "accuracy") == []
    tie = scores("a", [0.8, 0.9]) + scores("b", [0.9, 0.8])
    assert of_type(insights(tmp_path / "2", scores=tie), "accuracy") == []


def test_models_that_share_the_best_value_are_named_together(tmp_path: Path) -> None:
    made = scores("a", [1.0] * 8) + scores("b", [1.0] * 8) + scores("c", [0.0] * 8)
    best, worst = of_type(insights(tmp_path, scores=made), "accuracy")
    assert best["description"].startswith("a and b are equally best by Toy: Value 1")
    assert best["model_id"] is None
    assert worst["model_id"] == 2


def test_a_board_names_the_most_and_the_least_accurate_of_its_primary_metric_only(tmp_path: Path) -> None:
    made = [
        g
        for i in range(10)
        for m, bad in (("a", i < 1), ("b", i < 8))
        for g in board_scores(f"c{i}", m, generation=bad)
    ]
    most, least = of_type(insights(tmp_path, scores=made, evaluators=[BOOL]), "accuracy")
    assert most["description"].startswith("a is the most accurate by Toy: Passes 0.9")
    assert least["description"].startswith("b is the least accurate by Toy: Passes 0.2")


def test_metrics_that_agree_are_told_together_and_lower_can_be_better(tmp_path: Path) -> None:
    metrics = (
        VALUE,
        Metric("second", "Second", higher_is_better=True),
        Metric("third", "Third", higher_is_better=False),
    )
    made = []
    for key, ours, theirs in (("value", 0.9, 0.1), ("second", 0.8, 0.2), ("third", 0.7, 0.3)):
        made += scores("a", [ours] * 9, key) + scores("b", [theirs] * 9, key)
    found = of_type(insights(tmp_path, scores=made, evaluators=[Toy(metrics=metrics)]), "accuracy")
    told = {(one["attrs"]["kind"], one["attrs"]["model_name"]): one["attrs"]["metric_ids"] for one in found}
    assert told == {
        ("best", "a"): ["value", "second"],
        ("best", "b"): ["third"],
        ("worst", "b"): ["value", "second"],
        ("worst", "a"): ["third"],
    }
    assert "Likewise by Second." in found[0]["description"]


# Retrieval, time, cost


def test_best_and_worst_retrieval_of_rag_systems(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", m, context=["x"] if m != "plain" else []) for i in range(4) for m in ("a", "b", "plain")]
    made = [
        g
        for row in rows
        for g in board_scores(row["case"], row["model"], generation=False, retrieval=row["model"] == "b")
    ]
    best, worst = of_type(insights(tmp_path / "1", rows=rows, scores=made, evaluators=[BOOL]), "retrieval")
    assert best["description"].startswith("a retrieved the best contexts by Toy: Retrieval failures 0")
    assert worst["attrs"]["model_name"] == "b"
    equal = [g for row in rows for g in board_scores(row["case"], row["model"], generation=False)]
    assert of_type(insights(tmp_path / "2", rows=rows, scores=equal, evaluators=[BOOL]), "retrieval") == []


def test_retrieval_that_chance_could_have_ordered_is_called_alike(tmp_path: Path) -> None:
    def compared(folder: Path, failures: int) -> list[dict[str, Any]]:
        rows = [answer(f"c{i}", m, context=["x"]) for i in range(40) for m in "ab"]
        made = [
            g
            for i in range(40)
            for m in "ab"
            for g in board_scores(f"c{i}", m, generation=False, retrieval=m == "b" and i < failures)
        ]
        return of_type(insights(folder, rows=rows, scores=made, evaluators=[BOOL]), "retrieval")

    for insight, other in zip(compared(tmp_path / "1", 1), "ba", strict=True):
        assert f"Not distinguishable from {other} at 95 %." in insight["description"]
        assert insight["attrs"]["not_distinguishable_from"] == [other]
        assert "Add test cases" in insight["actions"]
    best, worst = compared(tmp_path / "2", 30)
    assert "The difference to every other model is more than chance at 95 %." in best["description"]
    assert best["attrs"]["not_distinguishable_from"] == []
    assert worst["actions"] == "Improve its retrieval first."


def usage(tmp_path: Path, **by_model: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [answer(f"c{i}", m, **fields) for i in range(3) for m, fields in by_model.items()]
    toys = [Toy("one"), Toy("two")]
    made = [Given(row["case"], row["model"], 0.9, evaluator=toy.id) for row in rows for toy in toys]
    return insights(tmp_path, rows=rows, scores=made, evaluators=toys)


def test_fastest_slowest_cheapest_and_dearest_are_told_once_for_the_run(tmp_path: Path) -> None:
    found = usage(tmp_path, a={"duration_s": 1.0, "cost_usd": 0.002}, b={"duration_s": 2.5, "cost_usd": 0.0004})
    fastest, slowest = of_type(found, "performance")
    assert fastest["description"].startswith("a is the fastest model: 1 s per answer on average, against 2.5 s")
    assert slowest["attrs"]["slowest_model_name"] == "b"
    cheapest, dearest = of_type(found, "cost")
    assert "0.0004 USD per answer" in cheapest["description"]
    assert dearest["attrs"]["most_expensive_model_name"] == "a"


def test_no_costs_and_equal_times_say_nothing(tmp_path: Path) -> None:
    found = usage(tmp_path, a={"duration_s": 1.0, "cost_usd": 0.0}, b={"duration_s": 1.0, "cost_usd": -1.0})
    assert of_type(found, "performance") == of_type(found, "cost") == []


# Examples


def test_the_hardest_case_is_the_one_most_models_fail(tmp_path: Path) -> None:
    made = scores("a", [0.9, 0.1, 0.2, 0.9]) + scores("b", [0.9, 0.2, 0.0, 0.1]) + scores("c", [0.9, 0.9, 0.9, 0.9])
    (insight,) = of_type(insights(tmp_path, scores=made), "weak-point")
    assert '"What is c2?". 2 of 3 models failed it. 1 other case did as badly.' in insight["description"]
    assert insight["attrs"]["test_case_keys"] == ["c2"]
    assert len(insight["row_ids"]) == 2


def test_where_nothing_fails_no_case_is_hard(tmp_path: Path) -> None:
    assert of_type(insights(tmp_path, scores=scores("a", [0.8, 0.9])), "weak-point") == []


def test_a_single_model_has_a_hardest_case_too(tmp_path: Path) -> None:
    (insight,) = of_type(insights(tmp_path, scores=scores("a", [0.8, 0.3, 0.2])), "weak-point")
    assert insight["attrs"]["test_case_keys"] == ["c2"]


def grounded(value: float, **scored: float) -> dict[str, Any]:
    made = [Given("c0", "a", value), Given("c1", "a", value)]
    evidence = [
        Basis(case, "a", evidence={"data": {"least_grounded": {
            "sentence": f"Sentence of {case}.", "start": 0, "end": 3, "value": v, "closest": "Near it."}}})
        for case, v in scored.items()
    ]  # fmt: skip
    return {"scores": made, "evidence": evidence}


def test_the_least_grounded_sentence_is_shown_when_the_model_misses_the_threshold(tmp_path: Path) -> None:
    (insight,) = of_type(insights(tmp_path / "1", **grounded(0.5, c0=0.4, c1=0.2)), "grounding")
    assert '"Sentence of c1."' in insight["description"]
    assert '"Near it."' in insight["description"]
    assert insight["attrs"]["sentence_value"] == 0.2
    assert insight["attrs"]["test_case_keys"] == ["c1"]
    assert of_type(insights(tmp_path / "2", **grounded(0.9, c0=0.4, c1=0.2)), "grounding") == []


def test_an_empty_run_has_no_insights(tmp_path: Path) -> None:
    assert insights(tmp_path, rows=[answer("c", "a")]) == []
    assert insights(tmp_path / "none", rows=[answer("c", "a")], evaluators=[]) == []
