"""The 0/1 values of one row of a pass/fail evaluator."""

import pytest

from leadline.evaluators.core import boolean_metrics, unparseable, verdict
from leadline.evaluators.data import Reason

KEYS = ("passes", "failures", "retrieval", "generation", "parsing")
METRICS = boolean_metrics(*((key, key.title()) for key in KEYS), what="x")


def values(**outcome):
    return [getattr(value, "reason", value) for value in verdict(METRICS, **outcome).values()]


@pytest.mark.parametrize(
    ("generation", "retrieval", "expected"),
    [
        (False, False, [1.0, 0.0, 0.0, 0.0, 0.0]),
        (True, False, [0.0, 1.0, 0.0, 1.0, 0.0]),
        (False, True, [0.0, 1.0, 1.0, 0.0, 0.0]),
        (True, True, [0.0, 1.0, 1.0, 1.0, 0.0]),
    ],
)
def test_a_row_fails_when_one_side_fails(generation, retrieval, expected):
    assert values(generation=generation, retrieval=retrieval) == expected


def test_what_is_unknown_is_unscored_unless_the_other_side_fails_the_row():
    unknown = Reason.UNSCORABLE
    assert values(generation=None, parsing=True) == [unknown, unknown, 0.0, unknown, 1.0]
    assert values(generation=None, retrieval=True, parsing=True) == [0.0, 1.0, 1.0, unknown, 1.0]
    assert values(generation=False, retrieval=None) == [unknown, unknown, unknown, 0.0, 0.0]


def test_an_evaluator_without_parsing_metric_has_four_values():
    assert list(verdict(METRICS[:4], generation=False)) == list(KEYS[:4])


def test_an_unparseable_row_is_counted_and_told():
    score = unparseable(METRICS, "It is broken.")
    assert score.values["parsing"] == 1.0
    assert score.complete  # what does not parse today will not tomorrow
    by_judge = unparseable(METRICS, "It is broken.", why=Reason.JUDGE_UNPARSEABLE)
    assert not by_judge.complete  # another judge may be clear
    assert score.evidence.message == score.flags[0].message == "It is broken."
