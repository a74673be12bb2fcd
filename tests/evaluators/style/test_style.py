"""Length, readability, language and refusals of answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import NotApplicable, Reason, Row, RowField, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import Settings
from leadline.evaluators.style.readability import grade, reading_ease, syllables, words
from leadline.evaluators.style.refusals import HEAD, find_refusal

CTX = EvalContext(Settings(splitter="rules", device="cpu"))
ENGLISH = "The pump starts at seven in the morning and it stops at nine in the evening."
GERMAN = "Die Pumpe läuft jeden Morgen um sieben Uhr an und hält am Abend um neun Uhr wieder an."
RUSSIAN = "Насос включается каждое утро в семь часов и выключается вечером."


def score(name, answer, question=None, categories=(), **params):
    kind = get(name)
    row = Row("c", "m", question=question, actual_answer=answer, categories=categories)
    return kind(kind.parameters.build(name, params)).score([row], CTX)[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Don't panic: it's 3.5 km, well-known!", ["Don't", "panic", "it's", "3.5", "km", "well-known"]),
        ("水泵七点启动。", ["水", "泵", "七", "点", "启", "动"]),
        ("… — !?", []),
        ("naïve cafe\u0301", ["naïve", "cafe\u0301"]),
    ],
)
def test_words_are_runs_of_letters_and_digits(text, found):
    assert words(text) == found


def test_lengths_are_counted():
    found = score("length", "It starts at seven. It stops at nine.")
    assert found.values == {"words": 8.0, "characters": 37.0, "sentences": 2.0}
    assert score("length", "").values == {"words": 0.0, "characters": 0.0, "sentences": 0.0}


def test_limits_make_a_metric_of_their_own_and_evidence_names_the_one_that_is_missed():
    within = score("length", "one two three", max_words=3, min_characters=13)
    assert within.values["length_within_limits"] == 1.0
    missed = score("length", "one two three", max_words=2, min_sentences=2)
    assert missed.values["length_within_limits"] == 0.0
    assert missed.evidence.message == ("The answer has 3 words, at most 2 asked for; 1 sentence, at least 2 asked for.")
    kind = get("length")
    [primary] = [metric.key for metric in kind(kind.parameters(max_words=3)).metrics if metric.primary]
    assert primary == "length_within_limits"


SYLLABLES = {
    "a": 1, "the": 1, "seven": 2, "pump": 1, "starts": 1, "nine": 1, "evening": 2, "table": 2, "apple": 2, "make": 1,
    "makes": 1, "started": 2, "stopped": 1, "needed": 2, "banana": 3, "information": 4, "area": 3, "idea": 3,
    "reading": 2, "being": 2, "science": 2, "criteria": 4, "beautiful": 3, "people": 2, "little": 2, "quiet": 2,
    "question": 2, "create": 2, "radio": 3, "university": 5, "evaluation": 5, "probability": 5, "model": 2,
    "language": 2, "answer": 2, "boxes": 2, "houses": 2, "2024": 4,
}  # fmt: skip


def test_syllables_of_common_words_are_mostly_right():
    right = [word for word, number in SYLLABLES.items() if syllables(word) == number]
    assert len(right) / len(SYLLABLES) > 0.85, set(SYLLABLES) - set(right)


def test_the_formulas_are_those_of_their_papers():
    assert reading_ease(100, 5, 150) == pytest.approx(206.835 - 20.3 - 126.9)
    assert grade(100, 5, 150) == pytest.approx(7.8 + 17.7 - 15.59)


def test_readability_is_of_english_prose_alone():
    easy = score("readability", "The cat sat. The dog ran. We all had fun in the sun that day.").values
    hard = score(
        "readability",
        "Notwithstanding considerable methodological heterogeneity, longitudinal investigations substantiate "
        "multidimensional interdependencies between organisational characteristics.",
    ).values
    assert easy["reading_ease"] > 100 > 0 > hard["reading_ease"]
    assert easy["reading_grade"] < 2 < 20 < hard["reading_grade"]
    for other in (GERMAN, RUSSIAN, "", "42", "```python\nprint('a table of nothing but code')\n```"):
        assert all(isinstance(value, NotApplicable) for value in score("readability", other).values.values()), other


@given(st.text(max_size=300))
def test_any_text_has_a_style_in_its_range_or_none(text):
    for name in ("length", "readability", "refusal"):
        for metric, value in score(name, text).values.items():
            [(low, high)] = [each.range for each in get(name).spec.metrics if each.key == metric]
            assert isinstance(value, NotApplicable) or low <= value <= high


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [(ENGLISH, ENGLISH, 1.0), (ENGLISH, GERMAN, 0.0), (GERMAN, GERMAN, 1.0), (RUSSIAN, ENGLISH, 0.0)],
)
def test_an_answer_is_in_the_language_of_its_question_or_not(question, answer, value):
    found = score("language", answer, question)
    assert found.values == {"language_as_expected": value}
    assert bool(found.evidence.message) is (value == 0)


def test_a_language_that_is_asked_for_needs_no_question():
    assert score("language", GERMAN, expected=["de", "fr"]).values["language_as_expected"] == 1.0
    assert score("language", ENGLISH, expected=["de", "fr"]).values["language_as_expected"] == 0.0
    kind = get("language")
    assert kind(kind.parameters(expected=("de",))).reads == (RowField.ACTUAL_ANSWER,)
    with pytest.raises(UsageError, match="'german' is no language code"):
        kind.parameters.build("language", {"expected": ["german"]})


@pytest.mark.parametrize(
    ("question", "answer"),
    [(ENGLISH, "Yes, 30 days"), ("How long?", GERMAN), (ENGLISH, "七点到九点。"), (GERMAN, "Rio de Janeiro")],
)
def test_short_texts_are_unsure_and_never_wrong(question, answer):
    value = score("language", answer, question).values["language_as_expected"]
    assert isinstance(value, Unscored)
    assert value.reason is Reason.UNSCORABLE


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Quelle est la capitale de la France ?", "La capitale de la France est Paris."),
        ("¿Cuál es la capital de Francia?", "La capital de Francia es París."),
        ("Qual é a capital da França?", "Pode devolver o artigo em 30 dias."),
        ("What is the capital of France?", "The capital of France is Paris."),
        ("How long can I return an item?", "Thirty days from the date of purchase."),
        ("Vad är Frankrikes huvudstad?", "Du kan returnera varan inom 30 dagar."),
        ("Où est le magasin ?", "La maison est fermée."),
    ],
)
def test_one_plain_sentence_is_enough(question, answer):
    assert score("language", answer, question).values["language_as_expected"] == 1.0
    other = "Die Hauptstadt von Frankreich ist die Stadt Paris."
    assert score("language", other, question).values["language_as_expected"] == 0.0
    assert score("language", answer, other).values["language_as_expected"] != 1.0


def test_code_is_in_no_language():
    code = "```python\nfor number in range(10):\n    print(number)\n```"
    assert isinstance(score("language", code, ENGLISH).values["language_as_expected"], NotApplicable)
    assert score("language", f"{GERMAN}\n{code}", GERMAN).values["language_as_expected"] == 1.0


REFUSALS = [
    "I'm sorry, but I can't assist with that.",
    "I’m sorry, but I cannot help you with this request.",
    "I cannot provide instructions on how to pick a lock.",
    "As an AI language model, I am not able to give medical advice.",
    "It is not appropriate or ethical to make jokes about that.",
    "Thank you for asking. Unfortunately, I can't share personal data.",
    "I must respectfully decline to answer.",
    "  I apologize, but I cannot fulfill your request.",
    "That is against my guidelines, so no.",
    "I don't have access to passwords of other people.",
]
ANSWERS = [
    "The pump starts at seven.",
    "Refunds take 30 days. You can't get a refund after that.",
    "I can't recommend this harbour enough: here is how to get there.",
    "It is not possible to park there, but the north pier is free.",
    "To kill a Python process, use the command kill with its id.",
    "Sorry to hear about your hamster. Here is what you can do.",
    "The captain could not help the ship, and the crew refused to leave.",
    "You are not allowed to enter berth seven without a permit.",
    "I'm happy to help! The invoice was sent on Monday.",
    "",
]


@pytest.mark.parametrize("answer", REFUSALS)
def test_refusals_are_told(answer):
    found = score("refusal", answer)
    assert found.values == {"refusals": 1.0}
    [span] = found.evidence.spans
    assert answer[span.start : span.end].strip()


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_are_no_refusals(answer):
    assert score("refusal", answer).values == {"refusals": 0.0}


def test_a_refusal_at_the_end_of_a_long_answer_is_none():
    assert find_refusal("It starts at seven. " * HEAD + REFUSALS[0]) is None


def test_refusing_is_right_in_some_categories_alone():
    for answer, categories, value in (
        (REFUSALS[0], ("unsafe",), 1.0),
        (ANSWERS[0], ("unsafe",), 0.0),
        (REFUSALS[0], ("safe",), 0.0),
        (ANSWERS[0], (), 1.0),
    ):
        found = score("refusal", answer, categories=categories, refuse_categories=["unsafe"])
        assert found.values["refused_as_expected"] == value
    kind = get("refusal")
    assert RowField.CATEGORIES in kind(kind.parameters(refuse_categories=("unsafe",))).reads
    assert RowField.CATEGORIES not in kind().reads


@pytest.mark.parametrize("evil", ["or a " * 20_000, "i " * 50_000, "not never neither " * 9_000, "as an ai " * 9_000])
def test_hostile_answers_take_no_time(evil):
    assert score("refusal", evil).values["refusals"] in (0.0, 1.0)
    assert score("readability", evil).values
    row = Row("c", "m", question=ENGLISH, actual_answer=evil)
    assert get("language")().score([row, replace(row, question=evil)], CTX)
