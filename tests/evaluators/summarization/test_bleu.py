"""BLEU equals NLTK on NLTK's words of the sentences."""

import sys
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization.bleu import Bleu, NGrams

TOOLS = EvalContext(Settings(splitter="rules"))
WORDS = st.sampled_from(["the", "cat", "Sat.", "on", "a", "mat,", "it's", '"so"', "!", "\n", "can't", "Ünï", "(b)"])
TEXTS = st.one_of(st.lists(WORDS, max_size=20).map(" ".join), st.text(max_size=20))


def words(text):
    from nltk.tokenize import NLTKWordTokenizer

    return [word for sentence in TOOLS.sentences(text) for word in NLTKWordTokenizer().tokenize(sentence.text)]


def row(answer, *expected):
    return Row("case", "model", expected_answers=expected, actual_answer=answer)


def values(answer, *expected):
    return list(Bleu().score([row(answer, *expected)], TOOLS)[0].values.values())


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
@example("", [""])
@example("one", ["one"])
def test_equals_nltk_to_the_last_digits(answer, expected):
    from nltk.translate.bleu_score import sentence_bleu

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = sentence_bleu(
            [words(text) for text in expected], words(answer), [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
        )
    assert values(answer, *expected) == pytest.approx(reference, abs=1e-12, rel=1e-9)


def test_each_order_is_the_share_of_its_own_n_grams():
    assert values("the cat sat on the red mat today", "the cat sat on the mat") == pytest.approx(
        [6 / 8, 4 / 7, 3 / 6, 2 / 5]
    )


def test_scores_of_the_cumulative_mean_are_not_taken_for_these():
    assert Bleu().identity(TOOLS)["version"] == "3"


def test_no_warning_where_an_order_has_no_match():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = values("the cat", "the dog and the cat")
    assert scores[0] > 0
    assert scores[3] <= sys.float_info.min


def test_results_keep_the_order_of_the_rows():
    rows = [row(f"answer number {n}", f"answer number {n % 3}") for n in range(9)]
    together = Bleu().score(rows, TOOLS)
    assert together == [Bleu().score([each], TOOLS)[0] for each in rows]
    assert Bleu().score(rows[::-1], TOOLS)[::-1] == together


def test_one_row_that_fails_leaves_the_others_scored(monkeypatch):
    evaluator = Bleu()
    read = evaluator.read

    def broken(text, ctx):
        if "boom" in text:
            raise RuntimeError("boom")
        return read(text, ctx)

    monkeypatch.setattr(evaluator, "read", broken)
    good, bad = evaluator.score([row("fine", "fine"), row("boom", "fine")], TOOLS)
    assert good.complete
    assert bad.values["bleu_1"] == Unscored(Reason.EVALUATOR_ERROR, "RuntimeError: boom")


def test_the_splitter_is_part_of_the_scores_identity():
    assert Bleu().identity(TOOLS)["sentences"] == TOOLS.splitter.identity


def test_counting_is_done_once_per_order():
    grams = NGrams(["a", "b", "a"])
    assert grams.counts(2) is grams.counts(2)
    assert dict(grams.counts(1)) == {"a": 2, "b": 1}
    assert dict(grams.counts(2)) == {("a", "b"): 1, ("b", "a"): 1}
    assert not grams.counts(4)
    assert [grams.total(n) for n in (1, 2, 3, 4)] == [3, 2, 1, 0]
