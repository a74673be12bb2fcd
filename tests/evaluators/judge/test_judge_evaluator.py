"""What evaluators see of the judge: attempts, evidence, reasons; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from leadline.evaluators.core import EvalContext, Metric, Spec
from leadline.evaluators.data import Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.prompting import prompt_from
from leadline.evaluators.judge_client.budget import Budget, Limits
from leadline.evaluators.judge_client.calls import BudgetSpent, JudgeTruncated, JudgeUnparseable, MemoryLedger, Reply
from leadline.evaluators.judge_client.client import JudgeClient
from tests.support.judges.scripted_judge import ScriptedTransport, make_client
from tests.support.judges.virtual_time import virtual_time

anyio_backend = virtual_time

PROMPTS = {"verdict": prompt_from("verdict", "Is it polite? {{ answer | data('answer') }}")}


class Verdict(BaseModel):
    verdict: str


class EarlierLedger(MemoryLedger):
    """A ledger all of whose replies are from an earlier run, as a new run finds it."""

    def __init__(self, earlier: MemoryLedger) -> None:
        super().__init__()
        self.replies = {digest: replace(reply, earlier=True) for digest, reply in earlier.replies.items()}


def judge(client: JudgeClient, trial: int = 0) -> Judge:
    return Judge(client, "test.polite", PROMPTS, trial)


def script(*replies: Reply | str) -> Callable[[int, Any], Reply | str]:
    return lambda number, messages: replies[min(number, len(replies) - 1)]


async def test_an_unreadable_reply_is_asked_for_once_more_with_what_was_wrong() -> None:
    transport = ScriptedTransport(script("hm", '{"verdict": "yes"}'))
    asked = judge(make_client(transport))
    assert (await asked.ask("verdict", Verdict, answer="a")).verdict == "yes"
    assert "could not be read" in transport.sent[1][-1]["content"]
    assert len(set(asked.calls)) == 2


async def test_two_unreadable_replies_are_no_verdict_and_both_are_kept() -> None:
    transport = ScriptedTransport(script("hm", "hmm", '{"verdict": "yes"}'))
    client = make_client(transport)
    with pytest.raises(JudgeUnparseable):
        await judge(client).ask("verdict", Verdict, answer="a")
    assert isinstance(client.ledger, MemoryLedger)
    assert sorted(reply.text for reply in client.ledger.replies.values()) == ["hm", "hmm"]
    assert all(problem for _, _, problem in client.ledger.verdicts.values())


async def test_a_truncated_reply_is_checked_before_it_is_parsed_and_gets_more_room() -> None:
    transport = ScriptedTransport(script(Reply('{"verdict": "yes"}', "length"), '{"verdict": "no"}'))
    client = make_client(transport, max_tokens=100)
    assert (await judge(client).ask("verdict", Verdict, answer="a")).verdict == "no"
    assert transport.max_tokens == [100, 200]

    transport = ScriptedTransport(script(Reply('{"verdict": "yes"}', "length")))
    with pytest.raises(JudgeTruncated):
        await judge(make_client(transport)).ask("verdict", Verdict, answer="a")


async def test_a_later_run_reads_the_stored_replies_with_todays_parser_before_it_asks() -> None:
    transport = ScriptedTransport(script("yes, quite"))
    client = make_client(transport)

    def old(text: str) -> str:
        raise JudgeUnparseable("I only know one-word replies.")

    def fixed(text: str) -> str:
        return text.partition(",")[0]

    with pytest.raises(JudgeUnparseable):
        await judge(client).read("verdict", old, answer="a")
    assert len(transport.sent) == 2
    assert isinstance(client.ledger, MemoryLedger)

    later = make_client(transport, ledger=EarlierLedger(client.ledger))
    assert await judge(later).read("verdict", fixed, answer="a") == "yes"
    assert len(transport.sent) == 2


async def test_a_later_run_asks_once_more_for_what_is_still_unreadable() -> None:
    transport = ScriptedTransport(script("hm", "hm", "hm", "polite"))
    ledger = MemoryLedger()
    for asked in (2, 3):
        client = make_client(transport, ledger=ledger)
        with pytest.raises(JudgeUnparseable):
            await judge(client).choose("verdict", ("polite", "rude"), answer="a")
        assert len(transport.sent) == asked
        with pytest.raises(JudgeUnparseable):  # another try within the same run asks for nothing
            await judge(client).choose("verdict", ("polite", "rude"), answer="a")
        assert len(transport.sent) == asked
        ledger = EarlierLedger(ledger)
    client = make_client(transport, ledger=ledger)
    assert await judge(client).choose("verdict", ("polite", "rude"), answer="a") == "polite"
    assert len(transport.sent) == 4


async def test_with_no_budget_stored_replies_are_read_and_what_is_missing_says_why() -> None:
    transport = ScriptedTransport(script("hm", "hm"))
    ledger = MemoryLedger()
    with pytest.raises(JudgeUnparseable):
        await judge(make_client(transport, ledger=ledger)).choose("verdict", ("polite", "rude"), answer="a")
    broke = make_client(transport, ledger=EarlierLedger(ledger), budget=Budget(Limits(calls=0)))
    with pytest.raises(JudgeUnparseable):
        await judge(broke).choose("verdict", ("polite", "rude"), answer="a")
    with pytest.raises(BudgetSpent):
        await judge(broke).choose("verdict", ("polite", "rude"), answer="another")
    assert len(transport.sent) == 2


async def test_calls_are_listed_in_the_order_of_the_questions_whichever_comes_first() -> None:
    async def listed(slow: str) -> list[str]:
        def reply(number: int, messages: list[dict[str, str]]) -> str:
            return "hm" if slow in messages[1]["content"] and len(messages) == 2 else "polite"

        asked = judge(make_client(ScriptedTransport(reply)))
        await asyncio.gather(
            *(asked.choose("verdict", ("polite", "rude"), answer=text) for text in ("one", "two", "three"))
        )
        return asked.calls

    first, second = await listed("one"), await listed("three")
    assert len(first) == len(second) == 4
    assert [call for call in first if call in second] == [call for call in second if call in first]


async def test_trials_are_calls_of_their_own() -> None:
    transport = ScriptedTransport(script("polite"))
    client = make_client(transport)
    for trial in (0, 1, 2, 2):
        await judge(client, trial).choose("verdict", ("polite", "rude"), answer="a")
    assert len(transport.sent) == 3


class Polite(JudgeEvaluator):
    spec = Spec(
        id="test.polite",
        name="Polite",
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(Metric("polite", "Polite", higher_is_better=True, primary=True),),
        judge="llm",
        lane="judge",
    )

    def all_prompts(self) -> dict[str, Any]:
        return dict(PROMPTS)

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        if row.actual_answer == "bug":
            raise KeyError("bug")
        word = await judge.choose("verdict", ("polite", "rude"), answer=row.actual_answer)
        return RowScore({"polite": float(word == "polite")})


def reasons(scores: list[RowScore]) -> list[Any]:
    return [value.reason if isinstance(value, Unscored) else value for s in scores for value in s.values.values()]


async def test_a_row_without_a_verdict_costs_no_other_its_score() -> None:
    def reply(number: int, messages: list[dict[str, str]]) -> Reply | str:
        text = messages[1]["content"]
        if "cut" in text:
            return Reply("pol", "length")
        return "hm" if "odd" in text else "polite"

    rows = [Row(str(n), "m", actual_answer=text) for n, text in enumerate(("fine", "odd", "cut", "bug", "good"))]
    scores = await Polite()._judge_all(rows, make_client(ScriptedTransport(reply)), EvalContext())
    assert reasons(scores) == [1.0, Reason.JUDGE_UNPARSEABLE, Reason.JUDGE_TRUNCATED, Reason.EVALUATOR_ERROR, 1.0]
    assert [len(score.evidence.data.get("calls", [])) for score in scores] == [1, 2, 2, 0, 1]  # type: ignore[arg-type]


def test_without_a_judge_every_row_says_so() -> None:
    scores = Polite().score([Row("a", "m", actual_answer="x")], EvalContext())
    assert reasons(scores) == [Reason.JUDGE_UNAVAILABLE]
    value = scores[0].values["polite"]
    assert isinstance(value, Unscored)
    assert "--judge" in value.message


def test_the_judge_and_the_prompts_are_part_of_the_scores_key() -> None:
    from leadline.evaluators.settings import JudgeConfig, Settings

    def key(**config: Any) -> str:
        judges = (JudgeConfig(**({"model": "openai/a"} | config)),)
        return str(Polite().identity(EvalContext(Settings(judges=judges))))

    assert key() == key(timeout_s=5, max_in_flight=3, key="other", down_after_s=1)
    assert len({key(), key(model="openai/b"), key(temperature=1), key(max_tokens=5), key(api_base="http://x")}) == 5


async def _polite(
    number: int, script: Callable[[int, list[dict[str, str]]], Reply | str]
) -> tuple[list[RowScore], int]:
    """Return the scores of so many rows, all different, and how many questions were sent."""
    transport = ScriptedTransport(script)
    rows = [Row(str(n), "m", actual_answer=f"text {n}") for n in range(number)]
    return await Polite()._judge_all(rows, make_client(transport), EvalContext()), len(transport.sent)


async def test_a_judge_that_never_says_one_of_the_words_is_asked_about_20_rows_and_its_words_are_told() -> None:
    scores, sent = await _polite(300, lambda number, messages: "Yes." if number % 4 else "no")
    assert sent == 40  # each of 20 rows twice
    assert reasons(scores) == [Reason.JUDGE_UNPARSEABLE] * 300
    value = scores[-1].values["polite"]
    assert isinstance(value, Unscored)
    assert 'The replies hold "yes" (30) and "no" (10).' in value.message
    assert "no reply was polite or rude" in value.message


async def test_one_word_that_is_read_lets_all_rows_be_asked_about_however_many_are_not() -> None:
    scores, sent = await _polite(
        300, lambda number, messages: "rude" if "text 19\n" in messages[1]["content"] else "no"
    )
    assert sent == 2 * 299 + 1
    assert reasons(scores).count(0.0) == 1
    assert all("Not asked" not in str(score.values["polite"]) for score in scores)


async def test_replies_that_are_cut_off_or_withheld_are_no_wrong_words() -> None:
    for reply in (Reply("pol", "length"), Reply("", "content_filter")):
        _, sent = await _polite(30, lambda number, messages, reply=reply: reply)  # type: ignore[misc]
        assert sent == 60


async def test_rows_wait_for_the_first_word_only_as_long_as_it_takes() -> None:
    transport = ScriptedTransport(lambda number, messages: "polite")
    client = make_client(transport, start_in_flight=64, max_in_flight=64)
    await Polite()._judge_all([Row(str(n), "m", actual_answer=f"{n}") for n in range(64)], client, EvalContext())
    assert transport.most_in_flight == 44  # the 20 that were asked about first, then all the others at once
