"""Metrics know their direction; boolean evaluators have their four or five."""

import json
import math

import pytest

from leadline.evaluators.core import INF, Metric, boolean_metrics


@pytest.mark.parametrize(
    ("higher", "value", "threshold", "verdict"),
    [
        (True, 0.75, None, True),
        (True, 0.74, None, False),
        (False, 0.75, None, True),
        (False, 0.76, None, False),
        (True, 0.5, 0.4, True),
        (False, 0.5, 0.4, False),
        (False, INF, INF, True),
        (True, 0.5, 0.0, True),
    ],
)
def test_thresholds_are_inclusive_in_the_metrics_direction(higher, value, threshold, verdict):
    assert Metric("m", "M", higher).passes(value, threshold) is verdict


def test_a_metric_without_a_threshold_has_no_verdict_unless_one_is_given():
    metric = Metric("m", "M", True, threshold=None)
    assert metric.passes(0.9) is None
    assert metric.passes(0.9, 0.5) is True


def test_infinite_bounds_become_words_in_json():
    out = Metric("m", "M", False, range=(-INF, INF), threshold=INF).to_json()
    assert out["range"] == ["-inf", "inf"]
    assert out["threshold"] == "inf"
    json.dumps(out, allow_nan=False)
    assert math.isinf(INF)


def test_boolean_metrics_are_shares_with_passes_first():
    pairs = [("passes", "Passes"), ("failures", "Failures"), ("retrieval", "Retrieval"), ("generation", "Generation")]
    four = boolean_metrics(*pairs, None, what="leaks")
    five = boolean_metrics(*pairs, ("parsing", "Parsing"), what="leaks")
    assert [metric.key for metric in four] == ["passes", "failures", "retrieval", "generation"]
    assert five[:4] == four
    assert [metric.primary for metric in five] == [True, False, False, False, False]
    assert [metric.higher_is_better for metric in five] == [True, False, False, False, False]
    assert all(metric.share and metric.threshold == 0.5 and "leaks" in metric.description for metric in five)


def test_the_short_forms_say_the_direction_and_make_the_name_of_the_key() -> None:
    assert Metric.higher("answer_recall", "How much.", share=True, threshold=None) == Metric(
        "answer_recall", "Answer recall", True, threshold=None, share=True, description="How much."
    )
    assert Metric.lower("ter", name="TER", range=(0.0, 2.0)) == Metric("ter", "TER", False, (0.0, 2.0))
