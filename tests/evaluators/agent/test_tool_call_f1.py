"""F1 of tool calls: the formula, on the cases that others were given, and what is and is not a fault."""

import pytest

from tests.evaluators.agent.agents import POOL, SCORES, call, expect, pool_row, row_of, score, too_many, values

ID = "tool_call_f1"


@pytest.mark.parametrize("case", POOL)
@pytest.mark.parametrize("arguments", ["exact", "superset", "partial", "ignore"])
@pytest.mark.parametrize(("order", "name"), [("any", "any_order"), ("kept", "in_order")])
def test_values_are_those_of_an_independent_computation(case, arguments, order, name):
    found = values(ID, pool_row(case), arguments=arguments, order=order)
    assert found[ID] == pytest.approx(SCORES["proposed"][case][f"{ID}/{name}/{arguments}"], abs=1e-6)


AS_TEXTS = {"type_differs", "float_int"}
"""Cases of numbers, which Azure compares as texts."""


@pytest.mark.parametrize("case", sorted(SCORES["azure"].keys() - AS_TEXTS))
def test_f1_is_that_of_azures_task_navigation(case):
    for name, (_, f1) in SCORES["azure"][case].items():
        arguments = "exact" if name.endswith("/args") else "ignore"
        assert values(ID, pool_row(case), arguments=arguments)[ID] == pytest.approx(f1)


def test_precision_and_recall_stand_beside_it():
    row = row_of(call("a"), call("b"), call("c"), expected_tool_calls=[expect("a"), expect("d")])
    assert values(ID, row) == {ID: 0.4, "precision": 1 / 3, "recall": 0.5}


def test_a_doubled_call_costs():
    row = row_of(call("a"), call("a"), expected_tool_calls=[expect("a")])
    assert values(ID, row)["precision"] == 0.5


def test_no_expected_call_is_met_by_no_call_only():
    assert set(values(ID, row_of(expected_tool_calls=[])).values()) == {1.0}
    found = score(ID, row_of(call("a"), expected_tool_calls=[]))
    assert set(found.values.values()) == {0.0}
    assert found.evidence.message == "No call is expected; extra: a()."


def test_extra_calls_that_change_nothing_cost_nothing():
    row = row_of(call("look"), call("book", id=7), call("peek"), expected_tool_calls=[expect("book", id=7)])
    assert values(ID, row)[ID] == 0.5
    assert values(ID, row, read_only_tools=["look", "peek"])[ID] == 1
    marked = row_of(
        *row.tool_calls, expected_tool_calls=row.expected_tool_calls, tools=[{"name": "look", "read_only": True}]
    )
    assert values(ID, marked)["precision"] == 0.5
    only = row_of(call("look"), expected_tool_calls=[])
    assert values(ID, only, read_only_tools=["look"])[ID] == 1


def test_a_missing_call_costs_even_if_it_changes_nothing():
    row = row_of(expected_tool_calls=[expect("look")])
    assert values(ID, row, read_only_tools=["look"])[ID] == 0


def test_too_many_parallel_calls_are_unscorable_only_where_order_counts():
    row = too_many()
    assert values(ID, row)[ID] == 1
    assert values(ID, row, order="kept")[ID].reason == "unscorable"
