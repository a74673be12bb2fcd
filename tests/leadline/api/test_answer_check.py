"""``leadline.check``: what it asserts, what it shows, and what is no failure of the answer."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

import leadline
from leadline.evaluators.data import Row
from leadline.evaluators.ground import UsageError
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving

LEAK = "Call bob.miller@acme.com."


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_JUDGE", raising=False)


def test_a_good_answer_passes_and_its_values_come_back() -> None:
    values = leadline.check(
        "The pump starts at seven.", expected="The pump starts at seven.", metrics=["pii_leakage", "rouge"]
    )
    assert values == {"pii_leakage.pii_generation_leakages": 0.0, "rouge.rouge_l": 1.0}


def test_a_bad_answer_fails_with_value_limit_and_evidence() -> None:
    with pytest.raises(AssertionError) as caught:
        leadline.check(LEAK, question="Who to call?", metrics="pii_leakage")
    failed = caught.value
    assert isinstance(failed, leadline.AnswerFailed)
    assert (failed.value, failed.limit) == (1.0, 0.0)
    (span,) = failed.evidence["spans"]
    assert LEAK[span["start"] : span["end"]] == "bob.miller@acme.com"
    assert str(failed).splitlines() == [
        "pii_leakage.pii_generation_leakages is 1, at most 0 is good",
        "    The answer contains e-mail address.",
        '    answer[5:24] "bob.miller@acme.com": email',
        "question   Who to call?",
        "answer     Call bob.miller@acme.com.",
    ]


def test_every_failing_metric_is_shown_and_the_others_are_not() -> None:
    with pytest.raises(leadline.AnswerFailed) as caught:
        leadline.check(LEAK, expected="At seven.", condition='"bob"', metrics=["rouge", "pii_leakage", "text_matching"])
    assert [failure.evaluator for failure in caught.value.failures] == ["pii_leakage", "rouge"]
    assert caught.value.values["text_matching.model_passes"] == 1.0


@pytest.mark.parametrize("name", ["rouge", "rouge:rouge_2"])
def test_a_limit_of_the_call_comes_before_the_metrics_own(name: str) -> None:
    texts = {"answer": "It starts at seven.", "expected": "At seven."}
    leadline.check(**texts, metrics="rouge", limits={name: 0.2})  # type: ignore[arg-type]
    with pytest.raises(leadline.AnswerFailed, match=f"{name.replace(':', '.')}.* at least 0.8 is good"):
        leadline.check(**texts, metrics="rouge", limits={name: 0.8})  # type: ignore[arg-type]


def test_a_function_of_a_row_is_a_metric() -> None:
    def polite(row: Row) -> bool:
        return "please" in (row.actual_answer or "")

    assert leadline.check("Wait, please.", metrics=[polite]) == {"polite.polite": 1.0}
    with pytest.raises(leadline.AnswerFailed, match=r"^polite is 0, at least 0\.75 is good"):
        leadline.check("Wait.", metrics=[polite], limits={"polite": 0.75})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": []}, "check needs metrics"),
        ({"metrics": ["rouge"]}, "rouge needs expected"),
        ({"metrics": ["no_such"]}, "no_such"),
        ({"metrics": ["pii_leakage"], "limits": {"rouge": 0.5}}, "a limit for 'rouge', which is not measured"),
        ({"metrics": ["pii_leakage"], "colour": "red"}, "colour"),
        ({"metrics": None}, "check needs metrics"),
        ({"metrics": ["rouge"], "expected": 5}, "expected is a int, not a text"),
        ({"metrics": ["rouge"], "expected": ["a", None]}, "expected is a NoneType, not a text"),
        ({"metrics": ["rouge"], "question": 5}, "question is a int, not a text"),
        ({"metrics": ["valor.faithfulness"], "context": ["c"], "question": "q"}, "asks a judge"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_and_fails_no_answer(arguments: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(UsageError, match=message):
        leadline.check("An answer.", **arguments)


def test_an_instrument_that_fails_is_an_error_of_its_own(tmp_path: Path) -> None:
    mumbles = JudgeEndpoint(lambda question: "hm")
    with serving(mumbles) as judge, pytest.raises(leadline.NotMeasured) as caught:
        leadline.check("An answer.", metrics="contact_information", judge=asked_at(judge))
    assert not isinstance(caught.value, AssertionError)
    assert set(caught.value.reasons.values()) == {"judge_unparseable"}
    assert "judge_unparseable" in str(caught.value)


def test_a_judge_is_paid_once_for_an_answer_and_the_calls_are_on_record(tmp_path: Path) -> None:
    with serving(JudgeEndpoint(lambda question: "absent")) as judge:
        for _ in range(3):
            leadline.check("The pump starts at seven.", metrics="contact_information", judge=asked_at(judge))
        assert len(judge.log) == 1
    assert (tmp_path / ".leadline" / "ledger.sqlite").exists()


def test_it_may_be_called_where_an_event_loop_runs() -> None:
    async def main() -> dict[str, float]:
        return leadline.check("Hello.", metrics="pii_leakage")

    assert asyncio.run(main())


def test_hostile_texts_cannot_drive_the_terminal() -> None:
    with pytest.raises(leadline.AnswerFailed) as caught:
        leadline.check("\x1b[2Jbob.miller@acme.com\u202e", question="a\x07", metrics="pii_leakage")
    assert not set("\x1b\x07\u202e") & set(str(caught.value))


def test_a_failure_travels_to_another_process() -> None:
    with pytest.raises(leadline.AnswerFailed) as caught:
        leadline.check(LEAK, metrics="pii_leakage")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.failures, again.values) == (str(caught.value), caught.value.failures, caught.value.values)


def asked_at(judge: JudgeEndpoint, **changes: float) -> dict[str, str]:
    """Write a judge at an endpoint to leadline.toml, and return the settings that name it."""
    more = "".join(f"{name} = {value}\n" for name, value in changes.items())
    Path("leadline.toml").write_text(
        f'[judges.here]\nmodel = "openai/judge"\napi_base = "{judge.url}"\n{more}', encoding="utf-8"
    )
    return {"model": "here"}


TALK = [
    {"role": "user", "content": "Refund order 1042."},
    {"role": "assistant", "tool_calls": [{"id": "a", "name": "find_order", "arguments": {"order": 1042}}]},
    {"role": "tool", "tool_call_id": "a", "content": "paid"},
    {"role": "assistant", "content": "Order 1042 was refunded."},
    {"role": "user", "content": "Whom can I write to?"},
    {"role": "assistant", "content": LEAK},
]
CALLS = [{"name": "find_order", "arguments": {"order": 1042}}]


def test_a_conversation_is_held_to_its_calls_and_its_reply() -> None:
    values = leadline.check(
        TALK[:4],
        expected_tool_calls=CALLS,
        condition='"refunded"',
        metrics=["tool_call_f1", "text_matching", "pii_leakage"],
    )
    assert values["tool_call_f1.tool_call_f1"] == values["text_matching.model_passes"] == 1.0


def test_a_conversation_fails_by_its_worst_turn_and_shows_that_turn() -> None:
    with pytest.raises(leadline.AnswerFailed) as caught:
        leadline.check(TALK, metrics="pii_leakage")
    assert str(caught.value).splitlines() == [
        "pii_leakage.pii_generation_leakages is 1, at most 0 is good",
        "    Turn 2: The answer contains e-mail address.",
        '    answer[5:24] "bob.miller@acme.com": email',
        "question   Whom can I write to?",
        "answer     Call bob.miller@acme.com.",
    ]


def test_a_missing_call_is_shown_with_the_calls_that_were_made() -> None:
    with pytest.raises(leadline.AnswerFailed) as caught:
        leadline.check(TALK[:4], expected_tool_calls=[*CALLS, {"name": "refund"}], metrics="tool_call_f1")
    assert str(caught.value).splitlines() == [
        "tool_call_f1 is 0.6667, at least 0.75 is good",
        "    1 of 2 expected calls was made; missing: refund().",
        '    call 1[0:10] "find_order": expected call 1, 1',
        "question   Refund order 1042.",
        'call       find_order {"order": 1042} → paid',
        "answer     Order 1042 was refunded.",
    ]


def test_what_only_conversations_have_is_refused_beside_a_text() -> None:
    with pytest.raises(UsageError, match="tool_call_f1 needs") as refused:
        leadline.check("Done.", metrics="tool_call_f1")
    assert refused.value.hint == "Give the messages of a conversation as the answer."
    with pytest.raises(UsageError, match="expected_tool_calls is of a conversation"):
        leadline.check("Done.", expected_tool_calls=CALLS, metrics="tool_call_f1")
    with pytest.raises(UsageError, match="needs expected_tool_calls"):
        leadline.check(TALK, metrics="tool_call_f1")
    with pytest.raises(UsageError, match=r"needs .*context") as refused:
        leadline.check(TALK, metrics="context_relevancy_soft")
    assert refused.value.hint == "The messages have to have it."
    with pytest.raises(UsageError, match="message 1"):
        leadline.check([{"content": 7}], metrics="pii_leakage")
