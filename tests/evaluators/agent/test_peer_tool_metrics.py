"""The ids of other programs give what those programs gave, case by case."""

import json

import pytest

from tests.evaluators.agent.agents import CONFORMANCE, POOL, SCORES, call, expect, pool_row, row_of, score, values

BFCL = json.loads((CONFORMANCE / "bfcl_ast.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", POOL)
def test_values_are_those_of_ragas(case):
    row, theirs = pool_row(case), SCORES["ragas"][case]
    for name, strict in (("strict_order", True), ("any_order", False)):
        found = values("ragas.tool_call_accuracy", row, strict_order=strict)
        assert found["tool_call_accuracy"] == theirs[f"ToolCallAccuracy/{name}"], name
    assert values("ragas.tool_call_f1", row)["tool_call_f1"] == theirs["ToolCallF1"]


@pytest.mark.parametrize("case", POOL)
def test_values_are_those_of_deepeval(case):
    for name, value in SCORES["deepeval"][case].items():
        mode, compared = name.split("/")
        found = values("deepeval.tool_correctness", pool_row(case), mode=mode, input_parameters="input" in compared)
        assert found["tool_correctness"] == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize("case", BFCL, ids=lambda case: case["case"])
def test_verdicts_are_those_of_bfcl(case):
    [calls, expected] = ([next(iter(one.items())) for one in case[side]] for side in ("called", "possible_answer"))
    row = row_of(
        *(call(name, **arguments) for name, arguments in calls),
        expected_tool_calls=[{"name": name, "arguments": arguments} for name, arguments in expected],
        tools=case["functions"],
    )
    assert values("bfcl.ast", row)["ast"] == case["valid"]


def test_bfcl_checks_values_without_knowing_the_tools():
    wanted = [expect("book", city=["Rome"], n=[1, ""], who=[[{"name": ["Al"]}], ""])]

    def valid(**arguments):
        return values("bfcl.ast", row_of(call("book", **arguments), expected_tool_calls=wanted))["ast"]

    assert [valid(city="ROME"), valid(city="rome", n=1), valid(city="Paris"), valid(n=1)] == [1, 1, 0, 0]
    assert [valid(city="rome", who=[{"name": "al."}]), valid(city="rome", who=[{"name": "Bo"}])] == [1, 0]


def test_evidence_says_what_was_called_and_what_is_wrong():
    row = row_of(call("a", x=1), expected_tool_calls=[expect("b")])
    assert score("ragas.tool_call_f1", row).evidence.message == "Called: a(x=1). Expected: b()."
    assert score("bfcl.ast", row).evidence.message == (
        "No call is valid for the expected b: a(x=1): another tool was called."
    )
