"""What a conversation takes, and whether that is within its limits."""

import pytest

from leadline.evaluators.data import NotApplicable
from tests.evaluators.agent.agents import call, row_of, score, values

STEPS = [
    {"step": 0, "kind": "agent", "start_ms": 0.0, "duration_ms": 2500.0, "input_tokens": 300, "cost_usd": 1.0},
    {
        "step": 1,
        "kind": "llm",
        "start_ms": 500.0,
        "duration_ms": 1000.0,
        "input_tokens": 100,
        "output_tokens": 20,
        "cost_usd": 0.01,
    },
    {"step": 2, "kind": "tool", "start_ms": 1500.0, "duration_ms": 1500.0},
    {"step": 3, "kind": "llm", "input_tokens": 150},
]


def spent(row, **limits):
    return values("budgets", row, **limits)


def test_steps_say_what_the_dataset_does_not():
    found = spent(row_of(call("a"), call("b"), steps=STEPS))
    assert isinstance(found.pop("within_budget"), NotApplicable)
    assert found == {"tool_calls": 2, "llm_calls": 2, "tokens": 270, "seconds": 3, "cost_usd": 0.01}


def test_the_datasets_own_figures_come_first():
    found = spent(row_of(steps=STEPS, duration_s=9.0, cost_usd=0.5, input_tokens=7))
    assert (found["tokens"], found["seconds"], found["cost_usd"]) == (7, 9, 0.5)


def test_what_nobody_recorded_is_not_applicable_and_breaks_no_limit():
    found = spent(row_of(call("a")), max_tokens=1)
    unknown = [name for name, value in found.items() if isinstance(value, NotApplicable)]
    assert sorted(unknown) == ["cost_usd", "llm_calls", "seconds", "tokens", "within_budget"]


@pytest.mark.parametrize(
    ("limits", "value"),
    [
        ({"max_tokens": 270}, 1),
        ({"max_tokens": 269}, 0),
        ({"max_tokens": 270, "max_seconds": 2.5}, 0),
        ({"max_tool_calls": 0}, 1),
        ({"max_llm_calls": 1}, 0),
        ({"max_cost_usd": 0.01}, 1),
    ],
)
def test_limits_are_kept_by_what_reaches_them(limits, value):
    assert spent(row_of(steps=STEPS), **limits)["within_budget"] == value


def test_evidence_names_what_was_too_much():
    found = score("budgets", row_of(steps=STEPS), max_tokens=200, max_seconds=1)
    assert found.evidence.message == "Over the limit: tokens 270 of 200 and seconds 3 of 1."


def test_a_negative_price_is_unscorable():
    found = spent(row_of(cost_usd=-1.0), max_cost_usd=1)
    assert found["cost_usd"].reason == "unscorable"
    assert isinstance(found["within_budget"], NotApplicable)
