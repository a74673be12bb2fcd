"""Steps that were needed, steps for nothing, and steps that go round."""

import pytest

from leadline.evaluators.agent.efficiency import in_cycles
from leadline.evaluators.data import NotApplicable
from tests.evaluators.agent.agents import call, expect, row_of, score, values


@pytest.mark.parametrize(("made", "wanted", "value"), [(4, 2, 0.5), (2, 2, 1), (1, 2, 1), (0, 0, 1), (3, 0, 0)])
def test_efficiency_is_expected_over_made_calls(made, wanted, value):
    row = row_of(*[call("a")] * made, expected_tool_calls=[expect("a")] * wanted)
    assert values("step_efficiency", row)["step_efficiency"] == value


def test_efficiency_needs_something_done_and_something_known():
    idle = values("step_efficiency", row_of(expected_tool_calls=[expect("a")]))
    assert isinstance(idle["step_efficiency"], NotApplicable)
    unknown = values("step_efficiency", row_of(call("a")))
    assert isinstance(unknown["step_efficiency"], NotApplicable)
    assert unknown["redundant_calls"] == 0


def test_a_second_look_is_redundant_unless_something_may_have_changed():
    looks = row_of(call("look", n=1), call("see"), call("look", n=1.0))
    assert values("step_efficiency", looks)["redundant_calls"] == 0
    found = score("step_efficiency", looks, read_only_tools=["see", "look"])
    assert found.values["redundant_calls"] == pytest.approx(1 / 3)
    assert found.evidence.message == "1 redundant call: look(n=1.0) 1 time."
    assert [span.index for span in found.evidence.spans] == [2]


def test_doing_the_same_twice_in_a_row_is_redundant():
    assert values("step_efficiency", row_of(call("book", id=1), call("book", id=1)))["redundant_calls"] == 0.5
    assert values("step_efficiency", row_of(call("book", id=1), call("book", id=True)))["redundant_calls"] == 0


def loops(*calls):
    return tuple(values("agent_loops", row_of(*calls)).values())


def test_equal_calls_with_equal_results_are_repeated():
    assert loops() == (1, 0)
    assert loops(call("a")) == (1, 1)
    assert loops(call("a"), call("a"), call("a"), call("b"), call("c")) == (0.5, 3)
    assert loops(*[call("a")] * 4) == (0, 4)


def test_polling_is_no_loop_while_results_differ():
    assert loops(*(call("poll", result=f"{n} %") for n in range(9))) == (1, 1)


def test_calls_that_go_round_are_repeated_whatever_they_return():
    rounds = [call(name, result=str(n)) for n in range(4) for name in "ab"]
    assert loops(*rounds) == (pytest.approx(1 / 7), 1)
    assert loops(*rounds[:4]) == (1, 1)


@pytest.mark.parametrize(
    ("made", "places"),
    [
        ("ababab", {2, 3, 4, 5}),
        ("xabababy", {3, 4, 5, 6}),
        ("abab", set()),
        ("aaaaaaaa", set()),
        ("abcabcabc", set(range(3, 9))),
        ("abcdabcdabcd", set(range(4, 12))),
        ("abcdeabcdeabcde", set()),
        ("aabaabaab", set(range(3, 9))),
        ("", set()),
    ],
)
def test_a_cycle_is_a_stretch_three_times_in_a_row(made, places):
    assert in_cycles(made) == places
