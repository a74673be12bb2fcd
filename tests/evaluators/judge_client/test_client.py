"""The client: retries, deadlines, the ledger, the budget, in virtual time."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from leadline.evaluators.data import Reason
from leadline.evaluators.judge_client.budget import Budget, Limits
from leadline.evaluators.judge_client.calls import (
    BudgetSpent,
    Call,
    Charge,
    JudgeError,
    JudgeRefused,
    JudgeUnavailable,
    MemoryLedger,
    Reply,
)
from leadline.evaluators.judge_client.transport import Refused, Throttled, Transient
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.scripted_judge import ScriptedTransport, make_client, question
from tests.support.judges.virtual_time import now, run, virtual_time

anyio_backend = virtual_time


def fails(first: int, error: Exception) -> ScriptedTransport:
    """A judge whose first attempts fail."""

    def script(number: int, messages: list[dict[str, str]]) -> str:
        if number < first:
            raise error
        return "yes"

    return ScriptedTransport(script)


@pytest.mark.parametrize(
    "said",
    [
        "HTTP 400: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "ContextWindowExceededError: prompt is too long: 210000 tokens > 200000 maximum",
        "HTTP 400: The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "HTTP 400: the request exceeds the available context size, try increasing it",
        "HTTP 400: context_length_exceeded",
        "5000 tokens of question and 1024 of reply exceed the model's 4096",
    ],
)
async def test_a_question_that_exceeds_the_judges_window_is_unscorable(said: str) -> None:
    with pytest.raises(JudgeRefused) as caught:
        await make_client(fails(1, Refused(said))).ask(question())
    assert caught.value.reason is Reason.UNSCORABLE
    assert said in str(caught.value)


async def test_a_call_in_flight_is_made_once_for_all_who_ask() -> None:
    transport = ScriptedTransport()
    client = make_client(transport)
    calls = [question(purpose=f"evaluator{n}:ask") for n in range(20)]
    replies = await asyncio.gather(*map(client.ask, calls))
    assert len(transport.sent) == 1
    assert {reply.text for reply in replies} == {"yes"}


async def test_the_ledger_is_asked_first_and_learns_in_the_order_of_events() -> None:
    class Spy(MemoryLedger):
        def __init__(self) -> None:
            super().__init__()
            self.events: list[str] = []

        async def find(self, digest: str) -> Reply | None:
            self.events.append("find")
            return await super().find(digest)

        async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
            await asyncio.sleep(1)
            assert not transport.sent, "a call must not be made before its intent is on record"
            self.events.append("intend")
            return await super().intend(call, charge)

        async def answered(self, call: Call, reply: Reply) -> None:
            self.events.append("answered")
            await super().answered(call, reply)

    transport = ScriptedTransport()
    ledger = Spy()
    client = make_client(transport, ledger=ledger)
    first = await client.ask(question())
    second = await client.ask(question())
    assert ledger.events == ["find", "intend", "answered", "find"]
    assert (first.from_ledger, second.from_ledger) == (False, True)
    assert len(transport.sent) == 1


async def test_a_reply_that_another_process_brought_meanwhile_is_taken_and_costs_nothing() -> None:
    class Shared(MemoryLedger):
        async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
            return Reply("yes", from_ledger=True)

        async def answered(self, call: Call, reply: Reply) -> None:
            raise AssertionError("it is on record")

    transport = ScriptedTransport()
    budget = Budget(Limits(calls=1))
    client = make_client(transport, ledger=Shared(), budget=budget)
    assert (await client.ask(question())).from_ledger
    assert (transport.sent, budget.calls) == ([], 0)


async def test_a_ledger_that_keeps_the_budget_is_heard() -> None:
    class Spent(MemoryLedger):
        async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
            assert charge is not None
            raise BudgetSpent("The budget is spent.")

    transport = ScriptedTransport()
    ledger = Spent()
    with pytest.raises(BudgetSpent):
        await make_client(transport, ledger=ledger).ask(question())
    assert (transport.sent, ledger.failures) == ([], {})


async def test_questions_that_differ_in_trial_or_attempt_are_different_calls() -> None:
    transport = ScriptedTransport()
    client = make_client(transport)
    await asyncio.gather(*(client.ask(question(trial=t, attempt=a)) for t in (0, 1) for a in (0, 1)))
    assert len(transport.sent) == 4


@pytest.mark.parametrize("error", [Throttled("slow down"), Transient("500"), Transient("silence", overloaded=True)])
async def test_what_may_pass_is_tried_again_after_growing_pauses(error: Exception) -> None:
    transport = fails(4, error)
    reply = await make_client(transport).ask(question())
    assert reply.tries == 5
    pauses = [b - a - transport.latency for a, b in zip(transport.times, transport.times[1:], strict=False)]
    for pause, longest in zip(pauses, (0.5, 1, 2, 4), strict=True):
        assert longest / 2 - 1e-6 <= pause <= longest + 1e-6


async def test_retry_after_is_honoured_by_all_calls() -> None:
    transport = fails(1, Throttled("slow down", 10.0))
    client = make_client(transport, start_in_flight=1, max_in_flight=1)
    began = now()
    await asyncio.gather(*(client.ask(question(str(n))) for n in range(3)))
    assert min(transport.times[1:]) >= began + 1 + 10


async def test_a_pause_longer_than_a_call_may_take_is_not_waited_for() -> None:
    transport = fails(99, Throttled("daily quota", 20_000))
    client = make_client(transport)
    began = now()
    with pytest.raises(JudgeUnavailable, match="20000 s"):
        await client.ask(question())
    with pytest.raises(JudgeUnavailable, match="quota"):
        await client.ask(question("another"))
    assert now() - began < 5
    assert len(transport.sent) == 1


@pytest.mark.parametrize(("asked", "waits"), [(295.0, True), (301.0, False)])
async def test_a_pause_is_waited_for_up_to_the_time_that_a_call_may_take(asked: float, waits: bool) -> None:
    client = make_client(fails(1, Throttled("slow down", asked)), deadline_s=300.0)
    began = now()
    if waits:
        assert (await client.ask(question())).text == "yes"
        assert now() - began >= asked
    else:
        with pytest.raises(JudgeUnavailable, match="301 s"):
            await client.ask(question())
        assert now() - began < 5


def test_silence_lowers_the_limit_and_other_failures_do_not() -> None:
    async def main(overloaded: bool) -> float:
        client = make_client(fails(8, Transient("no reply", overloaded=overloaded)), start_in_flight=8, max_in_flight=8)
        await asyncio.gather(*(client.ask(question(str(n))) for n in range(8)))
        return client.limiter.limit

    assert run(main(overloaded=True)) < 8
    assert run(main(overloaded=False)) == 8


async def test_a_refusal_is_final_and_leaves_other_calls_alone() -> None:
    ledger = MemoryLedger()
    transport = fails(1, Refused("the question is too long"))
    client = make_client(transport, ledger=ledger)
    with pytest.raises(JudgeRefused, match="too long"):
        await client.ask(question())
    assert len(transport.sent) == 1
    assert not ledger.replies
    assert "too long" in ledger.failures[question().digest]
    assert (await client.ask(question("another"))).text == "yes"


async def test_a_wrong_key_stops_all_calls_at_once() -> None:
    transport = fails(10**6, Refused("wrong key", every=True))
    client = make_client(transport, max_in_flight=4, start_in_flight=4)
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(500)), return_exceptions=True)
    assert all(isinstance(result, JudgeRefused) for result in results)
    assert len(transport.sent) <= 4


async def test_a_call_ends_within_its_deadline_however_the_judge_fails() -> None:
    transport = fails(10**6, Throttled("slow down"))
    client = make_client(transport, deadline_s=60)
    began = now()
    with pytest.raises(JudgeUnavailable, match=r"in \d+ attempts: slow down"):
        await client.ask(question())
    assert now() - began < 60 + 31


async def test_waiting_for_a_turn_takes_nothing_of_a_calls_time() -> None:
    def script(number: int, messages: list[dict[str, str]]) -> str:
        if messages[0]["content"] == "99" and sum(m[0]["content"] == "99" for m in transport.sent) == 1:
            raise Transient("500")
        return "yes"

    transport = ScriptedTransport(script, latency=10)
    client = make_client(transport, start_in_flight=1, max_in_flight=1, deadline_s=30)
    replies = await asyncio.gather(*(client.ask(question(str(n))) for n in range(100)))
    assert len(replies) == 100


async def test_a_judge_that_goes_down_is_given_up_soon_and_found_again() -> None:
    down = False

    def script(number: int, messages: list[dict[str, str]]) -> str:
        if down:
            raise Transient("connection refused")
        return "yes"

    transport = ScriptedTransport(script)
    client = make_client(transport, max_in_flight=8, start_in_flight=8, down_after_s=20)
    await client.ask(question("before"))
    down = True
    began = now()
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(2_000)), return_exceptions=True)
    assert all(isinstance(result, JudgeUnavailable) for result in results)
    assert now() - began < 90
    assert len(transport.sent) < 200

    before = len(transport.sent)
    await asyncio.gather(*(client.ask(question(str(n))) for n in range(100)), return_exceptions=True)
    assert len(transport.sent) - before <= 1, "while it is held to be down one call at a time tries it"

    down = False
    await asyncio.sleep(21)
    assert (await client.ask(question("after"))).text == "yes"
    replies = await asyncio.gather(*(client.ask(question(str(n))) for n in range(100)))
    assert len(replies) == 100


async def test_a_call_that_finds_the_judge_down_does_not_come_back_as_its_probe() -> None:
    transport = fails(10**6, Transient("going down", overloaded=True))
    client = make_client(transport, max_in_flight=8, start_in_flight=8, down_after_s=1)
    began = now()
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(8)), return_exceptions=True)
    assert all(isinstance(result, JudgeUnavailable) for result in results)
    assert now() - began < 20


async def test_errors_are_never_answered_from_the_ledger() -> None:
    transport = fails(1, Refused("not now"))
    client = make_client(transport)
    with pytest.raises(JudgeError):
        await client.ask(question())
    assert (await client.ask(question())).text == "yes"


async def test_the_concurrency_stays_within_the_limit_and_reaches_it() -> None:
    transport = ScriptedTransport()
    client = make_client(transport, start_in_flight=2, max_in_flight=32)
    await asyncio.gather(*(client.ask(question(str(n))) for n in range(400)))
    assert transport.most_in_flight == 32


async def test_a_caller_that_is_cancelled_does_not_take_the_call_from_the_others() -> None:
    transport = ScriptedTransport()
    client = make_client(transport)
    one, other = (asyncio.ensure_future(client.ask(question())) for _ in range(2))
    await asyncio.sleep(0.5)
    one.cancel()
    assert (await other).text == "yes"
    assert len(transport.sent) == 1


async def test_a_call_limit_admits_exactly_so_many_calls() -> None:
    transport = ScriptedTransport()
    client = make_client(transport, budget=Budget(Limits(calls=10)))
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(30)), return_exceptions=True)
    assert sum(isinstance(result, Reply) for result in results) == 10
    assert sum(isinstance(result, BudgetSpent) for result in results) == 20
    assert len(transport.sent) == 10


async def test_a_cost_limit_is_never_passed_even_with_calls_in_flight() -> None:
    transport = ScriptedTransport(lambda n, m: Reply("yes", cost_usd=0.009))
    budget = Budget(Limits(cost_usd=0.1))
    client = make_client(transport, budget=budget, input_cost_per_token=0.0, output_cost_per_token=0.001, max_tokens=10)
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(50)), return_exceptions=True)
    paid = sum(isinstance(result, Reply) for result in results)
    assert paid == 10
    assert budget.spent_usd == pytest.approx(paid * 0.009)
    assert budget.spent_usd <= 0.1


@pytest.mark.parametrize("cost", [-1e9, float("-inf"), float("nan")])
async def test_a_reply_that_claims_to_bring_money_in_does_not_raise_the_budget(cost: float) -> None:
    ledger, budget = MemoryLedger(), Budget(Limits(cost_usd=0.1))
    client = make_client(
        ScriptedTransport(lambda n, m: Reply("yes", cost_usd=cost)),
        ledger=ledger, budget=budget, input_cost_per_token=0.0, output_cost_per_token=0.001, max_tokens=10,
    )  # fmt: skip
    results = await asyncio.gather(*(client.ask(question(str(n))) for n in range(50)), return_exceptions=True)
    assert sum(isinstance(result, Reply) for result in results) == 10
    assert budget.spent_usd == pytest.approx(0.1)
    assert {reply.cost_usd for reply in ledger.replies.values()} == {None}


async def test_an_unknown_price_is_not_taken_for_nothing() -> None:
    client = make_client(ScriptedTransport(), budget=Budget(Limits(cost_usd=1.0)), model="unheard/of")
    with pytest.raises(BudgetSpent, match="price is unknown"):
        await client.ask(question())


async def test_what_a_failed_call_had_reserved_is_given_back() -> None:
    budget = Budget(Limits(calls=1))
    client = make_client(fails(1, Refused("no")), budget=budget)
    with pytest.raises(JudgeRefused):
        await client.ask(question())
    assert budget.calls == 0
    assert (await client.ask(question())).text == "yes"


@pytest.mark.parametrize(
    ("transport", "calls", "usd"),
    [(ScriptedTransport(latency=100.0), 1, 0.01), (fails(9, Transient("busy", retry_after=100.0)), 0, 0.0)],
    ids=["in flight: it may have been paid for", "between two attempts"],
)
async def test_what_a_call_had_reserved_that_is_given_up_is_kept_only_if_it_was_in_flight(
    transport: ScriptedTransport, calls: int, usd: float
) -> None:
    budget = Budget(Limits(cost_usd=1.0))
    client = make_client(transport, budget=budget, input_cost_per_token=0.0, output_cost_per_token=0.001, max_tokens=10)
    asking = asyncio.ensure_future(client.ask(question()))
    await asyncio.sleep(50)
    for task in client._flying.values():
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(1)
    assert len(transport.sent) == 1
    assert (budget.calls, budget.spent_usd) == (calls, pytest.approx(usd))


def test_a_forked_process_asks_by_itself_and_waits_for_no_call_of_the_one_it_comes_from() -> None:
    program = (
        "import os, sys, time\n"
        "from leadline.evaluators.settings import Settings\n"
        "from leadline.evaluators.judge_client.client import client_for\n"
        "from leadline.evaluators.judge_client.event_loop import judges_loop, run\n"
        "from leadline.evaluators.settings import JudgeConfig\n"
        "from tests.support.judges.scripted_judge import question\n"
        "import asyncio\n"
        "config = JudgeConfig(model='openai/judge', api_base=sys.argv[1], max_in_flight=1, start_in_flight=1)\n"
        "client = client_for(config, settings=Settings(judges=(config,)), ledger=None, budget=None)\n"
        "run(client.ask(question('first')))\n"
        "asyncio.run_coroutine_threadsafe(client.ask(question('slow')), judges_loop())\n"
        "while client.limiter.in_flight == 0: time.sleep(0.01)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    ok = run(client.ask(question('second'))).text == run(client.ask(question('slow'))).text == 'yes'\n"
        "    os._exit(0 if ok else 1)\n"
        "said = [run(client.ask(question(text))).text for text in ('slow', 'third')]\n"
        "print(os.waitpid(child, 0)[1], *said)\n"
    )
    with serving(JudgeEndpoint(latency=0.2)) as endpoint:
        done = subprocess.run([sys.executable, "-c", program, endpoint.url], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0 yes yes\n", "")
    assert sorted(endpoint.answered) == ["first", "second", "slow", "slow", "third"]
