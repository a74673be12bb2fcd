"""chrF, TER and METEOR against sacrebleu and NLTK."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF, TER

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.generation.translation import MOST_WORDS, _NoSynonyms
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.tokens import nltk_words

CTX = EvalContext(Settings(splitter="rules", device="cpu"))
text = st.lists(st.sampled_from("the cat sat on a mat . , Pumps pumping naïve 水 7".split()), max_size=12).map(" ".join)
row = st.tuples(text, st.lists(text, min_size=1, max_size=3))
corpus = st.lists(row, min_size=1, max_size=6)
LIBRARIES = {
    "chrf": (CHRF, [{}, {"word_order": 2}, {"char_order": 3, "beta": 1, "lowercase": True}]),
    "ter": (TER, [{}, {"normalized": True, "no_punct": True}, {"case_sensitive": True}]),
}
CASES = [(name, kind, params) for name, (kind, every) in LIBRARIES.items() for params in every]


def evaluator(name, **params):
    kind = get(name)
    return kind(kind.parameters.build(name, params))


def score(name, pairs, **params):
    rows = [Row("c", "m", expected_answers=tuple(expected), actual_answer=answer) for answer, expected in pairs]
    return evaluator(name, **params).score(rows, CTX)


@pytest.mark.parametrize(("name", "library", "params"), CASES)
@settings(max_examples=40)
@given(pairs=corpus)
def test_rows_and_corpora_score_as_in_sacrebleu(name, library, params, pairs):
    scores = score(name, pairs, **params)
    for (answer, expected), found in zip(pairs, scores, strict=True):
        assert found.values[name] == pytest.approx(library(**params).sentence_score(answer, expected).score)
    ours = evaluator(name, **params)
    prepared = ours.prepare([found.payload for found in scores])
    [whole] = ours.aggregate(prepared, np.ones((1, len(pairs))))[name]
    # a stream of expected answers has None where a row has fewer
    streams = [[expected[n] if n < len(expected) else None for _, expected in pairs] for n in range(3)]
    streams = [stream for stream in streams if any(each is not None for each in stream)]
    theirs = library(**params).corpus_score([answer for answer, _ in pairs], streams)
    assert whole == pytest.approx(theirs.score)


@pytest.mark.parametrize(("name", "library", "params"), CASES)
def test_details_hold_the_signature_of_sacrebleu(name, library, params):
    pairs = [("the cat", ["a cat"]), ("a mat", ["the mat"])]
    ours = evaluator(name, **params)
    prepared = ours.prepare([found.payload for found in score(name, pairs, **params)])
    theirs = library(**params)
    theirs.corpus_score([answer for answer, _ in pairs], [[expected for _, [expected] in pairs]])
    [note] = ours.details(prepared, np.ones(2), ["0", "1"])["notes"]
    assert note == f"Signature of sacrebleu: {theirs.get_signature()}."


def test_weights_count_rows_as_often():
    pairs = [("the cat sat", ["a cat sat"]), ("pumps", ["a naïve pump"])]
    for name in LIBRARIES:
        ours = evaluator(name)
        twice = ours.prepare([found.payload for found in score(name, [*pairs, pairs[0]])])
        once = ours.prepare([found.payload for found in score(name, pairs)])
        expected = ours.aggregate(twice, np.ones((1, 3)))[name]
        assert ours.aggregate(once, np.array([[2.0, 1.0]]))[name] == pytest.approx(expected)


def test_texts_whose_moves_take_minutes_are_unscorable():
    long = "word " * (MOST_WORDS + 1)
    for pair in ((long, ["a"]), ("a", [long]), ("a", ["b " * 290] * 100)):
        [found] = score("ter", [pair])
        assert isinstance(found.values["ter"], Unscored)
        assert found.values["ter"].reason is Reason.UNSCORABLE
    for pair in (("水" * 400, ["水"]), ("a,b;" * 20_000, ["a"])):  # one word that is taken apart
        [found] = score("ter", [pair], normalized=True, asian_support=True)
        assert isinstance(found.values["ter"], Unscored)


@settings(max_examples=60)
@given(pairs=corpus)
def test_meteor_is_nltks(pairs):
    from nltk.translate.meteor_score import meteor_score  # brings scikit-learn and scipy.stats

    for (answer, expected), found in zip(pairs, score("meteor", pairs, synonyms=False), strict=True):
        words = [nltk_words([each.text for each in CTX.sentences(one)]) for one in (answer, *expected)]
        assert found.values["meteor"] == pytest.approx(meteor_score(words[1:], words[0], wordnet=_NoSynonyms()))


def test_meteor_says_which_stages_it_made(monkeypatch, tmp_path: Path):
    pair = ("the pumps are pumping", ["the pump is pumped"])
    monkeypatch.setattr("leadline.evaluators.generation.translation.nltk_folders", lambda: [tmp_path])
    [without] = score("meteor", [pair])
    assert without.values["meteor"] > 0.5
    assert without.evidence.data["stages"] == ["form", "stem"]
    assert "python -m nltk.downloader wordnet" in without.evidence.message
    [asked] = score("meteor", [pair], synonyms=False)
    assert asked.values == without.values
    assert not asked.evidence.message
    plain = evaluator("meteor").identity(CTX)
    (tmp_path / "corpora" / "wordnet").mkdir(parents=True)
    assert evaluator("meteor").identity(CTX) == plain  # a folder without its data
    (tmp_path / "corpora" / "wordnet" / "lexnames").touch()
    assert evaluator("meteor").identity(CTX) != plain


def test_meteor_matches_synonyms_where_there_is_a_wordnet(monkeypatch):
    class Lemma:
        def name(self):
            return "kitten"

    class Synset:
        def lemmas(self):
            return [Lemma()]

    class WordNet:
        def synsets(self, word):
            return [Synset()] if word == "cat" else []

    monkeypatch.setattr("leadline.evaluators.generation.translation._wordnet", WordNet)
    [found] = score("meteor", [("the cat", ["the kitten"])])
    assert found.values["meteor"] == pytest.approx(0.9375)
    assert found.evidence.data["stages"] == ["form", "stem", "meaning"]
