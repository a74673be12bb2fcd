"""Reference recall: what a short expected answer says is found in an answer, whatever its form; nothing else is."""

from __future__ import annotations

import time

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row, RowScore
from leadline.evaluators.matching.reference_recall import ReferenceRecall

LIMIT = {metric.key: metric.threshold for metric in ReferenceRecall.spec.metrics}


def scored(answer: str | None, *expected: str, question: str = "", **params: int) -> RowScore:
    evaluator = ReferenceRecall(ReferenceRecall.parameters(**params))
    return evaluator.score_row(
        Row("c", "m", question=question or None, actual_answer=answer, expected_answers=expected), EvalContext()
    )


def recall(answer: str | None, *expected: str, question: str = "") -> float:
    """Return the value of whichever metric the expected answer's length calls for, in units of its threshold."""
    found = scored(answer, *expected, question=question).values
    ((key, value),) = [(key, value) for key, value in found.items() if isinstance(value, float)]
    return value / (LIMIT[key] or 1)


RIGHT = [
    ("Four hours", "It takes 4 hours with the charger supplied."),
    ("4", "There are four of them."),
    ("twenty-five", "He was 25 years old."),
    ("two million", "Some 2,000,000 people live there."),
    ("1,234.5", "The sum is 1234.5."),
    ("9 February 2018", "It opened on 2018-02-09."),
    ("February 9, 2018", "Am 9. Februar 2018 wurde es eröffnet."),
    ("J. K. L. Smith", "JKL Smith wrote it."),
    ("Antonín Leopold Dvořák", "The composer was Antonin Dvorak."),
    ("children", "It is meant for a child or two children."),
    ("Swiss", "It comes from Switzerland."),
    ("Yes", "Yes, the battery can be taken out."),
    ("No", "The battery cannot be removed; it is not meant to be."),
    ("NaCl", "The formula is NaCl, table salt."),
    ("vier Stunden", "Das Laden dauert 4 Stunden."),
    ("quatre heures", "La charge dure 4 heures."),
    ("cuatro horas", "La carga dura 4 horas."),
    ("quattro ore", "La ricarica dura 4 ore."),
    ("vier uur", "Het laden duurt 4 uur."),
    ("東京", "日本の首都は東京です。"),
    ("北京", "中国的首都是北京。"),
    ("Łódź", "Lodz"),
    ("Ärger", "A\u0308rger"),
    ("not guilty", "The jury found her not guilty."),
    ("France, Germany and Belgium", "Luxembourg borders Belgium, Germany and France."),
    ("The battery takes four hours.", "The battery takes four hours with the charger supplied."),
]
WRONG = [
    ("Four hours", "It takes twelve hours."),
    ("4", "There are 14 of them."),
    ("5", "It is 3.5."),
    ("1998", "It was founded in 2007."),
    ("9 February 2018", "It opened on 9 February 2011."),
    ("Anna Velten", "It was founded by Peter Schulz."),
    ("Yes", "No, the battery is fixed."),
    ("No", "Yes, it can."),
    ("Paris", "It is not Paris."),
    ("Paris", "It is Lyon, not France or Paris."),
    ("Paris", ""),
    ("Paris", None),
    ("東京", "日本の首都は京都です。"),
    ("The City weighs 23 kg.", "The City weighs 31 kg."),
    ("Paris", "Oslo, Rome, Bern, Paris, Lima, Cairo, Kyiv, Riga, Doha, Quito, Minsk, Accra"),
]


@pytest.mark.parametrize(("expected", "answer"), RIGHT)
def test_what_is_said_in_another_form_is_found(expected: str, answer: str) -> None:
    assert recall(answer, expected) >= 1


@pytest.mark.parametrize(("expected", "answer"), WRONG)
def test_what_is_not_said_or_denied_is_not_found(expected: str, answer: str | None) -> None:
    assert recall(answer, expected) < 1


def test_the_best_of_several_expected_answers_counts() -> None:
    assert recall("It is the United Kingdom.", "Great Britain", "United Kingdom", "UK") >= 1


def test_words_of_the_question_prove_little() -> None:
    question = "Which river flows through the city of Bonn?"
    assert recall("A river flows through the city of Bonn.", "the river Rhine", question=question) < 1
    assert recall("The Rhine.", "the river Rhine", question=question) >= 1


def test_what_is_missing_is_named() -> None:
    evidence = scored("Peter Schulz founded it.", "Anna Velten").evidence
    assert evidence.message == 'The answer lacks "Anna" and "Velten".'


@pytest.mark.parametrize(
    "expected", ['{"price": 4}', "[1, 2]", "word " * 13, "?!", "", "x" * 5_000], ids=lambda text: text[:12]
)
def test_an_expected_answer_that_is_too_long_or_says_nothing_is_passed_over(expected: str) -> None:
    assert all(isinstance(value, NotApplicable) for value in scored("4", expected).values.values())
    assert recall("four", expected, "4") >= 1, "another one counts"


@pytest.mark.parametrize(
    ("words", "metric"), [("one two three", "reference_recall"), ("one two three four", "sentence_recall")]
)
def test_the_length_of_the_shortest_expected_answer_chooses_the_metric(words: str, metric: str) -> None:
    values = scored("one two three four", words, words + " and then some more").values
    assert {key for key, value in values.items() if isinstance(value, float)} == {metric}


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "not " * 50_000, "1," * 60_000, "A. " * 40_000, "\u0301" * 100_000, "二" * 100_000],
    ids=lambda text: text[:4]
)  # fmt: skip
def test_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    scored(text, "not a", "1 1", question=text)
    assert time.process_time() - began < 5


def test_a_brief_answer_that_holds_all_counts_for_a_little_more_than_a_long_one() -> None:
    brief, long = recall("Paris.", "Paris"), recall("Paris. " + "It has seen many a king. " * 40, "Paris")
    assert recall("It is in Paris, of all places on earth.", "Paris") < 2.0  # nine words
    assert brief == 2.0  # in units of the threshold of one half
    assert 1.8 < long < 2.0


def test_what_is_missing_is_pointed_at_in_the_nearest_expected_answer() -> None:
    evidence = scored("It was Ada Lovelace.", "Grace Hopper", "Ada Byron").evidence
    assert evidence is not None
    assert [(span.source, span.index, span.start, span.end) for span in evidence.spans] == [
        ("expected_answer", 1, 4, 9)
    ]
