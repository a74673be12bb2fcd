"""Judges compared by labels of numbers, of unevenly drawn rows, and of copies; and what labels teach a jury."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.evaluators.settings import JudgeConfig, JuryConfig, Settings
from leadline.tasks.judges.labels.judge_comparison import compare_judges, costs_of
from leadline.tasks.judges.labels.judge_improvement import level_of_try, outcome_of, require_labels
from leadline.tasks.judges.labels.judged_rows import JudgedMetric
from leadline.tasks.judges.labels.judging import JudgedLabels, Judging, RowVerdict
from leadline.tasks.judges.labels.jury_training import HeldOut, train_jury
from leadline.tasks.judges.labels.labelled_rows import LabelledRow, LabelledRows
from leadline.tasks.load.label import Label
from leadline.tasks.plan.jobs import EvaluatorJob


def _metric(*, share=True, threshold=None, high=1.0):
    return JudgedMetric("toy", "value", threshold, True, 0.0, high, share, 0, "Value", "", "c")


def _labelled(values, *, chances=None, copies=1):
    rows = [
        LabelledRow(
            key=f"{place:032x}",
            dataset="d",
            row_id=place,
            case=f"c{place}",
            model="bot",
            cluster=place // copies,
            family=f"c{place // copies}",
            labels=(Label(f"{place:032x}", "toy.value", None if math.isnan(value) else value, "anna", "2026-01-01"),),
            chance=0.5 if chances is None else chances[place],
        )
        for place, value in enumerate(values)
    ]
    return LabelledRows("toy.value", tuple(rows), 0, "run")


def _judged(labelled, values, metric):
    settings = Settings(judges=(JudgeConfig(model="m"),))
    job = EvaluatorJob(0, "toy", {}, {}, "c", "judge")
    verdicts = [RowVerdict(None, "judge_refused: no") if math.isnan(value) else RowVerdict(value) for value in values]
    return JudgedLabels(Judging(None, settings, job, metric), labelled, tuple(verdicts))  # type: ignore[arg-type]


def _right(truth, accuracy, seed):
    random = np.random.default_rng(seed)
    return np.where(random.random(len(truth)) < accuracy, truth, 1 - truth)


TRUTH = (np.arange(200) % 10 < 7).astype(float)


def test_numbers_are_compared_by_their_distance_from_people_s():
    random = np.random.default_rng(3)
    labels = random.uniform(0, 5, 80)
    metric, labelled = _metric(share=False, high=5.0), _labelled(labels)
    near, far = labels + random.normal(0, 0.3, 80), labels + random.normal(0, 1.5, 80)
    found = compare_judges({"far": _judged(labelled, far, metric), "near": _judged(labelled, near, metric)}, {})
    [pair] = found.pairs
    assert pair.effect == pytest.approx(np.abs(far - labels).mean() - np.abs(near - labels).mean())
    assert pair.better == "near"
    assert pair.sentence.startswith("near is nearer to people's numbers than far: by ")
    assert found.judges[1].error_low < found.judges[1].error < found.judges[1].error_high
    assert found.judges[1].rank_correlation > 0.9


def test_rows_that_were_drawn_unevenly_count_by_their_chance_and_the_effect_is_the_difference_shown():
    chances = np.where(TRUTH == 1, 0.1, 0.8)
    labelled, metric = _labelled(TRUTH, chances=chances), _metric()
    judged = {
        "a": _judged(labelled, _right(TRUTH, 0.8, 1), metric),
        "b": _judged(labelled, _right(TRUTH, 0.9, 2), metric),
    }
    found = compare_judges(judged, {})
    assert found.weighted
    first, second = (judge.agreed.accuracy.value for judge in found.judges)
    assert found.pairs[0].effect == pytest.approx(second - first)
    assert found.pairs[0].test == "sign-flip"


def test_copies_of_a_case_are_one_piece_of_evidence():
    labelled, metric = _labelled(TRUTH, copies=10), _metric()
    judged = {
        "a": _judged(labelled, _right(TRUTH, 0.8, 1), metric),
        "b": _judged(labelled, np.repeat(_right(TRUTH[::10], 0.9, 2), 10), metric),
    }
    assert compare_judges(judged, {}).pairs[0].test.startswith("sign-flip")


def test_rows_that_one_judge_left_out_are_left_out_of_all_and_told():
    labelled, metric = _labelled([*TRUTH[:50], 0.5, math.nan]), _metric()
    gone = np.array([*_right(TRUTH[:50], 0.9, 1), 1.0, 1.0])
    gone[:5] = math.nan
    found = compare_judges({"a": _judged(labelled, gone, metric), "b": _judged(labelled, np.ones(52), metric)}, {})
    assert (found.rows, found.untold) == (45, 2)
    assert found.judges[0].unjudged == {"judge_refused: no": 5}
    assert found.judges[1].agreed.n == 45


def test_too_few_rows_are_no_comparison():
    metric, few = _metric(), _labelled(TRUTH[:5])
    with pytest.raises(UsageError, match="5 rows; 10 are needed"):
        compare_judges({name: _judged(few, TRUTH[:5], metric) for name in "ab"}, {})
    many = _labelled(TRUTH)
    with pytest.raises(LeadlineError, match="b: judge_refused: no"):
        compare_judges({"a": _judged(many, TRUTH, metric), "b": _judged(many, TRUTH * math.nan, metric)}, {})


def test_costs_are_those_of_the_replies_on_record_and_unknown_where_one_is():
    replies = {"x": {"cost_usd": 0.001, "seconds": 1.0}, "y": {"cost_usd": 0.003, "seconds": 3.0}}
    known = costs_of([("x", "y"), ("x",)], replies)
    assert (known.calls, known.usd_per_1000) == (1.5, pytest.approx(2.5))
    assert known.seconds_median == 1.0
    replies["y"]["cost_usd"] = None
    assert costs_of([("x", "y")], replies).usd_per_1000 is None
    assert costs_of([("z",)], replies).seconds_median is None


def _jury():
    members = tuple(JudgeConfig(key=name, model=name) for name in "abc")
    return JuryConfig(key="panel", model="panel", members=members)


@pytest.mark.parametrize("copies", [1, 4])
def test_training_measures_what_comparing_measures_on_rows_drawn_unevenly(copies):
    truth = np.tile(TRUTH, 3)
    draw = np.random.default_rng(4).random(len(truth))
    labelled, metric = _labelled(truth, chances=np.where(draw < 0.5, 0.1, 0.8), copies=copies), _metric()
    values = {name: _right(truth, 0.8, seed) for seed, name in enumerate("abc")}
    judged = {name: _judged(labelled, each, metric) for name, each in values.items()}
    trained = {each.name: each for each in train_jury(_jury(), judged).held_out}
    half = labelled.half(held_out=True)
    aside = np.array([row.held_out for row in labelled.rows])
    compared = compare_judges({name: _judged(half, each[aside], metric) for name, each in values.items()}, {})
    assert compared.weighted
    for judge in compared.judges:
        assert trained[judge.name].value == pytest.approx(judge.agreed.accuracy.value)
        assert trained[judge.name].low == pytest.approx(judge.agreed.accuracy.low)
        assert trained[judge.name].value != pytest.approx((values[judge.name] == truth)[aside].mean(), abs=1e-6)


def test_error_rates_are_learned_on_one_half_and_measured_on_the_other():
    truth = np.tile(TRUTH, 10)
    labelled, metric = _labelled(truth), _metric()
    accuracy = {"a": 0.65, "b": 0.65, "c": 0.95}
    judged = {
        name: _judged(labelled, _right(truth, each, seed), metric) for seed, (name, each) in enumerate(accuracy.items())
    }
    found = train_jury(_jury(), judged)
    assert found.weights.good == pytest.approx(0.7, abs=0.05)
    for name, each in accuracy.items():
        own = found.weights.of(name)
        assert (own.passes, own.catches) == (pytest.approx(each, abs=0.05), pytest.approx(each, abs=0.05))
    held_out = {each.name: each for each in found.held_out}
    assert found.rows + held_out["a"].rows == len(truth)
    assert held_out["dawid-skene"].value > held_out["majority"].value + 0.05
    assert train_jury(_jury(), judged, everything=True).held_out == ()


def test_numbers_are_weighed_by_their_errors():
    random = np.random.default_rng(5)
    labels = random.uniform(1, 4, 300)
    labelled, metric = _labelled(labels), _metric(share=False, high=5.0)
    judged = {
        name: _judged(labelled, labels + random.normal(0, spread, 300), metric)
        for name, spread in {"a": 1.0, "b": 1.0, "c": 0.5}.items()
    }
    found = train_jury(_jury(), judged)
    assert found.weights.of("c").weight == pytest.approx(4 / 6, abs=0.06)
    held_out = {each.name: each.value for each in found.held_out}
    assert held_out["dawid-skene"] < min(held_out["mean"], held_out["c"])


@pytest.mark.parametrize(
    ("number", "accuracy", "says"), [(12, 0.9, "learns from 20 labels"), (200, 0.2, "no more often than bad ones")]
)
def test_what_cannot_teach_is_refused(number, accuracy, says):
    labelled, metric = _labelled(TRUTH[:number]), _metric()
    judged = {
        name: _judged(labelled, _right(TRUTH[:number], accuracy, seed), metric) for seed, name in enumerate("abc")
    }
    with pytest.raises(UsageError, match=says):
        train_jury(_jury(), judged)


def test_numbers_that_pass_and_fail_are_weighed_by_their_distance_from_the_verdict():
    labelled, metric = _labelled(TRUTH), _metric(share=False, threshold=0.5)
    random = np.random.default_rng(7)
    judged = {
        name: _judged(labelled, np.clip(0.5 + sign * (TRUTH - 0.5) + random.normal(0, 0.3, 200), 0, 1), metric)
        for name, sign in {"a": 0.2, "b": 0.2, "c": 0.9}.items()
    }
    found = train_jury(_jury(), judged)
    assert found.weights.good is None
    assert found.weights.of("c").weight > 2 * found.weights.of("a").weight
    held_out = {each.name: each for each in found.held_out}
    assert held_out["dawid-skene"].value > held_out["a"].value
    assert held_out["dawid-skene"].low < held_out["dawid-skene"].value


@pytest.mark.parametrize(
    ("plain", "learned", "says"), [((0.7, 0.8), (0.9, 0.95), "Write this"), ((0.93, 0.98), (0.91, 0.97), "Keep what")]
)
def test_weights_that_are_not_told_apart_from_a_majority_are_not_recommended(plain, learned, says):
    labelled, metric = _labelled(TRUTH), _metric()
    judged = {name: _judged(labelled, _right(TRUTH, 0.9, seed), metric) for seed, name in enumerate("abc")}
    held_out = tuple(
        HeldOut(name, sum(ends) / 2, *ends, 100) for name, ends in (("majority", plain), ("dawid-skene", learned))
    )
    assert replace(train_jury(_jury(), judged), held_out=held_out).advice.startswith(says)


def test_numbers_without_bounds_teach_no_weights():
    labelled, metric = _labelled(TRUTH), _metric(share=False, high=math.inf)
    with pytest.raises(UsageError, match="no bounds"):
        train_jury(_jury(), {name: _judged(labelled, TRUTH, metric) for name in "abc"})


@pytest.mark.parametrize(
    ("good", "bad", "binary", "enough"),
    [(15, 5, True, True), (5, 15, True, True), (15, 4, True, False), (16, 4, True, False), (4, 16, True, False),
     (20, 0, False, True), (19, 0, False, False)],
)  # fmt: skip
def test_a_judge_is_improved_by_twenty_labels_in_each_half_and_five_of_each_kind(good, bad, binary, enough):
    plenty, half = _labelled(TRUTH), _labelled([1.0] * good + [0.0] * bad)
    for halves in ((plenty, half), (half, plenty)):
        if enough:
            require_labels(halves, binary=binary)
        else:
            with pytest.raises(UsageError, match="Label about"):
                require_labels(halves, binary=binary)


def test_all_tries_on_a_held_out_half_together_err_no_more_than_one_test():
    levels = [level_of_try(tried) for tried in range(1, 1000)]
    assert levels[0] == pytest.approx(0.025)
    assert 0.049 < sum(levels) < 0.05


def test_a_candidate_is_better_only_at_its_level_and_without_rows_lost():
    labelled, metric = _labelled(TRUTH), _metric()
    one, other = (_judged(labelled, _right(TRUTH, accuracy, 1), metric) for accuracy in (0.8, 0.95))

    def outcome(present, candidate, alpha=0.05, lost=0):
        found = compare_judges({"present": present, "candidate": candidate}, {}, alpha=alpha)
        return outcome_of(found, "present", "candidate", lost), found.pairs[0]

    assert [outcome(one, other)[0], outcome(other, one)[0], outcome(one, one)[0]] == [
        "better",
        "worse",
        "not told apart",
    ]
    assert outcome(one, other, lost=1)[0] == "not told apart"
    assert outcome(one, other, alpha=1e-12)[0] == "not told apart"
    assert outcome(one, other, alpha=1e-3)[1].low < outcome(one, other)[1].low
