"""Arguments are compared with the expected ones, and with what the tools take."""

import pytest

from leadline.evaluators.data import NotApplicable
from tests.evaluators.agent.agents import call, expect, row_of, score, values

ID = "tool_arguments"
BOOK = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "day": {"type": ["string", "null"], "enum": ["mon", "tue", None]},
            "who": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            "free": {},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
}


def test_arguments_of_matched_calls_are_compared_in_part():
    row = row_of(
        call("book", id=7, day="mon"),
        call("look"),
        expected_tool_calls=[expect("book", id=7, day="tue"), expect("mail")],
    )
    found = score(ID, row)
    assert found.values[ID] == 0.5
    assert found.evidence.message == 'book(id=7, day="mon") differs from book(id=7, day="tue").'
    assert [(span.index, span.value) for span in found.evidence.spans] == [(0, 0.5)]


def test_calls_are_paired_so_that_arguments_agree_best():
    row = row_of(call("f", a=2), call("f", a=1), expected_tool_calls=[expect("f", a=1), expect("f", a=2)])
    assert values(ID, row)[ID] == 1


def test_every_call_that_can_be_paired_is():
    row = row_of(call("f", a=1), call("f", a=2), expected_tool_calls=[expect("f", a=1), expect("f", a=9)])
    assert values(ID, row)[ID] == 0.5


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (call("book", id=7, day="mon", who=[{"name": "Ada"}], free={"x": 1}), ""),
        (call("book", id=7.0, day=None), ""),
        (call("cook", id=7), "there is no such tool"),
        (call("book", day="mon"), "id is missing"),
        (call("book", id="7"), "id is no integer"),
        (call("book", id=True), "id is no integer"),
        (call("book", id=7.5), "id is no integer"),
        (call("book", id=7, day="wed"), "day is none of the allowed values"),
        (call("book", id=7, day=1), "day is no string or null"),
        (call("book", id=7, who=[{}]), "who[0].name is missing"),
        (call("book", id=7, x=1), "x is not among its parameters"),
        (call("book", _raw="{id: 7"), "the arguments are no JSON object"),
    ],
)
def test_calls_are_held_against_what_their_tools_take(made, fault):
    found = score(ID, row_of(made, tools=[BOOK]))
    assert found.values["valid_calls"] == (0 if fault else 1)
    assert fault in found.evidence.message
    assert isinstance(found.values[ID], NotApplicable)


def test_without_tools_or_calls_nothing_is_valid_or_invalid():
    assert isinstance(values(ID, row_of(call("book")))["valid_calls"], NotApplicable)
    assert isinstance(values(ID, row_of(tools=[BOOK]))["valid_calls"], NotApplicable)
