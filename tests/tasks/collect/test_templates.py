"""Templates and expressions of targets files: texts of cases are values, and JSON stays JSON.

Reading replies: what is found, what is absent, and what is refused with a reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from leadline.evaluators.ground import UsageError
from leadline.tasks.collect.templates import (
    ReplyMap,
    check_expression,
    evaluate,
    plain,
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


def read(reply: Any, **places: Any) -> Any:
    return ReplyMap(**places).read(reply if isinstance(reply, str) else json.dumps(reply))


def test_a_reply_in_leadlines_own_names_needs_no_map() -> None:
    answer = read(
        {
            "answer": "5.4 m",
            "retrieved_context": ["one", {"content": "two", "doc_uri": "d2"}],
            "cost_usd": 0.5,
            "input_tokens": 3,
            "output_tokens": 4,
        }
    )
    assert (answer.text, answer.cost_usd, answer.input_tokens, answer.output_tokens) == ("5.4 m", 0.5, 3, 4)
    assert answer.context == ({"content": "one"}, {"content": "two", "doc_uri": "d2"})


def test_a_text_is_the_whole_reply() -> None:
    assert read("It is 5.4 m.", answer="reply").text == "It is 5.4 m."


def test_documents_stand_beside_chunks_or_instead_of_them() -> None:
    both = read({"answer": "a", "retrieved_context": ["x", "y"], "documents": ["d1", "d2"]})
    assert both.context == ({"content": "x", "doc_uri": "d1"}, {"content": "y", "doc_uri": "d2"})
    alone = read({"answer": "a", "documents": ["d1"]})
    assert alone.context == ({"doc_uri": "d1"},)
    with pytest.raises(ValueFault, match="1 documents for 2 chunks"):
        read({"answer": "a", "retrieved_context": ["x", "y"], "documents": ["d1"]})


def test_an_empty_answer_is_an_answer_and_no_answer_is_none() -> None:
    assert read({"answer": ""}).text == ""
    with pytest.raises(ValueFault, match=r"no answer .* finds nothing in an object with text, id"):
        read({"text": "hi", "id": 1})


def test_a_reply_that_says_that_it_failed_is_no_answer() -> None:
    with pytest.raises(ValueFault, match="the index is down"):
        read({"answer": "Sorry!", "error": {"message": "the index is down"}})
    assert read({"answer": "fine", "error": None}).text == "fine"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"answer": ["a"]}, "answer of the reply: expected a text"),
        ({"answer": "a", "cost_usd": "much"}, "cost_usd of the reply: expected a number"),
        ({"answer": "a", "input_tokens": 1.5}, "input_tokens of the reply"),
        ({"answer": "a", "retrieved_context": "x"}, "retrieved_context of the reply: expected a list"),
        ({"answer": "a", "retrieved_context": [{"text": "x"}]}, "neither content nor doc_uri"),
        ({"answer": "a", "retrieved_context": [{"content": {}}]}, "chunk, content of the reply"),
    ],
)
def test_what_is_not_what_it_should_be_is_said(reply: Any, said: str) -> None:
    with pytest.raises(ValueFault, match=said):
        read(reply)


@dataclass
class Found:
    answer: str
    retrieved_context: tuple[str, ...] = ()


class Model(BaseModel):
    answer: str
    cost_usd: float | None = None


@pytest.mark.parametrize(
    ("returned", "record"),
    [
        ("hi", {"answer": "hi"}),
        ({"answer": "hi", "cost_usd": np.float64(0.5)}, {"answer": "hi", "cost_usd": 0.5}),
        (Found("hi", ("a",)), {"answer": "hi", "retrieved_context": ["a"]}),
        (Model(answer="hi"), {"answer": "hi", "cost_usd": None}),
    ],
)
def test_a_function_may_return_a_text_a_mapping_a_dataclass_or_a_model(returned: Any, record: Any) -> None:
    assert plain(returned) == record


@pytest.mark.parametrize("returned", [None, 5, ["a"], {"answer": object()}, {"answer": float("nan")}])
def test_what_a_function_may_not_return_is_refused(returned: Any) -> None:
    with pytest.raises(ValueFault):
        plain(returned)
