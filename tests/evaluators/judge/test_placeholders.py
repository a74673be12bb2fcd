"""Prompts of users: placeholders are filled with fenced texts, and all else stays as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.data import ContextChunk, Row, RowField
from leadline.evaluators.judge.placeholders import PLACEHOLDERS, user_prompt

ROW = Row("c", "m", "the question", ("expected",), (ContextChunk("one"), ContextChunk("two")), "the answer")


def shown(template: str, row: Row = ROW) -> str:
    prompt = user_prompt("test", template)
    return prompt.prompt.messages("f" * 16, dict(prompt.texts(row, "expected")))[1]["content"].replace("f" * 16, "F")


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_text_around_a_placeholder_is_verbatim(before: str, after: str) -> None:
    try:
        text = shown(f"{before}{{INPUT}}{after}")
    except ValueError:  # it holds what looks like a misspelt placeholder
        return
    if not any(f"{{{name}}}" in before + after for name in PLACEHOLDERS) and before[-1:] != "{":
        middle = "<question-F>\nthe question\n</question-F>"
        assert text == f"{before}{middle}{after}".encode("utf-8", "replace").decode()


@pytest.mark.parametrize("name", PLACEHOLDERS)
@pytest.mark.parametrize("form", ["{%s}", "{{%s}}", "{{ %s }}"])
def test_every_placeholder_in_every_form_is_filled(name: str, form: str) -> None:
    expected = {
        RowField.QUESTION: "<question-F>\nthe question\n</question-F>",
        RowField.EXPECTED_ANSWER: "<expected-answer-F>\nexpected\n</expected-answer-F>",
        RowField.RETRIEVED_CONTEXT: "<context-F>\none\ntwo\n</context-F>",
        RowField.ACTUAL_ANSWER: "<answer-F>\nthe answer\n</answer-F>",
    }
    assert shown("Say: " + form % name) == "Say: " + expected[PLACEHOLDERS[name]]


def test_what_a_text_says_is_not_filled_again() -> None:
    row = Row("c", "m", "{ACTUAL_OUTPUT} {{ 7 * 7 }} {% raw %}", actual_answer="secret")
    assert "secret" not in shown("{INPUT}", row)
    assert "{{ 7 * 7 }} {% raw %}" in shown("{INPUT}", row)


def test_json_and_templates_are_text() -> None:
    template = (
        '{"score": 1, "why": {"deep": []}} {{ 7 * 7 }} {% if x %} {# note #} \\n \\u1234 "quoted" {ACTUAL_OUTPUT}'
    )
    assert shown(template).startswith(template.removesuffix("{ACTUAL_OUTPUT}"))


def test_the_fields_are_those_that_are_shown() -> None:
    assert user_prompt("test", "{ACTUAL_OUTPUT} {INPUT} {question}").fields == (
        RowField.QUESTION,
        RowField.ACTUAL_ANSWER,
    )


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("nothing", "no placeholder"),
        ("{ACTUAL_OUTPU} {INPUT}", "is {ACTUAL_OUTPUT} meant"),
        ("{quesiton} {INPUT}", "is {question} meant"),
        ("{answer} {INPUT}", "{answer} is no placeholder"),
        ("{context} {INPUT}", "{context} is no placeholder"),
    ],
)
def test_a_prompt_that_cannot_be_meant_is_refused(template: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        user_prompt("test", template)


@pytest.mark.parametrize("word", ["{score}", "{x}", "{1}", "{}", "{{}}", "{a b}", "{verdict}"])
def test_other_words_in_braces_are_text(word: str) -> None:
    assert shown(f"{word} {{INPUT}}").startswith(word)
