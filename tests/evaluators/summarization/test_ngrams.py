"""BLEU from counted n-grams equals NLTK's."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.summarization.bleu import NGrams, bleu

WORDS = st.lists(st.sampled_from("abcd"), max_size=12)
WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(any).map(lambda w: [x / sum(w) for x in w])


@settings(max_examples=300, deadline=None)
@given(WORDS, st.lists(WORDS, min_size=1, max_size=3), st.lists(WEIGHTS, min_size=1, max_size=3))
def test_bleu_equals_nltk(hypothesis, references, weightings):
    from nltk.translate.bleu_score import sentence_bleu

    ours = bleu(NGrams(hypothesis), [NGrams(reference) for reference in references], weightings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [sentence_bleu(references, hypothesis, weights) for weights in weightings]
    assert ours == pytest.approx(theirs, abs=1e-12, rel=1e-9)


def test_counting_is_done_once_per_order():
    grams = NGrams(["a", "b", "a"])
    assert grams.counts(2) is grams.counts(2)
    assert dict(grams.counts(1)) == {"a": 2, "b": 1}
    assert dict(grams.counts(2)) == {("a", "b"): 1, ("b", "a"): 1}
    assert not grams.counts(4)
    assert [grams.total(n) for n in (1, 2, 3, 4)] == [3, 2, 1, 0]
