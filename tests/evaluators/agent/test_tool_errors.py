"""Errors of tools are counted, with what came behind them."""

from leadline.evaluators.data import NotApplicable, Row, calls_of
from tests.evaluators.agent.agents import call, row_of, score, values

ID = "tool_errors"


def conversation(*steps):
    """Return the row of a conversation: "?" asks, "!" answers, "a" calls a tool, "-a" calls it in vain."""
    messages = []
    for number, step in enumerate(steps):
        if step in "?!":
            messages.append({"role": "user" if step == "?" else "assistant", "content": "text"})
            continue
        name, key = step.removeprefix("-"), str(number)
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"id": key, "name": name, "arguments": {}}]}
        )
        result = {"role": "tool", "tool_call_id": key, "name": name, "content": ""}
        messages.append({**result, "error": "busy"} if step.startswith("-") else result)
    return Row("case", "model", messages=messages, tool_calls=calls_of(messages))


def found(*steps):
    return tuple(values(ID, conversation(*steps)).values())


def test_errors_are_the_share_of_calls_that_fail():
    assert found("?", "a", "-b", "b", "c", "!") == (0.25, 1, 0)


def test_an_error_is_recovered_from_by_the_same_tool_in_the_same_turn():
    assert found("?", "-a", "b", "!") == (0.5, 0, 1)
    assert found("?", "-a", "!", "?", "a", "!") == (0.5, 0, 1)
    assert found("?", "-a", "-a", "a", "!") == (2 / 3, 1, 0)


def test_an_error_behind_which_nothing_is_said_is_not_ignored():
    assert found("?", "!", "-a") == (1, 0, 0)
    assert found("?", "-a", "?", "!") == (1, 0, 0)


def test_parallel_calls_do_not_recover_each_other():
    row = row_of(call("a", error="busy"), call("a"), together=True)
    assert values(ID, row)["recovered"] == 0
    assert values(ID, row_of(*row.tool_calls))["recovered"] == 1


def test_without_messages_nobody_knows_whether_an_error_was_ignored():
    assert isinstance(values(ID, row_of(call("a", error="busy")))["ignored"], NotApplicable)


def test_without_errors_there_is_nothing_to_recover_from_and_without_calls_nothing_at_all():
    assert isinstance(values(ID, row_of(call("a")))["recovered"], NotApplicable)
    assert {type(value) for value in values(ID, row_of()).values()} == {NotApplicable}


def test_evidence_names_what_failed():
    shown = score(ID, conversation("?", "-a", "b", "!")).evidence
    assert shown.message == "1 of 2 calls failed: a() (busy)."
    assert [(span.index, span.note) for span in shown.spans] == [(0, "not recovered from")]
