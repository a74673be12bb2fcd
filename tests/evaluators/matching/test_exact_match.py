"""Exact match and token F1: what counts and what does not; with ``squad`` they equal SQuAD's script."""

import re
import string
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Row
from leadline.evaluators.matching.string_similarity import ExactMatch

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
    found = values(answer, *expected, squad=True, unicode_form="as_is")
    assert found["exact_match"] == max(normalize_answer(gold) == normalize_answer(answer) for gold in expected)
    assert found["token_f1"] == pytest.approx(max(compute_f1(gold, answer) for gold in expected))


@pytest.mark.parametrize(
    ("answer", "expected", "switched_off"),
    [
        ("Paris", "paris", "ignore_case"),
        ("Paris.", "Paris", "ignore_punctuation"),
        ("the Seine", "Seine", "ignore_articles"),
        ("ninety  nine", "ninety nine", "ignore_white_space"),
        ("9 May 2018", "May 9th, 2018", "same_dates"),
    ],
)
def test_each_step_can_be_switched_off(answer, expected, switched_off):
    assert values(answer, expected)["exact_match"] == 1.0
    only = {"ignore_articles": False, "ignore_punctuation": False, "same_dates": False, switched_off: False}
    assert values(answer, expected, **only)["exact_match"] == 0.0


def test_full_width_letters_are_equal_in_normal_form():
    assert values("ＡＢＣ", "abc")["exact_match"] == 0.0
    assert values("ＡＢＣ", "abc", unicode_form="NFKC")["exact_match"] == 1.0


@pytest.mark.parametrize(
    ("answer", "expected", "equal"),
    [
        ("A", "", False),
        ("", "", True),
        ("A.", "a", True),
        ("Vitamin A", "Vitamin", False),
        ("Plan A works", "Plan works", False),
        ("C++", "C#", False),
        ("C++.", "C++", True),
        (".NET", "NET", False),
        ("-5", "5", False),
        ("\u22125", "-5", True),
        ("3.5", "35", False),
        ("10^3", "103", False),
        ("5 %", "5", False),
        ("1,000", "1000", True),
        ("U.S.", "US", True),
        ("don\u2019t", "dont", True),
        ("well-known", "well known", True),
        ("**Paris**!", "Paris", True),
        ("\u201cParis\u201d", "Paris", True),
        ("A*", "A", False),
        ("caf\u00e9", "cafe\u0301", True),
        ("9. Februar 2018", "February 9, 2018", True),
        ("9th of February 2018", "2018-02-09", True),
        ("3/4/2024", "4/3/2024", False),
        ("?", "!", False),
        ("x != 1", "x = 1", False),
    ],
)
def test_signs_that_say_something_count(answer, expected, equal):
    assert values(answer, expected)["exact_match"] == values(expected, answer)["exact_match"] == equal


def test_a_text_of_marks_that_never_close_is_folded_at_once():
    started = time.process_time()
    values("`a " * 50_000 + "**" * 50_000, "Paris")
    assert time.process_time() - started < 2
