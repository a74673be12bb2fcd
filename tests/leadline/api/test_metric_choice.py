"""Metrics by id, with parameters, as classes and as functions; and functions that answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leadline
from leadline.api.metric_choice import chosen_metrics
from leadline.evaluators.core import find
from leadline.evaluators.ground import LeadlineError, UsageError

ROWS = [
    {"question": "Who?", "expected_answer": "Ada", "actual_answer": "Ada, please", "model": "one"},
    {"question": "Who?", "expected_answer": "Ada", "actual_answer": "Bob", "model": "two"},
]


class Loud(leadline.RowEvaluator):
    """Share of capitals."""

    spec = leadline.Spec.simple("loud", inputs=["actual_answer"], higher_is_better=False)

    def score_row(self, row: leadline.Row, ctx: leadline.EvalContext) -> leadline.RowScore:
        """Count capitals."""
        return leadline.RowScore({"loud": sum(map(str.isupper, row.actual_answer or "")) / 100})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metrics") / "store"


def evaluated(place: Path, *metrics: Any, **settings: Any) -> leadline.Result:
    return leadline.evaluate(ROWS, metrics=metrics, store=place, against="none", **settings)


def politeness(word: str) -> Callable[[leadline.Row], bool]:
    def polite(row: leadline.Row) -> bool:
        return word in (row.actual_answer or "")

    return polite


def test_every_way_to_name_a_metric_works_in_one_run(place: Path) -> None:
    found = evaluated(
        place, "bleu", leadline.metrics.rouge(metric_threshold=0.3, name="mild"), Loud, politeness("please"),
        lambda row: len(row.actual_answer or ""),
    )  # fmt: skip
    means = found.aggregates.set_index("evaluator")
    assert [name.split("_")[0] for name in dict.fromkeys(found.aggregates.evaluator)] == [
        "bleu", "lambda", "loud", "polite", "rouge#mild",
    ]  # fmt: skip
    assert set(means.loc["rouge#mild"].threshold) == {0.3, 0.75}
    assert means[means.model == "one"].loc["polite"].value == 1
    assert (find("loud"), find("polite")) == (None, None)


def test_a_function_is_scored_once_and_anew_when_anything_in_it_changes(place: Path) -> None:
    assert evaluated(place, politeness("Bob")).computed == 2
    assert evaluated(place, politeness("Bob")).computed == 0
    changed = evaluated(place, politeness("Ada"))
    assert changed.computed == 2
    assert dict(zip(changed.scores.model, changed.scores.value, strict=True)) == {"one": 1.0, "two": 0.0}


def test_functions_of_one_name_are_kept_apart_while_runs_overlap(place: Path) -> None:
    words = ("Ada", "Bob", "please", "nobody")

    async def all_of_them() -> list[leadline.Result]:
        each = (leadline.aevaluate(ROWS, metrics=politeness(w), store=place, against="none") for w in words)
        return list(await asyncio.gather(*each))

    for word, found in zip(words, asyncio.run(all_of_them()), strict=True):
        assert list(found.scores.value) == [float(word in row["actual_answer"]) for row in ROWS]


def test_a_metric_that_keeps_a_state_is_never_taken_from_the_store(place: Path) -> None:
    states = iter(range(100))

    def counted(row: leadline.Row) -> float:
        return next(states)

    for _ in range(2):
        assert evaluated(place, counted).computed == 2


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["blue"], "There is no evaluator called 'blue'. Did you mean bleu"),
        (["bleu", leadline.metrics.bleu()], "The metric bleu is named twice"),
        ([3], "'3' is no metric"),
        ([int], "is no metric"),
        ([leadline.MetricChoice("bleu", {"x": 1})], "bleu.x: there is no such parameter"),
    ],
)
def test_what_is_no_metric_is_refused(place: Path, metrics: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluated(place, *metrics)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": 5}, "'5' is no metric"),
        ({"judge": 5}, "judges.model: 5 is not a text"),
        ({"store": 5}, "store: 5 is not a text"),
        ({"policy": 5}, "policy: 5 is not a text"),
        ({"against": 5}, "against: 5 is not a text"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_a_line(place: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        leadline.evaluate(ROWS, **{"metrics": ["bleu"], "store": place} | settings)


def test_no_metrics_are_those_that_suit_the_data() -> None:
    assert chosen_metrics(None) == chosen_metrics(())


def test_a_function_cannot_take_the_name_of_another_evaluator(place: Path) -> None:
    def bleu(row: leadline.Row) -> float:
        return 1.0

    with pytest.raises(UsageError, match="The id 'bleu' is taken"):
        evaluated(place, bleu)


def test_functions_are_not_scored_elsewhere(place: Path) -> None:
    with pytest.raises(UsageError, match="scored in its process"):
        evaluated(place, politeness("a"), dispatch="workers")


def test_an_instance_has_its_parameters() -> None:
    kind = find("bleu")
    assert kind is not None
    chosen = chosen_metrics([kind(kind.parameters(metric_threshold=0.5))])
    assert (chosen.ids, chosen.params, chosen.own) == (("bleu",), {"bleu": {"metric_threshold": 0.5}}, ())


def test_a_target_answers_and_what_it_raises_is_an_error_of_the_host(place: Path) -> None:
    def answering(suffix: str) -> Callable[[Any], dict[str, Any]]:
        def app(case: Any) -> dict[str, Any]:
            if case.question == "fail?":
                raise ValueError("boom")
            return {"answer": case.question + suffix, "context": ["a chunk"]}

        return app

    async def shouting(case: Any) -> str:
        return str(case.question.upper())

    def run(suffix: str) -> leadline.Result:
        return leadline.evaluate(
            ["who?", "fail?"],
            target={"app": answering(suffix), "shout": shouting},
            metrics=["bleu", politeness("who")],
            store=place,
            against="none",
        )

    found = run("!")
    polite = found.scores[found.scores.metric == "polite"].set_index(["model", "case"])
    assert sorted(polite.value.dropna()) == [0.0, 0.0, 1.0]
    assert list(polite.reason.dropna()) == ["host_error"]
    assert found.collected is not None
    assert (found.collected.answered, found.collected.failed, found.collected.calls) == (3, 1, 3)
    again, changed = run("!"), run("?")
    assert again.collected is not None
    assert changed.collected is not None
    assert (again.collected.calls, changed.collected.calls) == (0, 1)


def test_a_version_vouches_for_a_target_whose_state_cannot_be_told(place: Path) -> None:
    calls = iter(range(100))

    def app(case: Any) -> str:
        return str(next(calls))

    settings = {"target": app, "model_name": "mine", "store": place, "metrics": [politeness("1")], "against": "none"}
    first, second = (leadline.evaluate(["who?"], **settings) for _ in range(2))
    assert [run.collected.calls for run in (first, second) if run.collected] == [1, 1]
    stated = [leadline.evaluate(["who?"], target_settings={"version": "1"}, **settings) for _ in range(2)]
    assert [run.collected.calls for run in stated if run.collected] == [1, 0]
    assert set(stated[0].scores.model) == {"mine"}


def test_a_target_that_answers_nothing_says_why(place: Path) -> None:
    def app(case: Any) -> str:
        raise ValueError("no connection")

    with pytest.raises(LeadlineError, match=r"No model answered anything: .*no connection"):
        leadline.evaluate(["who?"], target=app, metrics=["bleu"], store=place)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "app"}, "is a str, not a function"),
        ({"target": {}}, "No target was given"),
        ({"target": len, "target_settings": {"timeout": 3}}, "target_settings: timeout"),
        ({"target": len, "target_settings": "timeout"}, "target_settings is a str, not a mapping"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(place: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        leadline.evaluate(["who?"], metrics=["bleu"], store=place, **settings)
