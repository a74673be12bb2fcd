"""Levenshtein by the textbook's recursion; numbers written in many ways and read back."""

import math
from decimal import Decimal
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.row import NotApplicable, Row, Unscored
from leadline.evaluators.matching.levenshtein import Levenshtein
from leadline.evaluators.matching.number_match import NumberMatch
from leadline.evaluators.text.quantities import quantities


def value(kind, answer, *expected, **params):
    row = Row("c", "m", actual_answer=answer, expected_answers=expected)
    [result] = kind(kind.parameters.build(kind.spec.id, params)).score([row], EvalContext())
    [found] = result.values.values()
    return found


def distance(one, other):
    @cache
    def least(i, j):
        if not i or not j:
            return i + j
        return min(least(i - 1, j) + 1, least(i, j - 1) + 1, least(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    return least(len(one), len(other))


@given(st.text(alphabet="abc😀", max_size=12), st.lists(st.text(alphabet="abc😀", max_size=12), min_size=1, max_size=3))
def test_levenshtein_equals_the_recursion(answer, expected):
    best = max(1 - distance(answer, text) / max(len(answer), len(text), 1) for text in expected)
    assert value(Levenshtein, answer, *expected) == pytest.approx(best)


def test_levenshtein_of_very_long_texts_is_refused_at_once():
    assert isinstance(value(Levenshtein, "a" * 2_000_000, "b" * 2_000_000), Unscored)


@given(
    st.decimals(min_value=-(10**12), max_value=10**12, places=3, allow_nan=False),
    st.sampled_from([",", " ", "'", "\u00a0", ""]),
    st.sampled_from(["{}", "It is {}.", "about {}, or so", "({})", "= {}!", "${}", "€ {}", "{} apples"]),
)
def test_a_number_is_read_as_it_was_written(number, separator, sentence):
    written = f"{number:,.3f}".replace(",", separator)
    [found] = quantities(sentence.format(written))
    assert found.value == float(number)


@given(st.decimals(min_value=0, max_value=10**9, places=2), st.sampled_from([".", " ", ""]))
def test_a_decimal_comma_is_read(number, separator):
    written = f"{number:,.2f}".replace(",", "x").replace(".", ",").replace("x", separator)
    [found] = quantities(f"Das kostet {written} Euro", "comma")
    assert found.value == float(number)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda x: x == 0 or 1e-30 < abs(x) < 1e30))
def test_python_s_own_floats_are_read(number):
    [found] = quantities(repr(number))
    assert found.value == number


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 0.5), st.floats(0, 10))
def test_the_tolerance_is_that_of_isclose_about_the_expected_number(given_, expected, relative, absolute):
    close = abs(given_ - expected) <= max(relative * abs(expected), absolute)
    written = [f"{Decimal(number):f}" for number in (given_, expected)]
    assert value(NumberMatch, *written, relative_tolerance=relative, absolute_tolerance=absolute) == close
    if close and abs(given_) <= abs(expected):
        assert math.isclose(given_, expected, rel_tol=relative, abs_tol=absolute)


@pytest.mark.parametrize(
    ("answer", "expected", "good"),
    [
        ("It grew by 12 %.", "12%", 1.0),
        ("It grew by 0.12.", "12%", 1.0),
        ("It grew by 12 percent", "12", 1.0),
        ("It grew by 13 %", "12%", 0.0),
        ("5 km away", "5000 m", 1.0),
        ("5 miles away", "5 km", 0.0),
        ("5 kg", "5 km", 0.0),
        ("in 90 minutes", "1.5 hours", 1.0),
        ("$3.2 million", "3,200,000", 1.0),
        ("1.5k users", "1500", 1.0),
        ("The temperature is \u22125 degrees", "-5", 1.0),
        ("between 3 and 4", "3 to 4", 1.0),
        ("between 3 and 5", "3 to 4", 0.0),
        ("no idea", "4", 0.0),
        ("version v4", "4", 0.0),
    ],
)
def test_quantities_are_compared_as_people_mean_them(answer, expected, good):
    assert value(NumberMatch, answer, expected) == good


def test_units_can_be_left_out_of_account():
    assert value(NumberMatch, "5 miles", "5 km", units=False) == 1.0


@pytest.mark.parametrize(("which", "good"), [("any", 1.0), ("last", 0.0), ("only", 0.0)])
def test_which_number_of_the_answer_counts_is_a_choice(which, good):
    assert value(NumberMatch, "4 times 6 is 24", "4", which=which) == good


def test_a_row_without_an_expected_number_is_not_applicable_and_too_many_numbers_are_refused():
    assert isinstance(value(NumberMatch, "4", "four"), NotApplicable)
    assert isinstance(value(NumberMatch, "1 " * 50_000, "4"), Unscored)
