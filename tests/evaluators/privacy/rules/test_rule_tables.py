"""Every rule of every table is held against its own examples."""

import pytest

from leadline.evaluators.privacy.rules.matching import Rule, scan
from leadline.evaluators.privacy.rules.pii import PII_RULES
from leadline.evaluators.privacy.rules.secrets import SECRET_RULES

RULES = (*PII_RULES, *SECRET_RULES)


def cases(attribute: str) -> list:
    return [
        pytest.param(rule, text, id=f"{rule.name}-{number}")
        for rule in RULES
        for number, text in enumerate(getattr(rule, attribute))
    ]


def found(rule: Rule, text: str, *, skip_documentation: bool) -> bool:
    return bool(scan([rule], text, skip_documentation=skip_documentation))


@pytest.mark.parametrize(("rule", "text"), cases("examples"))
def test_an_example_is_found_whether_or_not_documentation_counts(rule, text):
    assert found(rule, text, skip_documentation=True)
    assert found(rule, text, skip_documentation=False)
    assert found(rule, f"Before it, {text} and after it.", skip_documentation=True)


@pytest.mark.parametrize(("rule", "text"), cases("counterexamples"))
def test_a_counterexample_is_not_found(rule, text):
    assert not found(rule, text, skip_documentation=False)


@pytest.mark.parametrize(("rule", "text"), cases("documentation"))
def test_a_documentation_example_is_found_only_when_asked_for(rule, text):
    assert found(rule, text, skip_documentation=False)
    assert not found(rule, text, skip_documentation=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_examples_of_both_kinds_and_a_source(rule):
    assert rule.examples
    assert rule.counterexamples
    assert rule.source
    assert (rule.documented is None) == (not rule.documentation)


def test_rule_names_are_unique():
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
