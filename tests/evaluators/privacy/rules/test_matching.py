"""How tables of rules are run over texts, hostile ones included."""

import random
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.privacy.rules.matching import _EXOTIC, MAX_FINDINGS, choose, fold, join, rules_of, scan

PII_RULES, SECRET_RULES = rules_of("pii"), rules_of("secrets")
ALL = (*PII_RULES, *SECRET_RULES)


def names(text, rules=ALL, *, skip_documentation=True):
    return [found.rule.id for found in scan(rules, text, skip_documentation=skip_documentation)]


@given(st.text())
def test_folding_keeps_every_place(text):
    assert len(fold(text)) == len(join(fold(text))) == len(text)


@given(st.text(st.characters(max_codepoint=0x5FF, exclude_characters="\u00a0\u058a\u05be")))
def test_folding_leaves_latin_greek_and_cyrillic_as_they_are(text):
    assert fold(text) == text


BEYOND_ASCII = range(0x80, sys.maxunicode + 1)


def test_digits_of_every_script_are_digits():
    for char in map(chr, BEYOND_ASCII):
        if unicodedata.category(char) == "Nd":
            assert fold("x" + char) == f"x{unicodedata.decimal(char)}", ascii(char)


def test_every_dash_is_one_in_a_number():
    for char in map(chr, BEYOND_ASCII):
        if unicodedata.category(char) == "Pd" or char == "\u2212":
            for text in ("536-90-4399", "4539-1488-0343-6467"):
                (found,) = scan(PII_RULES, f"No. {text.replace('-', char)}.", skip_documentation=True)
                assert (found.start, found.end) == (4, 4 + len(text)), ascii(char)


def test_a_long_dash_parts_what_is_no_number():
    key = "sk-" + "Uaq1B5GTqMnvA4BhclZZH8BWOLocxsd5ra3HbBrCjzg"
    for dash in "\u2014\u2015":
        (found,) = scan(SECRET_RULES, f"Here it is{dash}{key}{dash}keep it.", skip_documentation=True)
        assert (found.start, found.end) == (11, 11 + len(key))
        assert fold(f"1{dash}2 {dash} a{dash}3{dash}") == f"1{dash}2 {dash} a{dash}3{dash}"
        assert join(f"1{dash}2 {dash} a{dash}3{dash}") == f"1-2 {dash} a{dash}3{dash}"


@pytest.mark.parametrize("dash", "\u2014\u2015\u2e3a\u2e3b\u301c\u3030\u30a0\ufe31\ufe58", ids=ascii)
def test_a_long_dash_to_another_number_hides_none(dash):
    for text, rule, start, end in (
        ("536-90-4399~2 copies", "us_ssn", 0, 11),
        ("Jan 5~536-90-4399", "us_ssn", 6, 17),
        ("2~536-90-4399~2", "us_ssn", 2, 13),
        ("SSN 536904399~2", "us_ssn_labelled", 4, 13),
        ("212-867-5309~24 hours", "phone_us", 0, 12),
        ("24~212-867-5309", "phone_us", 3, 15),
        ("+44 20 7946 0958~24", "phone_international", 0, 16),
        ("4539 1488 0343 6467~24", "credit_card", 0, 19),
        ("536~90~4399", "us_ssn", 0, 11),
        ("2 536~90~4399", "us_ssn", 2, 13),
        ("4539~1488~0343~6467", "credit_card", 0, 19),
    ):
        found = scan(PII_RULES, text.replace("~", dash), skip_documentation=True)
        assert [(new.rule.id, new.start, new.end) for new in found] == [(rule, start, end)], text


def test_both_forms_of_a_text_with_long_dashes_are_united_in_its_order():
    text = "536\u201490\u20144399, 536-90-4398\u20142, bob@gmail.com, 4539\u20141488\u20140343\u20146467"
    found = scan(PII_RULES, text, skip_documentation=True)
    assert [(new.rule.id, new.start) for new in found] == [
        ("us_ssn", 0),
        ("us_ssn", 13),
        ("email", 28),
        ("credit_card", 43),
    ]
    assert names("078\u201405\u20141120, 078-05-1120\u20142, 4242\u20144242\u20144242\u20144242", PII_RULES) == []


EAST_ASIAN = ((0x1100, 0x11FF), (0x3001, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3))


def test_chinese_japanese_and_korean_text_takes_the_quick_way_unless_it_has_a_dash_or_a_digit():
    for first, last in EAST_ASIAN:
        for point in range(first, last + 1):
            assert bool(_EXOTIC.search(chr(point))) == (chr(point) in "\u301c\u3030\u30a0"), hex(point)
    assert _EXOTIC.search("\u3000")


def test_the_verification_code_of_a_test_card_makes_no_card_of_it():
    for code in range(1000):
        assert names(f"4242 4242 4242 4242 {code:03}") == []


def test_tables_of_numbers_hold_no_cards():
    rng = random.Random(5)
    for gap in ("  ", "   ", "\t", "\n", "\r\n", " | "):
        table = gap.join(str(rng.choice((4, 51, 55, 37))) + f"{rng.randrange(1000):03}" for _ in range(4000))
        assert names(f"Cards, and their number by year:\n{table}") == [], ascii(gap)


def test_full_width_and_mathematical_characters_spaces_and_dashes_are_plain():
    assert fold("ａ＠ｂ．ｃ 𝟒𝗮\u2009\u202f\u3000\u00a0\u2010\u2013\u2212") == "a@b.c 4a    ---"


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_findings_point_at_the_text_itself(rule):
    for example in rule.examples:
        before, after = "Überall 😀 ", ", ok."
        for found in scan([rule], before + example + after, skip_documentation=True):
            assert len(before) <= found.start < found.end <= len(before) + len(example)


@given(st.text(), st.text())
def test_any_text_can_be_scanned(text, other):
    for found in scan(ALL, text + "4539 1488 0343 6467" + other, skip_documentation=False):
        assert 0 <= found.start < found.end


def test_a_stretch_is_reported_once_by_the_most_specific_rule():
    body = "Uaq1B5GTqMnvA4BhclZZH8BWOLocxsd5ra3HbBrCjzgT7f9K"
    assert names(f'api_key = "sk-{body}"') == ["openai_api_key"]
    assert names(f"api_key=sk-{body[:43]}") == ["h2o_api_key"]


def test_findings_come_in_the_order_of_the_text():
    text = "536-90-4399, bob@gmail.com, 4539 1488 0343 6467, ann@gmail.com"
    assert names(text) == ["us_ssn", "email", "credit_card", "email"]


def test_findings_are_bounded():
    assert len(names("bob@gmail.com " * 5000)) == MAX_FINDINGS


UNITS = ["@", "a@", "a.", "a.a@", "1-", "1 ", "1111 ", "4111-", "411111", "a", "a-", "-----BEGIN CERTIFICATE-----"]
UNITS += ["sk-", "sk-a", "eyJ", "eyJa.", "password=", "password: a1", "key=", "AAAAA-", "BBBB2-", "SSN ", "passport "]
UNITS += ["-----BEGIN PRIVATE KEY-----a: b\n", "GB82", "+1 ", "1.", "xn--", "a@xn--", "-", "=", "123-45-", "ghp_", "A1"]
UNITS += ["９", "é@é.", "\u200b", "\n", "\\n", "-----BEGIN CERTIFICATE-----\\n", "key: key", "AKIA", "_live_", "x@y.z,"]


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_a_long_hostile_text_takes_linear_time(unit):
    def seconds(size):
        text = (unit * (size // len(unit) + 1))[:size]
        started = time.process_time()
        scan(ALL, text, skip_documentation=True)
        return time.process_time() - started

    assert seconds(300_000) < max(0.8, 40 * seconds(30_000))


@pytest.mark.parametrize("start", ["-----BEGIN PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----", "password: ", "SSN "])
@pytest.mark.parametrize("unit", ["a: ", "Version: 3 Issuer: CN=x ", "a:", "\\n", " ", "a: b\n", "a-", "1 "])
def test_what_follows_the_start_of_a_secret_takes_linear_time(start, unit):
    started = time.process_time()
    scan(ALL, start + unit * 10_000, skip_documentation=True)
    assert time.process_time() - started < 5


def test_prose_with_numbers_raises_no_alarm():
    words = (
        "revenue 2024 15,969 million 3.14 12/31/2024 10:30 $1,234.56 v1.2.3 +5% (2019-2023) ISBN 978-3-16-148410-0 #42"
    )
    rng = random.Random(7)
    text = " ".join(rng.choice(words.split()) for _ in range(5000))
    assert names(text, choose(PII_RULES, ("default",))) == []
    assert names(text, SECRET_RULES) == []
