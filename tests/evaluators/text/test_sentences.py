"""Sentences keep their places in the text, lose nothing, and name the splitter that cut them."""

import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.ground import UsageError
from leadline.evaluators.text.sentences import LANGUAGES, PUNKT_LANGUAGES, PunktSplitter, nltk_folders, splitter_for

WORDS = ("- ", "a) ", *"a B Dr. J. e.g. U.S. 1. 😀 e\u0301 你好 مرحبا नमस्ते \ud800 \0".split())
STOPS = (".", "!", "?", "。", "！", "？", "؟", "।", "።", "…", '"', "“", "”", "(", ")", "'")
SPACES = (" ", " ", "\n", "\r\n", "\n\n", "\t", "\x85", "\xa0", "\u3000", "\u2028", "\x1c", "\x0b", "\u200b")
PIECES = st.sampled_from([*WORDS, *STOPS, *SPACES])
TEXTS = st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=60))


def assert_faithful(text, sentences):
    """Every span is exact, they are in order, and nothing but white space lies between them."""
    at = 0
    for sentence in sentences:
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.text == sentence.text.strip() != ""
        assert text[at : sentence.start].strip() == ""
        at = sentence.end
    assert text[at:].strip() == ""


@settings(max_examples=1000, deadline=None)
@given(TEXTS, st.sampled_from(["en", "de", "zh", "ja", "ar", "hi", "am", "ru", "my", "fr"]))
@example("I.\x85", "en")
@example("J.\xa0R. Smith", "en")
@example("no stop", "en")
def test_rules_keep_every_place_and_lose_no_text(text, language):
    assert_faithful(text, splitter_for(language, "rules").split(text))


@pytest.mark.parametrize(
    ("language", "text", "count"),
    [
        ("en", "Dr. Smith left. Did he?\r\nHe did!\r\n\r\nNo stop", 4),
        ("zh", "你好。吃了吗？好！", 3),
        ("ar", "مرحبا. كيف حالك؟ بخير", 3),
        ("en", "one long line without any stop", 1),
        ("en", " \n\t ", 0),
        ("en", "", 0),
    ],
)
def test_sentences_are_found(language, text, count):
    sentences = splitter_for(language, "rules").split(text)
    assert len(sentences) == count
    assert_faithful(text, sentences)


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "a. " * 10**5, "\n" * 10**6, "。" * 10**5, '"' * 10**6, "\ud800" * 10**5]
)
def test_huge_texts_are_split_by_rules(text):
    assert_faithful(text, splitter_for("en", "rules").split(text))


@pytest.mark.parametrize("language", ["english", "EN", "en-US", "xx", "", "../en", "x" * 500])
def test_what_is_no_language_code_is_refused_with_advice(language):
    with pytest.raises(UsageError, match=r"no language code.*for example en"):
        splitter_for(language)


def test_every_punkt_language_is_a_language():
    assert set(PUNKT_LANGUAGES) <= LANGUAGES


def test_identity_names_library_language_and_version():
    assert splitter_for("de", "rules").identity.startswith("sentencex-de@1.")


def test_a_language_without_punkt_cannot_be_asked_for_it():
    with pytest.raises(UsageError, match="no punkt data for language 'zh'"):
        splitter_for("zh", "punkt")


def in_fresh_process(code, folder):
    environment = os.environ | {"NLTK_DATA": str(folder), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_looking_for_absent_punkt_data_does_not_import_nltk(tmp_path):
    code = """
        import sys
        from leadline.evaluators.ground.errors import UsageError
        from leadline.evaluators.text.sentences import nltk_folders, splitter_for
        nltk_folders.__globals__["sys"].prefix = "/nowhere"
        print(splitter_for("ml").identity)
        try:
            splitter_for("ml", "punkt")
        except UsageError as error:
            print("refused" if "nltk.downloader punkt_tab" in str(error) else error)
        print("nltk" in sys.modules)
    """
    identity, refused, imported = in_fresh_process(code, tmp_path)
    assert identity.startswith("sentencex-ml@")
    assert (refused, imported) == ("refused", "False")


def test_search_path_is_that_of_nltk(tmp_path):
    code = """
        from leadline.evaluators.text.sentences import nltk_folders
        before = nltk_folders()
        import nltk.data
        print(before == nltk_folders())
    """
    assert in_fresh_process(code, tmp_path) == ["True"]
    assert nltk_folders()


@pytest.fixture(scope="module")
def punkt():
    """A punkt model that knows "Dr." and "Mr." as abbreviations, and nothing else."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = {"dr", "mr"}
    return PunktSplitter("english", PunktSentenceTokenizer(parameters))


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_punkt_keeps_every_place_and_loses_no_text(punkt, text):
    assert_faithful(text, punkt.split(text))


def test_punkt_knows_its_abbreviations(punkt):
    texts = [sentence.text for sentence in punkt.split("Dr. Smith left. Mr. Jones did not!")]
    assert texts == ["Dr. Smith left.", "Mr. Jones did not!"]


@pytest.mark.parametrize("text", ["a" * 10**6, "Dr. No left. " * 5_000, " " * 10**6, "x. " * 20_000, "... " * 10_000])
def test_punkt_splits_long_texts_by_windows(punkt, text):
    sentences = punkt.split(text)
    assert_faithful(text, sentences)
    if text.startswith("Dr."):
        assert [sentence.text for sentence in sentences] == ["Dr. No left."] * 5_000


@pytest.mark.slow
def test_installed_punkt_data_is_used_and_identified(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    code = f"""
        from pathlib import Path
        from leadline.evaluators.text.sentences import splitter_for
        from nltk.tokenize.punkt import PunktTrainer, save_punkt_params
        for words in ("Dr. Who met Mr. Hill. ", "Prof. Who met Lt. Hill. "):
            trainer = PunktTrainer()
            trainer.train(words * 30)
            folder = Path({str(data)!r}, "tokenizers", "punkt_tab", "english")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            save_punkt_params(trainer.get_params(), dir=str(folder))
            splitter_for.cache_clear()
            print(splitter_for("en").identity)
    """
    first, second = in_fresh_process(code, data)
    assert first.startswith("punkt-en@nltk-")
    assert second.startswith("punkt-en@nltk-")
    assert first != second
