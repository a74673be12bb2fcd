"""Contains and regex: what is found, what is not, and patterns that would never end."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Reason, Row, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.matching.contains import Contains, Regex
from leadline.evaluators.text.time_budget import RegexTimeBudget

WORDS = st.text(alphabet="abé \n", max_size=12)
TEXTS = st.text(alphabet="abB _é.\n", max_size=12)


def score(kind, answer, *expected, metadata=None, ctx=None, **params):
    row = Row("c", "m", actual_answer=answer, expected_answers=expected, metadata=metadata or {})
    [result] = kind(kind.parameters.build(kind.spec.id, params)).score([row], ctx or EvalContext())
    return result


def value(*args, **params):
    [found] = score(*args, **params).values.values()
    return found


@given(TEXTS, TEXTS.filter(str.strip), st.booleans())
def test_contains_is_python_in(answer, text, ignore_case):
    fold = str.casefold if ignore_case else str
    expected = " ".join(fold(text).split()) in " ".join(fold(answer).split())
    assert value(Contains, answer, text, ignore_case=ignore_case, whole_words=False) == expected


@given(WORDS, WORDS.filter(str.strip))
def test_whole_words_are_those_of_re(answer, text):
    words = re.escape(" ".join(text.casefold().split()))
    expected = re.search(rf"(?<!\w){words}(?!\w)", " ".join(answer.casefold().split())) is not None
    assert value(Contains, answer, text) == expected


@pytest.mark.parametrize(
    ("answer", "text", "good"),
    [
        ("15 people", "5", 0.0),
        ("3.5", "5", 0.0),
        ("3-5", "5", 1.0),
        ("is -5", "5", 0.0),
        ("(\u22125)", "5", 0.0),
        ("10,000", "10", 0.0),
        ("10, 000", "10", 1.0),
        ("10\u00a0000 people", "10", 0.0),
        ("in 2018 100 people", "2018", 1.0),
        ("I can't", "can", 0.0),
        ("112 m deep", "12 m", 0.0),
        ("the catalogue", "cat", 0.0),
        ("cat's", "cat", 1.0),
        ("two loops", "loop", 1.0),
        ("by Diwakar1.", "Diwakar", 1.0),
        ("the 25th", "25", 1.0),
        ("the 25thly", "25", 0.0),
        ("I do not know", "no", 0.0),
        ("use C++", "C", 0.0),
        ("use C#.", "C", 0.0),
        ("use C++.", "C++", 1.0),
        ("_Paris_", "Paris", 1.0),
        ("\u30b5\u30c3\u30ab\u30fc\u304c5\u70b9", "5", 1.0),
        ("\u6771\u4eac\u90fd", "\u6771\u4eac", 1.0),
        ("caf\u00e9", "cafe\u0301", 1.0),
        ("On February 9, 2018 it began.", "9 February 2018", 1.0),
        ("On 9 February 2018.", "February 9, 2018", 1.0),
        ("On 8 February 2018.", "February 9, 2018", 0.0),
        ("On 9 February 2018.", "February 2018", 1.0),
        ("On 9 February 2018.", "9 February", 1.0),
    ],
)
def test_what_goes_on_as_a_word_or_number_is_not_contained(answer, text, good):
    assert value(Contains, answer, text) == good


@pytest.mark.parametrize(("which", "good"), [("any", 1.0), ("all", 0.0), ("none", 0.0)])
def test_how_many_texts_must_be_there_is_a_choice(which, good):
    assert value(Contains, "berth seven", texts=["Seven", "nine"], which=which) == good


def test_what_is_missing_is_named_and_what_is_there_is_shown():
    missing = score(Contains, "At ten.", "seven", "nine")
    assert missing.evidence.message == 'The answer does not contain "seven" and "nine".'
    [span] = score(Contains, "At Seven.", "seven").evidence.spans
    assert (span.start, span.end) == (3, 8)


def test_blank_texts_are_nothing_to_look_for():
    assert isinstance(value(Contains, "x", " ", ""), NotApplicable)


@pytest.mark.parametrize(
    ("match", "answer", "good"),
    [
        ("search", "order 1234", 1.0),
        ("search", "order", 0.0),
        ("whole", "order 1234", 0.0),
        ("whole", "1234", 1.0),
        ("absent", "order 1234", 0.0),
        ("absent", "order", 1.0),
    ],
)
def test_a_pattern_matches_somewhere_wholly_or_nowhere(match, answer, good):
    assert value(Regex, answer, pattern=r"\d{4}", match=match) == good


def test_a_rows_own_pattern_goes_before_the_parameter():
    assert value(Regex, "abc", metadata={"regex": "^b"}, pattern="^a") == 0.0
    assert value(Regex, "abc", metadata={"regex": ""}, pattern="^a") == 1.0


def test_a_row_without_a_pattern_is_not_applicable_and_one_with_a_broken_pattern_says_so():
    assert isinstance(value(Regex, "abc"), NotApplicable)
    broken = value(Regex, "abc", metadata={"regex": "("})
    assert isinstance(broken, Unscored)
    assert broken.reason is Reason.UNSCORABLE
    assert "invalid" in broken.message


def test_a_broken_parameter_is_refused():
    with pytest.raises(UsageError, match=r"regex\.pattern: .*invalid"):
        Regex.parameters.build("regex", {"pattern": "("})


def test_a_pattern_that_would_never_end_is_given_up():
    started = time.process_time()
    ctx = EvalContext(regex_budget=RegexTimeBudget(full=0.1))
    found = value(Regex, "a" * 5000 + "b", pattern="(a|a)*c(a|a)*$|(a+)+$", ctx=ctx)
    assert isinstance(found, Unscored)
    assert found.reason is Reason.TIMEOUT
    assert time.process_time() - started < 5
