"""A suite with perturbed copies: linked, labelled, repeatable, and fit to be evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row
from leadline.evaluators.ground import UsageError
from leadline.evaluators.privacy.encoding_guardrail import EncodingGuardrail
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.perturb.copies import Perturbed, perturb
from leadline.tasks.perturb.perturbations import recipe
from leadline.tasks.perturb.thesaurus import VARIABLE, wordnet
from leadline.tasks.store.store import Store
from tests.support.datasets.tiny_wordnet import write_wordnet

CASES: list[dict[str, Any]] = [
    {"case": "a", "question": "Is the large harbour closed in fog?", "expected_answer": "Fog", "condition": '"fog"',
     "categories": ["berths"]},
    {"case": "b", "question": "Which zone?", "expected_answer": ["Yes", "No"], "metadata": {"n": 1}},
    {"case": "c", "expected_answer": "nothing asked"},
    {"case": "a2", "question": "Why, is it closed?",
     "relationships": [{"type": "perturbation_source", "target": "a", "perturbation": "comma"}]},
]  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    return path


def perturbed(suite: Path, *recipes: str, name: str = "out", **options: Any) -> tuple[dict[str, Any], Perturbed]:
    store = Store.open(suite.parent / "store")
    loaded = load_dataset(store, suite, cases_only=True)
    output = suite.parent / f"{name}.jsonl"
    done = perturb(store, loaded, [recipe(text) for text in recipes], output, **options)
    return {case["case"]: case for case in map(json.loads, output.read_text(encoding="utf-8").splitlines())}, done


def test_copies_are_linked_and_labelled_and_originals_are_kept(suite: Path) -> None:
    cases, done = perturbed(suite, "typo:low", "comma+word_swap")
    assert done.cases == 4
    assert done.copies == {"typo:low": 2, "comma:medium+word_swap:medium": 1}
    assert done.unchanged == {"comma:medium+word_swap:medium": 1}, "no words are swapped across a comma"
    assert {key for key in cases if "~" not in key} == {"a", "b", "c", "a2"}
    copy = cases["a~typo:low"]
    assert copy["question"] != CASES[0]["question"]
    assert copy["expected_answer"] == ["Fog"]
    assert copy["condition"] == '"fog"'
    assert copy["relationships"] == [{"type": "perturbation_source", "target": "a", "perturbation": "typo:low"}]
    assert copy["categories"] == ["berths", "perturbed", "perturbed_by:typo:low"]
    assert cases["b~typo:low"]["metadata"] == {"n": 1}
    assert not {"c~typo:low", "a2~typo:low"} & set(cases)
    assert load_dataset(Store.open(suite.parent / "again"), suite.parent / "out.jsonl", cases_only=True).cases == 7


def test_the_same_seed_gives_the_same_copy_whatever_else_is_asked_for(suite: Path) -> None:
    one, _ = perturbed(suite, "typo", name="one")
    two, _ = perturbed(suite, "ocr", "typo", name="two")
    other, _ = perturbed(suite, "typo", name="other", seed=2)
    assert one["a~typo:medium"] == two["a~typo:medium"]
    assert one["a~typo:medium"]["question"] != other["a~typo:medium"]["question"]


def test_several_copies_differ(suite: Path) -> None:
    cases, done = perturbed(suite, "character_replacement:high", copies=3)
    assert done.copies.total() == 6
    texts = {case["question"] for key, case in cases.items() if key.startswith("a~")}
    assert len(texts) == 3


def test_a_question_with_nothing_to_change_gets_no_copy_but_a_plain_copy_may_be_equal(suite: Path) -> None:
    cases, done = perturbed(suite, "qwerty", "copy")
    assert "a~qwerty:medium" not in cases
    assert done.unchanged == {"qwerty:medium": 1}
    assert cases["b~copy"]["question"] == CASES[1]["question"]


def test_where_the_meaning_changes_the_expected_answer_goes(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(write_wordnet(tmp_path / "wordnet")))
    wordnet.cache_clear()
    cases, _ = perturbed(suite, "antonym", "synonym")
    assert "small" in cases["a~antonym:medium"]["question"]
    assert not {"expected_answer", "condition"} & set(cases["a~antonym:medium"])
    assert cases["a~synonym:medium"]["expected_answer"] == ["Fog"]


def test_encoded_copies_are_known_to_the_encoding_guardrail(suite: Path) -> None:
    cases, _ = perturbed(suite, "base16")
    row = Row(case="a", model="m", actual_answer="66 6f 67", condition='"fog"',
              categories=tuple(cases["a~base16"]["categories"]))  # fmt: skip
    score = EncodingGuardrail().score([row], EvalContext())[0]
    assert not any(isinstance(value, NotApplicable) for value in score.values.values())


def test_what_makes_no_sense_is_refused_and_writes_nothing(suite: Path) -> None:
    for recipes, said in ((("typo", "typo"), "twice"), (("misinformation",), "judge")):
        with pytest.raises(UsageError, match=said):
            perturbed(suite, *recipes, name="none")
    suite.write_text(json.dumps({"case": "a", "question": "None here?"}), encoding="utf-8")
    with pytest.raises(UsageError, match="nothing in the questions to change"):
        perturbed(suite, "qwerty", name="none")
    assert not (suite.parent / "none.jsonl").exists()
