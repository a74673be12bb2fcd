"""Quotations are found whatever their typography, and made-up ones are not."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.citations.quoted_spans import QuotedSpans
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, Source

CONTEXTS = ("Die Stadt \u2013 so heißt es \u2013 ist alt.", "The  pump's motor\nstarts at seven. It stops at nine.")
WORDS = st.lists(st.sampled_from(["pump", "Oil", "É", "is", "7", "ß", "\u00a0x"]), min_size=3, max_size=8).map(" ".join)


def score(answer, *contexts, **params):
    row = Row("c", "m", actual_answer=answer, retrieved_context=tuple(map(ContextChunk, contexts or CONTEXTS)))
    return QuotedSpans(QuotedSpans.parameters(**params)).score([row], EvalContext())[0]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('It says "the pump\u2019s motor starts at seven."', 1.0),
        ("It says \u201cTHE PUMP'S MOTOR starts\u201d", 1.0),
        ("Es heißt \u201eDie Stadt - so heisst es\u201c.", 1.0),
        ("\u00ab the pump's motor \u00bb", 1.0),
        ('"the pump\'s motor \u2026 stops at nine"', 1.0),
        ('"the pump\'s [own] motor starts"', 1.0),
        ('"It stops at nine ... the pump\'s motor"', 0.0),
        ('"The pump starts at seven"', 0.0),
        ('"starts at seven" and "starts at eight"', 0.5),
    ],
)
def test_a_quotation_is_found_but_for_its_typography(answer, found):
    assert score(answer).values["quoted_spans"] == found


@given(WORDS, WORDS, WORDS)
def test_whatever_is_copied_from_a_context_is_found_and_shown_in_its_place(before, quote, after):
    found = score(f'As "{quote.upper()}" says.', "other", f"{before} {quote} {after}")
    assert found.values["quoted_spans"] == 1.0
    [place] = [span for span in found.evidence.spans if span.source is Source.RETRIEVED_CONTEXT]
    shown = f"{before} {quote} {after}"[place.start : place.end]
    assert shown.casefold().split() == quote.casefold().split()


def test_words_in_marks_for_distance_are_no_quotations():
    assert isinstance(score('The "so called" pump').values["quoted_spans"], NotApplicable)
    assert score('The "so called" pump', min_words=2).values["quoted_spans"] == 0.0


def test_what_is_made_up_is_named():
    assert score('"starts at seven" or "starts at eight"').evidence.message == 'No context has "starts at eight".'


def test_near_quotations_count_where_the_user_says_so():
    answer = '"the pumps motor starts at 7 o\'clock"'
    assert score(answer).values["quoted_spans"] == 0.0
    assert score(answer, similarity=0.6).values["quoted_spans"] == 1.0


def test_absurd_answers_are_read_fast():
    started = time.process_time()
    for answer in ('"' * 200_000, '"a b c ' * 50_000, "\u201c" * 200_000, '"x y z"' * 50_000):
        score(answer, "x y " * 20_000)
    assert time.process_time() - started < 10


def test_what_the_answer_quotes_from_the_question_is_left_out() -> None:
    row = Row("c", "m", "How do I clean the pump?", actual_answer='Nothing tells "how do I clean the pump".')
    row = replace(row, retrieved_context=(ContextChunk("The pump."),))
    [found] = QuotedSpans(QuotedSpans.parameters()).score([row], EvalContext())
    assert isinstance(found.values["quoted_spans"], NotApplicable)
