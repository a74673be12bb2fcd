"""Common subsequences equal those of rouge-score, and huge texts are refused rather than waited for."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.summarization import rouge
from leadline.evaluators.summarization.rouge import lcs_length, union_lcs

WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=14)


@settings(max_examples=500, deadline=None)
@given(WORDS, WORDS)
def test_length_equals_the_table(a, b):
    from rouge_score.rouge_scorer import _lcs_table

    assert lcs_length(a, b) == _lcs_table(a, b)[-1][-1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=60), st.lists(st.sampled_from("abx"), max_size=60))
def test_long_texts_take_another_way_to_the_same_length(a, b):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rouge, "_SHORT", 0)
        long_way = lcs_length(a, b)
    assert long_way == lcs_length(a, b)


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4))
def test_union_is_the_one_that_rouge_score_chooses(lines, others):
    from rouge_score.rouge_scorer import _union_lcs

    assert union_lcs(lines, others) == [_union_lcs(line, others) for line in lines]


@pytest.mark.slow
def test_two_texts_of_a_megabyte_take_seconds():
    began = time.process_time()
    words = [f"w{number % 977}" for number in range(170_000)]
    assert lcs_length(words, words[1:]) == 169_999
    assert time.process_time() - began < 60


def test_what_would_take_minutes_is_refused():
    with pytest.raises(OverflowError, match="1,000,000 and 1,000,000 words"):
        lcs_length(["a"] * 1_000_000, ["b"] * 1_000_000)
    with pytest.raises(OverflowError, match="lines"):
        union_lcs([[str(n)] for n in range(8000)], [[str(n)] for n in range(8000)])
    with pytest.raises(OverflowError, match="lines"):
        union_lcs([["a"] * 100_000], [["b"] * 100_000])
