"""Templates and expressions of targets files: texts of cases are values, and JSON stays JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.ground import UsageError
from leadline.tasks.collect.templates import (
    check_expression,
    evaluate,
    render_json,
    render_text,
    with_variables,
    with_version,
)
from leadline.tasks.load.values import ValueFault

BODY = '{"question": {{ question }}, "k": 3}'


@given(st.text(max_size=80))
def test_no_text_breaks_out_of_its_place_in_a_body(text: str) -> None:
    assert render_json(BODY, {"question": text}) == {"question": text, "k": 3}
    assert render_json({"q": ["{{ question }}"], "k": 3}, {"question": text}) == {"q": [text], "k": 3}


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% raw %}", '", "k": 1000, "x": "', "</script>", "{{ config }}"])
def test_a_text_that_looks_like_a_template_is_sent_as_it_is(text: str) -> None:
    assert render_text("Ask: {{ question }}", {"question": text}) == f"Ask: {text}"
    assert render_json(BODY, {"question": text})["question"] == text


def test_values_of_every_kind_come_as_json() -> None:
    values = {"categories": ["a", "b"], "metadata": {"items": [1, None]}}
    body = '{"labels": {{ categories }}, "first": {{ metadata.items[0] }}, "all": {{ metadata | tojson }}}'
    assert render_json(body, values) == {"labels": ["a", "b"], "first": 1, "all": {"items": [1, None]}}


def test_quotes_around_an_expression_are_refused_with_a_word_on_what_to_write() -> None:
    with pytest.raises(ValueFault, match="without quotes"):
        render_json('{"question": "{{ question }}"}', {"question": "x"})


@pytest.mark.parametrize("body", ["{{ nothing }}", "{{ question.__class__.__mro__ }}", "{{ 1 / 0 }}"])
def test_what_cannot_be_filled_in_is_said(body: str) -> None:
    with pytest.raises(ValueFault, match="cannot be filled in"):
        render_json(body, {"question": "x"})


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("choices[0].message.content", "hi"),
        ("items", [5]),
        ("usage.items.dollars", 0.5),
        ("hits | map(attribute='text') | list", ["a", "b"]),
        ("hits | length", 2),
        ("missing.so.is[3].this", None),
        ("reply.keys", None),
    ],
)
def test_expressions_find_fields_and_never_methods(expression: str, found: Any) -> None:
    reply = {
        "choices": [{"message": {"content": "hi"}}],
        "items": [5],
        "usage": {"items": {"dollars": 0.5}},
        "hits": [{"text": "a"}, {"text": "b"}],
    }
    assert evaluate(expression, {**reply, "reply": reply}) == found


def test_a_broken_expression_is_refused_when_the_file_is_read() -> None:
    with pytest.raises(ValueError, match="is no template"):
        check_expression("a b")


def test_a_version_goes_into_addresses_and_is_asked_for_where_it_is_missing() -> None:
    assert with_version("http://h/{{version}}/x/{{ version }}", "v1") == "http://h/v1/x/v1"
    assert with_version("http://h/x", None) == "http://h/x"
    with pytest.raises(UsageError, match="needs a version"):
        with_version("http://h/{{ version }}", None)


def test_headers_take_their_secrets_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "s3cret")
    assert with_variables("Bearer ${TOKEN_OF_MINE}", "it") == "Bearer s3cret"
    monkeypatch.delenv("TOKEN_OF_MINE")
    with pytest.raises(UsageError, match="TOKEN_OF_MINE, which is not set"):
        with_variables("Bearer ${TOKEN_OF_MINE}", "it")


def test_what_is_rendered_is_plain_json() -> None:
    assert json.dumps(render_json("[{{ a }}]", {"a": "ü\u2028"})) == '["\\u00fc\\u2028"]'
