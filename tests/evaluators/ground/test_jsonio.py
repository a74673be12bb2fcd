"""JSON that is written and read fast says what the careful way says."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.ground import jsonio

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.characters(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 9), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_the_fast_way_writes_the_same_be_it_surrogates_or_integers_of_any_size(value: object) -> None:
    assert json.loads(jsonio.dump_plain(value)) == json.loads(jsonio.dump(value))


def test_infinite_numbers_and_lone_surrogates_are_read_as_what_can_be_written() -> None:
    assert jsonio.load('{"a": [Infinity, -1e999, NaN, 0.5], "b": "\\ud800"}') == {
        "a": ["Infinity", "-Infinity", "NaN", 0.5],
        "b": "?",
    }


def test_what_is_no_json_is_said_so() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        jsonio.load("{'a': }"[5:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_anything_becomes_strict_json(value: object) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    loaded = json.loads(jsonio.dump(value), parse_constant=refuse)
    assert loaded == jsonio.plain(value)


def test_infinite_numbers_are_strings() -> None:
    assert json.loads(jsonio.dump([math.inf, -math.inf, math.nan, 2**80])) == ["Infinity", "-Infinity", "NaN", 2**80]
