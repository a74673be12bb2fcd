"""Policies as files: what they take over, what is refused, and the file that ``policy show --toml`` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.tasks.policy.policy import Policy, load_policy, shipped
from leadline.tasks.policy.policy_text import as_toml, differences, in_words


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
