"""Trajectories match in five senses, which are the modes of other programs."""

import pytest

from tests.evaluators.agent.agents import POOL, SCORES, call, expect, pool_row, row_of, score, too_many, values

ID = "tool_trajectory_match"
SENSES = ("any_order", "exact", "in_order", "superset", "subset")
AGENTEVALS = {"strict": "exact", "unordered": "any_order", "subset": "subset", "superset": "superset"}
AZURE = {"exact_match": "exact", "in_order_match": "in_order", "any_order_match": "superset"}
ADK = {"EXACT": "exact", "IN_ORDER": "in_order", "ANY_ORDER": "superset"}
TURNED_ROUND = {"subset": "superset", "superset": "subset"}
"""How agentevals compares arguments in its mode "subset", where it takes the two sides for one another."""


@pytest.mark.parametrize("case", POOL)
@pytest.mark.parametrize("arguments", ["exact", "superset", "ignore"])
def test_verdicts_are_those_of_an_independent_computation(case, arguments):
    found = values(ID, pool_row(case), arguments=arguments)
    assert [found[sense] for sense in SENSES] == SCORES["proposed"][case][f"trajectory_match/{arguments}"]


@pytest.mark.parametrize("case", POOL)
@pytest.mark.parametrize("together", [False, True], ids=["in turn", "parallel"])
def test_verdicts_are_those_of_agentevals(case, together):
    for name, verdict in SCORES["agentevals"][f"{case}, parallel" if together else case].items():
        mode, arguments = name.split("/")
        if arguments in TURNED_ROUND and mode == "unordered":
            continue  # it wants the arguments to agree both ways round, which is "exact"
        if arguments in TURNED_ROUND and case == "greedy_trap":
            continue  # it fails what the best matching solves
        arguments = TURNED_ROUND.get(arguments, arguments) if mode == "subset" else arguments
        found = values(ID, pool_row(case, together=together), arguments=arguments)
        assert found[AGENTEVALS[mode]] == verdict, name


@pytest.mark.parametrize("case", POOL)
def test_verdicts_are_those_of_adk(case):
    for name, verdict in SCORES["adk"][case].items():
        mode, compared = name.split("/")
        found = values(ID, pool_row(case), arguments="exact" if compared == "args" else "ignore")
        assert found[ADK[mode]] == verdict, name


@pytest.mark.parametrize("case", sorted(SCORES["azure"].keys() - {"type_differs", "float_int"}))
def test_verdicts_are_those_of_azure_but_for_numbers_that_it_compares_as_texts(case):
    for name, (verdict, _) in SCORES["azure"][case].items():
        mode, compared = name.split("/")
        found = values(ID, pool_row(case), arguments="exact" if compared == "args" else "ignore")
        assert found[AZURE[mode]] == verdict, name


def test_calls_of_one_message_have_no_order():
    calls, wanted = [call("b"), call("a")], [expect("a"), expect("b")]
    apart = score(ID, row_of(*calls, expected_tool_calls=wanted))
    assert (apart.values["exact"], apart.values["any_order"]) == (0, 1)
    assert apart.evidence.message.endswith("They were not made in the expected order.")
    assert values(ID, row_of(*calls, together=True, expected_tool_calls=wanted))["exact"] == 1


def test_extra_calls_that_change_nothing_cost_nothing():
    row = row_of(call("look"), call("book"), expected_tool_calls=[expect("book")])
    assert values(ID, row) == dict(zip(SENSES, (0, 0, 1, 1, 0), strict=True))
    assert set(values(ID, row, read_only_tools=["look"]).values()) == {1.0}


def test_too_many_parallel_calls_are_unscorable():
    assert values(ID, too_many())["exact"].reason == "unscorable"
