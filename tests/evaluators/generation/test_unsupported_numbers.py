"""Unsupported numbers: what stands in no text is found; other forms, sums and conversions of what does are not."""

from __future__ import annotations

import time

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, RowScore
from leadline.evaluators.generation.unsupported_numbers import UnsupportedNumbers


def scored(answer: str | None, *contexts: str, question: str = "", expected: str = "") -> RowScore:
    row = Row(
        "c",
        "m",
        question=question or None,
        expected_answers=(expected,) if expected else (),
        retrieved_context=tuple(map(ContextChunk, contexts)),
        actual_answer=answer,
    )
    return UnsupportedNumbers().score_row(row, EvalContext())


def is_flagged(answer: str, *contexts: str, **more: str) -> bool:
    return scored(answer, *contexts, **more).values["unsupported_numbers"] == 1.0


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("It takes four hours.", "Charging takes 4 hours."),
        ("Es dauert vier Stunden.", "Charging takes 4 hours."),
        ("It costs 1,234.50 dollars.", "The price is $1234.5."),
        ("Es kostet 1.234,50 Euro.", "The price is 1234.5."),
        ("It cost 1.5 million.", "It cost 1,500,000 euros."),
        ("It opened on 5 March 2024.", "Opening: 2024-03-05."),
        ("It weighs 1.2 kg.", "Weight: 1200 g."),
        ("It lasts two hours.", "It lasts 120 minutes."),
        ("They pay 7 in all.", "One pays 3, the other 4."),
        ("It grew by 12.", "It was 30 and is 42."),
        ("About 3.14.", "Pi is 3.14159."),
        ("Some 12,300 people.", "12,345 people."),
        ("Half: 50 %.", "A share of 0.5."),
        ("There are two reasons.", "It was late."),
        ("There are five: a, b, c, d and e.", "a, b, c, d, e"),
        ("1. Open it.\n2. Close it.\n3) Ask [1, 7].", "Open, close, ask."),
        ("Call (714) 338-6790.", "714.338.6790"),
        ("It plays MP3.", "It plays music."),
        ("No number here.", "Nor here."),
        ("", "4"),
    ],
)
def test_what_stands_in_the_texts_in_any_form_is_supported(answer: str, context: str) -> None:
    assert not is_flagged(answer, context)


@pytest.mark.parametrize(
    ("answer", "context", "named"),
    [
        ("It takes twelve hours.", "Charging takes 4 hours.", '"twelve"'),
        ("Returns within 45 days.", "Returns within 30 days.", '"45"'),
        ("It opened in 2007.", "It opened in 1998.", '"2007"'),
        ("It costs 1,500.", "It costs 1,600, not less.", '"1,500"'),
        ("It is 3.5.", "It is 3.4.", '"3.5"'),
        ("Twenty-five people came.", "Some people came.", '"Twenty-five"'),
    ],
)
def test_an_invented_number_is_named_and_pointed_at(answer: str, context: str, named: str) -> None:
    score = scored(answer, context)
    assert score.values["unsupported_numbers"] == 1.0
    assert score.evidence.message == f"{named} stands in no context."
    assert [f'"{answer[span.start : span.end]}"' for span in score.evidence.spans] == [named]


def test_numbers_of_the_question_and_of_the_expected_answer_are_given_too() -> None:
    assert not is_flagged("Yes, 45 days.", "Returns.", question="Is it 45 days?")
    assert not is_flagged("45 days.", "Returns.", expected="45 days")
    assert is_flagged("46 days.", "Returns.", question="Is it 45 days?", expected="44 days")


def test_many_numbers_do_not_make_every_sum_right() -> None:
    context = " ".join(str(17 * n + 1) for n in range(30))
    assert is_flagged("It is 64.", context), "46 of them are 18 apart"


def test_without_a_context_there_is_nothing_to_hold_it_against() -> None:
    for contexts in ((), ("",), (" \n",)):
        assert isinstance(scored("It is 5.", *contexts).values["unsupported_numbers"], NotApplicable)


@pytest.mark.parametrize(
    "text",
    ["9" * 100_000, "1," * 60_000, "1.1" * 60_000, "[1" * 60_000, "- " * 60_000, "eight " * 20_000, "1 2 3 " * 20_000],
    ids=lambda text: text[:4],
)
def test_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    scored(text, text, question=text)
    assert time.process_time() - began < 3
