"""Checks of numbers agree with python-stdnum, but for what is a documentation example here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn as stdnum_luhn
from stdnum.iban import calc_check_digits
from stdnum.iban import is_valid as stdnum_is_iban
from stdnum.iso7064 import mod_97_10
from stdnum.us import ssn as stdnum_ssn

from leadline.evaluators.privacy.rules.checks import _IBAN_LENGTHS, is_iban, is_random, is_ssn, is_void_ssn, luhn

COUNTRIES = st.sampled_from(sorted(_IBAN_LENGTHS))


def digits(count):
    return st.integers(0, 10**count - 1).map(lambda number: f"{number:0{count}}")


@given(st.text("0123456789", min_size=1, max_size=24))
def test_luhn_agrees(number):
    assert luhn(number) == stdnum_luhn.is_valid(number)


@given(digits(3) | st.sampled_from(["000", "666"]), digits(2), digits(4) | st.just("0000"))
def test_social_security_numbers_agree_but_for_void_ones(area, group, serial):
    number = f"{area}-{group}-{serial}"
    assert is_ssn(number) == (stdnum_ssn.is_valid(number) or is_void_ssn(number))


def test_void_social_security_numbers_are_those_that_stdnum_refuses():
    for number in ("078-05-1120", "219-09-9999", "457-55-5462"):
        assert is_void_ssn(number)
        assert is_ssn(number)
        assert not stdnum_ssn.is_valid(number)


@given(COUNTRIES, st.data())
def test_an_iban_has_its_countrys_length_and_check_digits(country, data):
    length = _IBAN_LENGTHS[country] - 2
    number = country + data.draw(st.from_regex(rf"[0-9]{{2}}[A-Z0-9]{{{length - 2}}}", fullmatch=True))
    assert is_iban(number) == mod_97_10.is_valid(number[4:] + number[:4])
    right = country + calc_check_digits(number) + number[4:]
    assert is_iban(right)
    assert not is_iban(right[:-1])
    assert stdnum_is_iban(right) <= is_iban(right)


@pytest.mark.parametrize(
    ("token", "random"),
    [
        ("abcdefgh11223344", True),  # eight characters once, four twice: 3.5 bits
        ("abcd112233445566", False),  # four once, six twice: 3.25 bits
        ("abcdefg1hhiijjkk", False),  # 3.5 bits, one digit
        ("abcdef12gghhiijj", True),
        ("!#$%&()*11223344", False),  # 3.5 bits, no letter
    ],
)
def test_a_token_looks_drawn_by_chance_from_3_5_bits_two_digits_and_a_letter_on(token, random):
    assert is_random(token) is random
