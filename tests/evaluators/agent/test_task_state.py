"""The state that an agent leaves, and the facts that it tells."""

import pytest

from leadline.evaluators.data import NotApplicable, Row
from tests.evaluators.agent.agents import score, values


def state(expected, final, **params):
    row = Row("case", "model", metadata={"final_state": final}, scenario={"expected_state": expected})
    return tuple(values("task_state", row, **params).values())


@pytest.mark.parametrize(
    ("expected", "final", "found"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1.0, 2], "a": 1}, (1, 1)),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, (0, 0.5)),
        ({"a": 1}, {"a": 1, "b": 2}, (0, 0.5)),
        ({"a": {}}, {"a": {"b": 1}}, (0, 0)),
        ({"a": {"b": 1}}, {"a.b": 1}, (0, 0)),
        ({"0": 1}, [1], (0, 0)),
        ({"a": True}, {"a": 1}, (0, 0)),
        ({}, {}, (1, 1)),
        ("done", "done", (1, 1)),
    ],
)
def test_states_are_equal_place_by_place(expected, final, found):
    assert state(expected, final) == found


def test_members_are_ignored_by_name_or_by_path():
    expected = {"orders": {"7": {"eta": 1, "at": 1}}, "at": 1}
    final = {"orders": {"7": {"eta": 2, "at": 2}}, "at": 2}
    assert state(expected, final, ignore=["at"]) == (0, 0)
    assert state(expected, final, ignore=["at", "orders.7.eta"]) == (1, 1)
    assert state(expected, final, ignore=["orders.7"]) == (0, 0)


def test_a_large_state_may_have_others():
    assert state({"a": 1}, {"a": 1, "b": 2}, others_allowed=True) == (1, 1)


def test_evidence_names_the_places_that_differ():
    row = Row("case", "model", metadata={"final_state": {"a": [2]}}, scenario={"expected_state": {"a": [1]}})
    found = score("task_state", row)
    assert (found.evidence.message, found.evidence.data) == ("Not as expected: a.0.", {"differs": ["a.0"]})


def test_without_either_state_nothing_is_said():
    assert isinstance(values("task_state", Row("c", "m", metadata={"final_state": 1}))["task_state"], NotApplicable)


def told(facts, *texts, role="assistant"):
    messages = [{"role": role, "content": text} for text in texts]
    return score("communicated", Row("case", "model", messages=messages, scenario={"expected_facts": facts}))


def test_facts_are_told_without_regard_to_case_and_commas():
    found = told(["1200", "Berth 7", "noon"], "That is 1,200 euros.", "berth 7 it is.")
    assert found.values["communicated"] == pytest.approx(2 / 3)
    assert found.evidence.message == "Not told: noon."
    assert [(span.index, span.start, span.end) for span in found.evidence.spans] == [(0, 8, 13), (1, 0, 7)]


def test_only_the_assistant_tells():
    assert told(["noon"], "At noon.", role="user").values["communicated"] == 0
    assert told(["noon", ""], "At noon.").values["communicated"] == 0.5
    assert told("noon", "At noon.").values["communicated"] == 1
    assert isinstance(told([], "At noon.").values["communicated"], NotApplicable)
