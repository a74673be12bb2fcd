"""Exact match and token F1 equal SQuAD's script, step by step."""

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.row import Row
from leadline.evaluators.matching.exact_match import ExactMatch

WORDS = st.lists(st.sampled_from(["the", "a", "An", "cat", "Cat!", "sat", "don't", "e-mail", " ", "\n", "«x»", "İ"]))
TEXTS = st.one_of(WORDS.map(" ".join), st.text(max_size=20))


def normalize_answer(s):  # as in SQuAD's evaluate-v2.0.py
    def remove_articles(text):
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    return " ".join(remove_articles("".join(ch for ch in s.lower() if ch not in set(string.punctuation))).split())


def compute_f1(a_gold, a_pred):
    gold_toks, pred_toks = normalize_answer(a_gold).split(), normalize_answer(a_pred).split()
    num_same = sum((Counter(gold_toks) & Counter(pred_toks)).values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = num_same / len(pred_toks), num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)


def values(answer, *expected, **params):
    [score] = ExactMatch(ExactMatch.parameters(**params)).score(
        [Row("c", "m", actual_answer=answer, expected_answers=expected)], EvalContext()
    )
    return score.values


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_both_equal_the_script_of_squad(answer, expected):
    found = values(answer, *expected)
    assert found["exact_match"] == max(normalize_answer(gold) == normalize_answer(answer) for gold in expected)
    assert found["token_f1"] == pytest.approx(max(compute_f1(gold, answer) for gold in expected))


@pytest.mark.parametrize(
    ("answer", "expected", "switched_off"),
    [
        ("Paris", "paris", "ignore_case"),
        ("Paris.", "Paris", "ignore_punctuation"),
        ("the Seine", "Seine", "ignore_articles"),
        ("ninety  nine", "ninety nine", "ignore_white_space"),
    ],
)
def test_each_step_can_be_switched_off(answer, expected, switched_off):
    assert values(answer, expected)["exact_match"] == 1.0
    only = {"ignore_articles": False, "ignore_punctuation": False, switched_off: False}
    assert values(answer, expected, **only)["exact_match"] == 0.0


def test_full_width_letters_are_equal_in_normal_form():
    assert values("ＡＢＣ", "abc")["exact_match"] == 0.0
    assert values("ＡＢＣ", "abc", unicode_form="NFKC")["exact_match"] == 1.0
