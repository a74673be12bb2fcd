"""What each perturbation does to a text: it changes what it should, as much as asked for, and nothing else."""

from __future__ import annotations

import base64
import codecs
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core.errors import UsageError
from leadline.tasks.perturb import characters, thesaurus, words
from leadline.tasks.perturb.encodings import ENCODERS, VARIANTS, encoded
from leadline.tasks.perturb.intensity import OF_CHARACTERS, Intensity, draw
from leadline.tasks.perturb.perturbations import KINDS, recipe
from tests.support.datasets.tiny_wordnet import write_wordnet

TEXT = "The large harbour is closed by day, yet why does a lazy ferry leave quickly (at 10) for the small haven?"
CHANGES = [kind.change for name, kind in KINDS.items() if name not in ("synonym", "antonym")]


@pytest.fixture
def wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_wordnet(tmp_path / "wordnet")
    monkeypatch.setenv(thesaurus.VARIABLE, str(folder))
    thesaurus.wordnet.cache_clear()
    return folder


@pytest.mark.parametrize("change", CHANGES)
@given(st.text(max_size=80), st.floats(0.01, 1), st.integers())
def test_any_text_is_survived_and_the_same_seed_gives_the_same_copy(change, text: str, share: float, seed: int) -> None:
    assert change(text, Random(seed), share) == change(text, Random(seed), share)


@pytest.mark.parametrize("change", [characters.replacement, characters.typo, characters.ocr])
def test_replacing_keeps_length_and_white_space_and_changes_the_share_that_was_asked_for(change) -> None:
    text = "abcdefgh ilmno " * 40
    for share in (0.1, 0.5, 1.0):
        changed = change(text, Random(1), share)
        assert len(changed) == len(text)
        assert [c.isspace() for c in changed] == [c.isspace() for c in text]
        letters = [old for old in text if not old.isspace()]
        possible = letters if change is not characters.ocr else [c for c in letters if c not in "dk"]
        assert sum(a != b for a, b in zip(text, changed, strict=True)) == round(len(possible) * share)


def test_deletion_shortens_and_never_leaves_nothing() -> None:
    text = "abc def " * 20
    shorter = characters.deletion(text, Random(1), 0.25)
    assert len(shorter) == len(text) - round(120 * 0.25)
    assert characters.deletion("abc", Random(1), 1.0).strip()
    assert characters.deletion("x", Random(1), 1.0) == "x"


def test_insertion_keeps_every_character_in_order() -> None:
    longer = characters.insertion(TEXT, Random(1), 0.3)
    assert len(longer) == len(TEXT) + round(len(TEXT) * 0.3)
    remaining = iter(longer)
    assert all(character in remaining for character in TEXT)


def test_a_slip_hits_a_neighbouring_key_of_the_same_case() -> None:
    assert set(characters.typo("g" * 200, Random(1), 1.0)) == set("ftyhbv")
    assert characters.typo("Q" * 50, Random(1), 1.0).isupper()
    assert characters.typo("?!…", Random(1), 1.0) == "?!…"


def test_commas_stand_behind_words_only() -> None:
    changed = words.comma(TEXT, Random(1), 1.0)
    assert changed.replace(",", "") == TEXT.replace(",", "")
    assert ",," not in changed
    assert "(,at" not in changed
    assert changed.endswith("haven?")


@given(st.lists(st.sampled_from("a b, c. d e f".split()), max_size=12), st.floats(0.01, 1), st.integers())
def test_swapping_keeps_the_words_and_moves_none_by_more_than_one_place(
    parts: list[str], share: float, seed: int
) -> None:
    before = [f"{part}{place}" if part[-1].isalpha() else f"{place}{part}" for place, part in enumerate(parts)]
    text = "  ".join(before)
    after = words.word_swap(text, Random(seed), share).split()
    assert sorted(after) == sorted(before)
    assert all(abs(after.index(word) - place) <= 1 for place, word in enumerate(before))


def test_y_and_z_change_places_in_either_case() -> None:
    assert words.qwerty("Yazy Zebra", Random(1), 1.0) == "Zayz Yebra"
    assert words.qwerty("none", Random(1), 1.0) == "none"


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
    assert thesaurus.synonym("Large HARBOUR", Random(2), 1.0) in ("Big HAVEN", "Big SEAPORT")
    assert thesaurus.antonym("A large boat leaves quickly by day.", Random(1), 1.0) == (
        "A small boat leaves slowly by night."
    )
    assert thesaurus.antonym("big", Random(1), 1.0) == "big", "an opposite belongs to a word, not to its synonyms"
    assert thesaurus.synonym("alone with and without", Random(1), 1.0) == "alone with and without"
    assert thesaurus.synonym("a dark time", Random(1), 1.0) == "a dark time"


def test_without_wordnet_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(thesaurus.VARIABLE, str(tmp_path))
    thesaurus.wordnet.cache_clear()
    with pytest.raises(UsageError, match="WordNet") as caught:
        thesaurus.synonym("large", Random(1), 1.0)
    assert "apt install wordnet-base" in caught.value.hint


def test_stronger_intensities_change_more() -> None:
    shares = [draw(OF_CHARACTERS, step, Random(1)) for step in Intensity]
    assert shares == sorted(shares)
    assert len(set(shares)) == len(Intensity)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("typo", "typo:medium"),
        ("typo:very_high + comma", "typo:very_high+comma:medium"),
        ("base64:answer_decoded", "base64:answer_decoded"),
        ("copy", "copy"),
    ],
)
def test_recipes_are_read(text: str, shown: str) -> None:
    assert str(recipe(text)) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("typos", "Did you mean typo"), ("", "There are: copy"), ("typo:huge", "very_low"), ("copy:low", "just: copy"),
        ("base16:low", "answer_decoded"), ("comma+", "There are: copy"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_none_says_what_there_is(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe(text)
    assert said in caught.value.hint
