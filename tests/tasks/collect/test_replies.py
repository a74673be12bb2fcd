"""Reading replies: what is found, what is absent, and what is refused with a reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from leadline.tasks.collect.templates import ReplyMap, plain
from leadline.tasks.load.values import ValueFault


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
