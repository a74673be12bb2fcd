"""Levenshtein by the textbook's recursion; numbers written in many ways and read back."""

import math
from decimal import Decimal
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row, Unscored
from leadline.evaluators.matching.number_match import NumberMatch
from leadline.evaluators.matching.string_similarity import Levenshtein
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
        ("212 °F", "100 °C", 1.0),
        ("24 months", "2 years", 1.0),
        ("10 kW", "10000 W", 1.0),
        ("5 USD", "$5", 1.0),
        ("$3m", "3000000", 1.0),
        ("1 Million Euro", "1000000 €", 1.0),
        ("50 degrees Celsius", "50 °C", 1.0),
        ("15 people", "15 guests", 1.0),
        ("1½ cups", "1.5", 1.0),
        ("1/2", "0.5", 1.0),
        ("1 1/2 cups", "1.5", 1.0),
        ("3/4/2024", "0.75", 0.0),
        ("1,00,000", "100000", 1.0),
        ("10^3", "1000", 1.0),
        ("10³", "103", 0.0),
        ("1.5 × 10^3", "1500", 1.0),
        ("twenty-five people", "25", 1.0),
        ("two hundred and one", "201", 1.0),
        ("one of the best", "1", 0.0),
        ("it is not 7", "7", 0.0),
        ("it isn't 7", "7", 0.0),
        ("it is not 7 but 8", "8", 1.0),
        ("no es 7", "7", 0.0),
        ("non è 7", "7", 0.0),
        ("não é 7", "7", 0.0),
        ("8 rather than 7", "7", 0.0),
        ("8 rather than 7", "8", 1.0),
        ("£5", "5 pounds", 1.0),
        ("5 pounds", "2.26796185 kg", 1.0),
        ("5 pounds", "5 kg", 0.0),
        ("5 pounds", "$5", 0.0),
        ("2000 calories", "2000 kcal", 1.0),
        ("2000 calories", "2000 kJ", 0.0),
        ("8 Mb", "1 MB", 1.0),
        ("No. 7", "7", 1.0),
        ("as is known [3]", "3", 0.0),
        ("[3]", "3", 1.0),
    ],
)
def test_quantities_are_compared_as_people_mean_them(answer, expected, good):
    assert value(NumberMatch, answer, expected) == good


@pytest.mark.parametrize("word", "twelve zwölf douze doce dodici doze twaalf dwanaście".split())
def test_twelve_is_read_in_eight_languages(word):
    assert value(NumberMatch, f"{word.capitalize()}.", "12") == 1.0
    assert value(NumberMatch, "12", word) == 1.0


@given(st.integers(-(10**40), 10**40), st.integers(1, 9))
def test_whole_numbers_are_equal_to_the_last_digit(number, more):
    assert value(NumberMatch, f"{number}", f"{number:,}") == 1.0
    assert value(NumberMatch, f"{number + more}", f"{number}") == 0.0
    assert value(NumberMatch, f"{10**7 + more}", "10,000,000", relative_tolerance=1e-6) == 1.0


@pytest.mark.parametrize(
    "pair",
    ["100 °C/100 °F", "$5/€5", "12 months/12 years", "10 kW/10 MW", "10 mph/10 knots", "50 bar/50 psi", "9 rpm/9 Hz",
     "5 PM/5 AM", "5 GiB/5 GB", "7 xyzzy²/7 m²", "5 MB/5 Mb", "5 Nm/5 N", "5 Ah/5 mAh", "5 lux/5 lumens"]
)  # fmt: skip
def test_two_units_are_never_one(pair):
    one, other = pair.split("/")
    assert (value(NumberMatch, one, other), value(NumberMatch, other, one)) == (0.0, 0.0)
    assert value(NumberMatch, one, one) == value(NumberMatch, other, other) == 1.0


def test_units_can_be_left_out_of_account():
    assert value(NumberMatch, "5 miles", "5 km", units=False) == 1.0


@pytest.mark.parametrize(("which", "good"), [("any", 1.0), ("last", 0.0), ("only", 0.0)])
def test_which_number_of_the_answer_counts_is_a_choice(which, good):
    assert value(NumberMatch, "4 times 6 is 24", "4", which=which) == good


@pytest.mark.parametrize(
    "source",
    [
        "[1]",
        "[1, 2]",
        "(see section 4.2)",
        "(Fig. 3)",
        ", see section 4",
        "[^2]",
        "【1†source】",
        "(Smith et al., 2019)",
    ],
)
def test_the_last_number_is_no_citation(source):
    assert value(NumberMatch, f"So it is 5 {source}.", "5", which="last") == 1.0
    assert value(NumberMatch, "So it was then (Paris, 1889).", "1889", which="last") == 1.0


def test_a_row_without_an_expected_number_is_not_applicable_and_too_many_numbers_are_refused():
    assert isinstance(value(NumberMatch, "4", "few"), NotApplicable)
    assert isinstance(value(NumberMatch, "1 " * 50_000, "4"), Unscored)
