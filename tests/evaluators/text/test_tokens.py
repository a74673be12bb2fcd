"""The tokenizers equal their reference implementations on any text."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.text.tokens import nltk_words, rouge_words, valor_words

WORDS = "foo a I it's don't I'll cannot Cannot wanna gimme 'tis d'ye more'n dogs'".split()
MARKS = "' '' \" \"\" ` “ ” ’ « ( ) [ } < . .. , : ; ? * --".split()
OTHERS = "– 1,000 3.5 U.S. $ % é हिन्दी 😀 \ud800 \0 ² _ 's n't Σ İ -".split()
SPACES = (" ", " ", " ", "  ", "\n", "\t", "\x1c", "\xa0", "\u2028")
PIECES = st.sampled_from([*WORDS, *MARKS, *OTHERS, *SPACES])
TEXTS = st.one_of(st.lists(PIECES, max_size=20).map("".join), st.text(max_size=40))


@settings(max_examples=1500, deadline=None)
@given(TEXTS.map(str.strip))
@example('""quoted" twice')
@example("He said (softly. )")
@example("the end. ) '")
@example("dogs'\tbark")
@example("")
def test_words_of_a_sentence_are_those_of_nltk(sentence):
    from nltk.tokenize import NLTKWordTokenizer

    assert nltk_words([sentence]) == NLTKWordTokenizer().tokenize(sentence)


def test_words_of_several_sentences_follow_each_other():
    assert nltk_words(["It can't be.", "Cannot it?"]) == ["It", "ca", "n't", "be", ".", "Can", "not", "it", "?"]


@settings(max_examples=600, deadline=None)
@given(TEXTS, st.booleans())
@example("ΟΔΟΣ flipping Flies IKB", True)
def test_rouge_words_are_those_of_rouge_score(text, stem):
    from rouge_score.tokenizers import DefaultTokenizer

    assert rouge_words(text, stem=stem) == DefaultTokenizer(use_stemmer=stem).tokenize(text)


@settings(max_examples=600, deadline=None)
@given(TEXTS)
def test_valor_words_are_those_of_its_regular_expression_in_nltk(text):
    from nltk.tokenize import RegexpTokenizer

    assert valor_words(text) == RegexpTokenizer(r"\w+|\$[\d]+|[^\s\.]+").tokenize(text)


def test_a_million_characters_are_tokenized():
    text = "word " * 100_000 + '"quoted" ' * 50_000
    assert len(nltk_words([text.strip()])) == 100_000 + 3 * 50_000
    assert len(rouge_words(text)) == 150_000
    assert len(valor_words(text)) == 150_000
