"""Tables of rules are read strictly, and every rule is tested with its own examples."""

import re

import pytest

from leadline.evaluators.privacy.rules.checks import CHECKS
from leadline.evaluators.privacy.rules.matching import PatternRule, choose, load, rules_of, scan

PII = rules_of("pii")
RULES = (*PII, *rules_of("secrets"))


def cases(attribute: str) -> list:
    return [
        pytest.param(rule, text, id=f"{rule.id}-{number}")
        for rule in RULES
        for number, text in enumerate(getattr(rule, attribute))
    ]


def found(rule: PatternRule, text: str, *, skip_documentation: bool) -> bool:
    return bool(scan([rule], text, skip_documentation=skip_documentation))


@pytest.mark.parametrize(("rule", "text"), cases("examples"))
def test_an_example_is_found_whether_or_not_documentation_counts(rule, text):
    assert found(rule, text, skip_documentation=True)
    assert found(rule, text, skip_documentation=False)
    assert found(rule, f"Before it, {text} and after it.", skip_documentation=True)


@pytest.mark.parametrize(("rule", "text"), cases("near_misses"))
def test_a_near_miss_is_not_found(rule, text):
    assert not found(rule, text, skip_documentation=False)


@pytest.mark.parametrize(("rule", "text"), cases("documentation_examples"))
def test_a_documentation_example_is_found_only_when_asked_for(rule, text):
    assert found(rule, text, skip_documentation=False)
    assert not found(rule, text, skip_documentation=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_that_lets_documentation_pass_has_examples_of_it(rule):
    assert (rule.documentation_check is None) == (not rule.documentation_examples)


def test_no_rule_of_one_table_has_the_name_of_another():
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_used(check):
    assert any(check in (rule.check, rule.documentation_check) for rule in RULES)


def test_rules_are_chosen_by_name_in_the_order_of_the_table():
    assert [rule.id for rule in choose(PII, ("iban", "email"))] == ["email", "iban"]
    assert {"email", "iban", "ipv4", "phone_us", "de_tax_id"} <= {rule.id for rule in choose(PII, ("default",))}
    assert choose(PII, ("all",)) == PII
    with pytest.raises(ValueError, match="no rule called 'emial'; rules: default, all, au_tfn"):
        choose(PII, ("emial",))


RULE = """
[[rules]]
id = "badge"
description = "badge number"
regex = 'B-[0-9]{3}'
source = "us"
examples = ["B-{digits:3}"]
near_misses = ["B-{letters}"]
"""
PIECES = """
[pieces]
digits = "12345"
letters = "abc"
"""


def test_a_table_is_read_with_its_pieces(tmp_path):
    path = tmp_path / "badges.toml"
    path.write_text(PIECES + RULE)
    (rule,) = load(path)
    assert (rule.examples, rule.near_misses, rule.default) == (("B-123",), ("B-abc",), True)
    assert [found.start for found in scan([rule], "a B-1234567", skip_documentation=True)] == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules", "badges.toml: "),
        ("version = 2" + RULE, "badges.toml: version: there is no such field"),
        (RULE.replace("source", "sourc"), "badges.toml, rule 'badge': source is missing"),
        (RULE + "chek = 'luhn'", "rule 'badge': chek: there is no such field; did you mean check?"),
        (RULE + "check = 'luhn'", "rule 'badge': check: there is no check called 'luhn'; checks: has_digit_and_letter"),
        (RULE.replace("[0-9]{3}", "[0-9"), "rule 'badge': regex: "),
        (RULE + "default = 'no way'", "rule 'badge': default: 'no way' is not true or false"),
        (RULE + PIECES.replace("letters", "words"), "rule 'badge': there is no piece called 'letters'; pieces: digits"),
        (RULE + RULE, "rule 'badge': another rule has this id"),
        (RULE.replace('"us"', "[1]"), "rule 'badge': source: "),
        ("rules = 3", "badges.toml: rules: 3 is not a list"),
    ],
)
def test_a_table_with_a_fault_is_refused_with_its_place(tmp_path, text, message):
    path = tmp_path / "badges.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        load(path)
