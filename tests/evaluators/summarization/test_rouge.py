"""ROUGE equals rouge-score."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, Params
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.summarization.rouge import Rouge, RougeParams

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


def test_each_metric_takes_its_own_best_reference():
    one, two = "b a d c", "a b x y"
    assert values("a b c d", one, two) == {
        "rouge_1": values("a b c d", one)["rouge_1"],
        "rouge_2": values("a b c d", two)["rouge_2"],
        "rouge_l": 0.5,
    }


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
