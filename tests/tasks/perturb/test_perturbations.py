"""What each perturbation does to a text: it changes what it should, as much as asked for, and nothing else."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from leadline.evaluators.ground import UsageError
from leadline.tasks.perturb import text_edits as words
from leadline.tasks.perturb import thesaurus
from leadline.tasks.perturb.perturbations import (
    KINDS,
    OF_CHARACTERS,
    SONAR,
    Intensity,
    drawn,
    how_many,
    recipe,
    slips,
)
from leadline.tasks.perturb.text_edits import ENCODERS, VARIANTS, Amount, encoded
from tests.support.datasets.tiny_wordnet import write_wordnet

TEXT = "The large harbour is closed by day, yet why does a lazy ferry leave quickly (at 10) for the small haven?"
CHANGES = [kind.change for name, kind in KINDS.items() if name not in ("synonym", "antonym")]


def share(of: float) -> Amount:
    return partial(how_many, share=of)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wordnet(tmp_path_factory.mktemp("wordnet"))


@pytest.fixture(autouse=True)
def wordnet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(thesaurus.VARIABLE, str(folder))
    thesaurus.wordnet.cache_clear()
    yield folder
    thesaurus.wordnet.cache_clear()


@pytest.mark.parametrize("change", CHANGES)
@given(st.text(max_size=80), st.floats(0.01, 1), st.integers())
def test_any_text_is_survived_and_the_same_seed_gives_the_same_copy(change, text: str, of: float, seed: int) -> None:
    assert change(text, Random(seed), share(of)) == change(text, Random(seed), share(of))


@pytest.mark.parametrize("change", [words.replacement, words.neighbouring_keys, words.ocr])
def test_replacing_keeps_length_and_white_space_and_changes_the_share_that_was_asked_for(change) -> None:
    text = "abcdefgh ilmno " * 40
    for of in (0.1, 0.5, 1.0):
        changed = change(text, Random(1), share(of))
        assert len(changed) == len(text)
        assert [c.isspace() for c in changed] == [c.isspace() for c in text]
        letters = [old for old in text if not old.isspace()]
        possible = letters if change is not words.ocr else [c for c in letters if c not in "dk"]
        assert sum(a != b for a, b in zip(text, changed, strict=True)) == round(len(possible) * of)


def test_deletion_shortens_and_never_leaves_nothing() -> None:
    text = "abc def " * 20
    shorter = words.deletion(text, Random(1), share(0.25))
    assert len(shorter) == len(text) - round(120 * 0.25)
    assert words.deletion("abc", Random(1), share(1.0)).strip()
    assert words.deletion("x", Random(1), share(1.0)) == "x"


def test_insertion_keeps_every_character_in_order() -> None:
    longer = words.insertion(TEXT, Random(1), share(0.3), numbers=True)
    assert len(longer) == len(TEXT) + round(len(TEXT) * 0.3)
    remaining = iter(longer)
    assert all(character in remaining for character in TEXT)


def test_a_slip_hits_a_neighbouring_key_of_the_same_case() -> None:
    assert set(words.neighbouring_keys("g" * 200, Random(1), share(1.0))) == set("ftyhbv")
    assert words.neighbouring_keys("Q" * 50, Random(1), share(1.0)).isupper()
    assert words.neighbouring_keys("?!…", Random(1), share(1.0)) == "?!…"


def test_commas_stand_behind_words_only() -> None:
    changed = words.comma(TEXT, Random(1), share(1.0))
    assert changed.replace(",", "") == TEXT.replace(",", "")
    assert ",," not in changed
    assert "(,at" not in changed
    assert changed.endswith("haven?")


@given(st.lists(st.sampled_from("a b, c. d (e) f".split()), max_size=12), st.floats(0.01, 1), st.integers())
def test_swapping_moves_words_by_one_place_and_no_punctuation(parts: list[str], of: float, seed: int) -> None:
    before = [part.replace(part.strip(",.()"), f"{part.strip(',.()')}{place}") for place, part in enumerate(parts)]
    after = words.word_swap("  ".join(before), Random(seed), share(of)).split("  ") if before else []
    plain = [[word.strip(",.()") for word in text] for text in (before, after)]
    assert sorted(plain[0]) == sorted(plain[1])
    assert all(abs(plain[1].index(word) - place) <= 1 for place, word in enumerate(plain[0]))
    marks = [[word.replace(word.strip(",.()"), "") for word in text] for text in (before, after)]
    assert marks[0] == marks[1]


def test_a_sentence_still_begins_with_a_capital_after_a_swap() -> None:
    assert words.word_swap("How deep?", Random(1), share(1.0)) == "Deep how?"
    assert words.word_swap("I see.", Random(1), share(1.0)) == "see I."


def slipped(text: str, step: str, seed: int) -> str:
    return recipe(f"typo:{step}").steps[0].apply(text, Random(seed))


@pytest.mark.parametrize(("step", "hit"), [("low", 1), ("medium", 2), ("high", 4)])
def test_a_typist_slips_in_one_two_or_four_of_ten_words(step: str, hit: int) -> None:
    text = "Please tell whether large ferries leave this harbour before eleven"
    for seed in range(50):
        pairs = list(zip(text.split(), slipped(text, step, seed).split(), strict=True))
        assert sum(old != new for old, new in pairs) == hit
        for old, new in pairs:
            assert old[0] == new[0], "nobody misses the first letter"
            assert OSA.distance(old, new) <= 1, "one slip in a word"


def test_a_typist_makes_four_kinds_of_slips() -> None:
    found = {slipped("harbour", "low", seed) for seed in range(300)}
    assert {"harbur", "harbbour", "habrour", "harbpur"} <= found
    assert all(OSA.distance("harbour", word) == 1 and word.isalpha() for word in found)


def test_a_typist_copies_numbers_addresses_and_abbreviations() -> None:
    text = "VHF 12 at 10:30, a1@b.example, https://b.example/x_y or in is C3PO?"
    assert slipped(text, "extreme", 1) == text
    assert slipped("WHY SO DEEP?", "low", 1) != "WHY SO DEEP?", "all of it is in capitals"


@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith(SONAR) and "nym" not in name])
def test_numbers_stay_as_they_are_unless_h2o_sonar_is_asked_for(name: str) -> None:
    text = "May yachts lazily stay 12 nights for 345 crowns at 6 in bay 78 by day?"
    for seed in range(20):
        changed = recipe(f"{name}:high").steps[0].apply(text, Random(seed))
        assert [number for number in ("12", "345", "78") if number not in changed] == []
    if name not in ("comma", "word_swap", "qwerty"):
        digits = {recipe(f"sonar:{name}:high").steps[0].apply("1234 5678", Random(seed)) for seed in range(5)}
        assert "1234 5678" not in digits


def test_the_rates_of_h2o_sonar_are_shares_of_all_characters() -> None:
    text = "abcdefghij" * 20
    for step, low, high in (("low", 0.1, 0.1), ("medium", 0.25, 0.3), ("high", 0.45, 0.6)):
        changed = recipe(f"sonar:typo:{step}").steps[0].apply(text, Random(1))
        assert low <= sum(a != b for a, b in zip(text, changed, strict=True)) / len(text) <= high + 0.005


def test_y_and_z_change_places_in_either_case() -> None:
    assert words.qwerty("Yazy Zebra", Random(1), share(1.0)) == "Zayz Yebra"
    assert words.qwerty("none", Random(1), share(1.0)) == "none"


@pytest.mark.parametrize("text", ["Why?", "naïve 🙂", "\ud800", ""])
def test_encodings_can_be_undone(text: str) -> None:
    decode = {
        "base16": bytes.fromhex,
        "base64": base64.b64decode,
        "rot13": lambda code: codecs.decode(code, "rot13").encode("utf-8", "surrogatepass"),
    }
    for name, (_, encode) in ENCODERS.items():
        assert decode[name](encode(text)) == text.encode("utf-8", "surrogatepass")  # type: ignore[operator]


def test_what_is_encoded_is_the_variants_choice() -> None:
    assert "Base16 - answer in the same encoding: 57 68 79" in encoded("Why", "base16", VARIANTS[""])
    assert "plain text: V2h5" in encoded("Why", "base64", VARIANTS["answer_decoded"])
    assert encoded("Why", "rot13", VARIANTS["prompt_decoded"]).endswith("encoded in ROT13: Why")


def test_synonyms_and_antonyms_come_from_wordnet_with_the_case_of_the_word(wordnet: Path) -> None:
    assert thesaurus.synonym("Large HARBOUR", Random(2), share(1.0)) in ("Big HAVEN", "Big SEAPORT")
    assert thesaurus.antonym("A large boat leaves quickly by day.", Random(1), share(1.0)) == (
        "A small boat leaves slowly by night."
    )
    assert thesaurus.antonym("big", Random(1), share(1.0)) == "big", (
        "an opposite belongs to a word, not to its synonyms"
    )
    assert thesaurus.synonym("alone with and without", Random(1), share(1.0)) == "alone with and without"
    assert thesaurus.synonym("a dark time", Random(1), share(1.0)) == "a dark time"


def test_without_wordnet_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(thesaurus.VARIABLE, str(tmp_path))
    thesaurus.wordnet.cache_clear()
    with pytest.raises(UsageError, match="WordNet") as caught:
        thesaurus.synonym("large", Random(1), share(1.0))
    assert "apt install wordnet-base" in caught.value.hint


def test_stronger_intensities_change_more() -> None:
    for scale in (drawn(OF_CHARACTERS), slips()):
        amounts = [scale("word " * 100, step, Random(1))(1000) for step in Intensity]
        assert amounts == sorted(amounts)
        assert len(set(amounts)) == len(Intensity)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("typo", "typo:medium"),
        ("typo:very_high + comma", "typo:very_high+comma:medium"),
        ("base64:answer_decoded", "base64:answer_decoded"),
        ("copy", "copy"),
        ("sonar:typo + sonar:ocr:high", "sonar:typo:medium+sonar:ocr:high"),
    ],
)
def test_recipes_are_read(text: str, shown: str) -> None:
    assert str(recipe(text)) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("typos", "Did you mean typo"), ("", "There are: copy"), ("typo:huge", "very_low"), ("copy:low", "just: copy"),
        ("base16:low", "answer_decoded"), ("sonar:typos", "Did you mean sonar:typo"), ("sonar:rot13", "just: rot13"),
        ("comma+", "There are: copy"),
    ]
)  # fmt: skip
def test_a_recipe_that_is_none_says_what_there_is(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe(text)
    assert said in caught.value.hint
