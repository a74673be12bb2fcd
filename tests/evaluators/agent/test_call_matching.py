"""Calls are matched as well as they can be, whatever their order and however their arguments are written."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.agent.call_matching import (
    MatchedCalls,
    TooManyCalls,
    best_alignment,
    best_assignment,
    equal,
    likeness,
    shown_call,
    weight,
)
from tests.evaluators.agent.agents import call, expect

FITS = st.sampled_from([0.0, 0.25, 0.5, 1.0])
TABLES = st.tuples(st.integers(0, 5), st.integers(0, 5)).flatmap(
    lambda size: st.lists(st.lists(FITS, min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0])
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "1", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)


def total(pairs):
    assert len({pair.call for pair in pairs}) == len({pair.expected for pair in pairs}) == len(pairs)
    return sum(pair.weight for pair in pairs)


def every_matching(weights):
    """Yield all one-to-one pairs, as lists of (call, expected)."""
    width = len(weights[0]) if weights else 0
    places = [*range(width), *([None] * len(weights))]
    for chosen in set(permutations(places, len(weights))):
        yield [(number, place) for number, place in enumerate(chosen) if place is not None and weights[number][place]]


@given(TABLES)
def test_the_best_assignment_is_the_best_of_all(weights):
    assert total(best_assignment(weights)) == max(
        sum(weights[c][e] for c, e in each) for each in every_matching(weights)
    )


@given(TABLES, st.lists(st.integers(1, 3), min_size=5, max_size=5))
def test_the_best_alignment_is_the_best_that_keeps_the_order_between_messages(weights, messages):
    messages = sorted(messages)[: len(weights)]

    def kept(pairs):
        return all(messages[c] >= messages[d] or e < f for c, e in pairs for d, f in pairs)

    best = max(sum(weights[c][e] for c, e in each) for each in every_matching(weights) if kept(each))
    found = best_alignment(weights, messages)
    assert total(found) == best
    assert kept([(pair.call, pair.expected) for pair in found])


def test_parallel_calls_have_no_order_among_themselves():
    swapped = [[0.0, 1.0], [1.0, 0.0]]
    assert total(best_alignment(swapped, [1, 2])) == 1
    assert total(best_alignment(swapped, [1, 1])) == 2


def test_too_many_parallel_calls_are_not_put_in_order():
    halves = [[float((made < 150) != (wanted < 150)) for wanted in range(300)] for made in range(300)]
    with pytest.raises(TooManyCalls, match="300 calls are too many"):
        best_alignment(halves, [1] * 150 + [2] * 150)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (7, "7", False),
        (None, 0, False),
        ("", [], False),
        ({"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2.0}]}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ([1, 2], [2, 1], False),
        ({}, [], False),
    ],
)
def test_values_are_equal_as_json_is(one, other, same):
    assert equal(one, other) is equal(other, one) is same


@given(VALUES)
def test_every_value_equals_itself(value):
    assert equal(value, value)
    assert likeness({"a": value}, {"a": value}) == 1


def test_likeness_is_the_share_of_equal_arguments_of_both():
    assert likeness({"a": 1, "b": 2}, {"a": 1, "b": 3}) == 0.5
    assert likeness({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}) == 0.5
    assert likeness({"a": 1}, {"b": 1}) == 0
    assert likeness({}, {}) == 1
    assert likeness({}, {"a": 1}) == 0


def test_any_arguments_will_do_where_none_are_expected():
    assert weight(call("find", q="a"), {"name": "find"}, "exact") == 1
    assert weight(call("find", q="a"), expect("find"), "exact") == 0
    assert weight(call("find"), {"name": "seek"}, "ignore") == 0


def test_the_best_of_several_accepted_sets_of_arguments_counts():
    expected = {**expect("find", q="a", n=1), "any_of": [{"q": "b", "n": 1}]}
    assert weight(call("find", q="b", n=1), expected, "exact") == 1
    assert weight(call("find", q="c", n=1), expected, "exact") == 0
    assert weight(call("find", q="c", n=1), expected, "partial") == 0.5
    assert weight(call("find", q="c"), {"name": "find", "any_of": [{"q": "b"}]}, "exact") == 0


def test_a_call_in_another_turn_than_expected_does_not_match():
    assert weight(call("find"), {**expect("find"), "turn": 1}, "exact") == 1
    assert weight(call("find"), {**expect("find"), "turn": 2}, "exact") == 0


def test_evidence_names_what_matches_and_what_is_missing_and_extra():
    calls = [call("look", at="tide"), call("mail", to="a"), call("see")]
    wanted = [expect("book", id=7), expect("look", at="tide"), {"name": "log", "any_of": [{"x": 1}]}]
    found = MatchedCalls(calls, wanted, best_assignment([[0, 1.0, 0], [0] * 3, [0] * 3]), {"see"})
    evidence = found.evidence()
    assert evidence.message == (
        '1 of 3 expected calls was made; missing: book(id=7) and log(x=1); extra: mail(to="a").'
    )
    assert evidence.data == {
        "matched": [{"call": 0, "expected": 1, "weight": 1.0}],
        "missing": [
            {"expected": 0, "name": "book", "arguments": {"id": 7}},
            {"expected": 2, "name": "log", "arguments": {"x": 1}},
        ],
        "extra": [{"call": 1, "name": "mail", "arguments": {"to": "a"}}],
    }
    assert [(span.index, span.note, span.end) for span in evidence.spans] == [
        (0, "expected call 2", 4),
        (1, "extra call", 4),
    ]
    assert found.counted == 2


def test_a_long_call_is_cut_for_a_sentence():
    assert len(shown_call(call("write", text="a" * 500))) == 80
