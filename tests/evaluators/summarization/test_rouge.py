"""ROUGE and its common subsequences equal rouge-score; huge texts are refused rather than waited for."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, Params
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.summarization import rouge
from leadline.evaluators.summarization.rouge import Rouge, RougeParams, lcs_length, union_lcs

TOOLS = EvalContext()
WORDS = st.sampled_from(["the", "cats", "Sat.", "on", "a", "mat,", "running", "run", "flies", "\n", "Ünï", "42"])
TEXTS = st.one_of(st.lists(WORDS, max_size=25).map(" ".join), st.text(max_size=30))


def values(answer, *expected, **parameters):
    row = Row("case", "model", expected_answers=expected, actual_answer=answer)
    return dict(Rouge(RougeParams(**parameters)).score([row], TOOLS)[0].values)


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
@example("", [""], False)
@example("你好", ["你好"], False)
def test_equals_rouge_score_to_the_last_digits(answer, expected, stem):
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem)
    scores = scorer.score_multi(expected, answer)
    ours = values(answer, *expected, use_stemmer=stem)
    assert list(ours) == ["rouge_1", "rouge_2", "rouge_l"]
    assert list(ours.values()) == pytest.approx([score.fmeasure for score in scores.values()], abs=1e-12)


def test_stemming_is_off_by_default_and_changes_the_scores_key():
    assert values("he flies", "he fly")["rouge_1"] == 0.5
    assert values("he jumping", "he jumps", use_stemmer=True)["rouge_1"] == 1.0
    assert Rouge(RougeParams(use_stemmer=True)).identity(TOOLS) != Rouge().identity(TOOLS)
    assert RougeParams(metric_threshold=0.1).identity() == RougeParams().identity()
    assert isinstance(Rouge().params, Params)


def test_texts_too_long_for_a_common_subsequence_are_unscored_in_rouge_l_alone():
    scores = values("a " * 600_000, "b " * 600_000)
    assert scores["rouge_1"] == scores["rouge_2"] == 0.0
    assert isinstance(scores["rouge_l"], Unscored)
    assert scores["rouge_l"].reason is Reason.UNSCORABLE
    assert "600,000 words" in scores["rouge_l"].message


TOKENS = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=14)


@settings(max_examples=500, deadline=None)
@given(TOKENS, TOKENS)
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
@given(st.lists(TOKENS, max_size=4), st.lists(TOKENS, max_size=4))
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
