"""The ledger: what was awaited survives kill -9, whoever else writes; and what it says of calls and money."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.evaluators.judge_client import client as client_module
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.calls import BudgetSpent, Call, Charge, Reply
from leadline.tasks.ground.processes import FOREIGN_S, is_gone, this_process
from leadline.tasks.ledger import ledger as ledger_module
from leadline.tasks.ledger import operations
from leadline.tasks.ledger.ledger import DatabaseLedger, ledger_at, ledger_place
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.postgres import PostgresAccess
from leadline.tasks.store.store import Store
from tests.support.judges.scripted_judge import ScriptedTransport, make_client, question
from tests.support.stores.ledgers import Place

CHARGE = Charge(None)
REPLY = Reply("yes", "stop", 10, 2, 0.001, 0.5, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "ledger.sqlite"


async def put(ledger: DatabaseLedger, call: Call, reply: Reply | None = REPLY) -> None:
    await ledger.intend(call)
    if reply is None:
        await ledger.failed(call, "connection refused")
    else:
        await ledger.answered(call, reply)
        await ledger.judged(call.digest, "1", reply.text, "")


async def test_a_reply_is_found_again_and_says_from_which_run_it_is(place: Place) -> None:
    first, second = ledger_at(place, "run1"), ledger_at(place, "run2")
    assert await first.find(question().digest) is None
    await put(first, question())
    assert await first.find(question().digest) == replace(REPLY, from_ledger=True)
    assert await second.find(question().digest) == replace(REPLY, from_ledger=True, earlier=True)


async def test_an_intent_or_a_failure_is_no_reply(place: Place) -> None:
    ledger = ledger_at(place, "run1")
    await ledger.intend(question("a"))
    await put(ledger, question("b"), None)
    assert await ledger.find(question("a").digest) is None
    assert await ledger.find(question("b").digest) is None


async def test_the_first_reply_stays_and_both_are_paid_for(place: Place) -> None:
    one, other = ledger_at(place, "run1"), ledger_at(place, "run2")
    await one.intend(question())
    await other.intend(question())
    await one.answered(question(), replace(REPLY, text="first"))
    await other.answered(question(), replace(REPLY, text="second"))
    found = await one.find(question().digest)
    assert found is not None
    assert found.text == "first"
    assert sum(total.cost_usd for total in LedgerReader(place).totals()) == pytest.approx(0.002)


@pytest.mark.parametrize("text", ["", "\0", "\u202e🙂", "x" * 1_000_000, "'; DROP TABLE calls; --"])
async def test_any_text_comes_back_as_it_was(place: Place, text: str) -> None:
    ledger = ledger_at(place, "run1")
    await put(ledger, question(text), replace(REPLY, text=text))
    found = await ledger.find(question(text).digest)
    assert found is not None
    assert found.text == text
    await ledger.judged(question(text).digest, "2", {"quoted": text + "\ud800"}, "lone \ud800")
    assert LedgerReader(place).one(question(text).digest)["messages"] == [{"role": "user", "content": text}]


async def test_calls_are_found_by_words_of_their_prompts_which_are_no_pattern(place: Place) -> None:
    ledger = ledger_at(place, "run1")
    for text in ("It is 100% so!", "It is 100x so!", "Is it _so_?"):
        await put(ledger, question(text))
    reader = LedgerReader(place)
    (found,) = reader.mentioning("100% so!", 9)
    assert (found["digest"], found["purpose"], bool(found["answered"])) == (
        question("It is 100% so!").digest,
        "test:ask",
        True,
    )
    assert len(reader.mentioning("_so_", 9)) == 1
    assert len(reader.mentioning("It is", 1)) == 1
    assert reader.mentioning("'; --", 9) == []


def test_what_was_awaited_survives_kill_9(place: Place) -> None:
    script = (
        "import asyncio, sys\n"
        "from leadline.tasks.ledger.ledger import ledger_at\n"
        "from tests.support.judges.scripted_judge import question\n"
        "from tests.support.stores.ledgers import named\n"
        "from tests.tasks.ledger.test_ledger import REPLY\n"
        "async def one(ledger, n):\n"
        "    call = question(str(n))\n"
        "    await ledger.intend(call)\n"
        "    print('intended', call.digest, flush=True)\n"
        "    await ledger.answered(call, REPLY)\n"
        "    print('answered', call.digest, flush=True)\n"
        "async def main():\n"
        "    ledger = ledger_at(named(sys.argv[1]), 'run1')\n"
        "    for start in range(0, 100_000, 20):\n"
        "        await asyncio.gather(*(one(ledger, n) for n in range(start, start + 20)))\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(500)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait()
    events = {"intended": set(), "answered": set()}
    for line in said:
        if line.endswith("\n"):
            event, digest = line.split()
            events[event].add(digest)
    reader = LedgerReader(place)
    asks = reader.asks()
    assert len(events["answered"]) >= 200
    assert events["intended"] <= {ask["digest"] for ask in asks}
    assert events["answered"] <= {ask["digest"] for ask in asks if ask["state"] == "answered"}
    lost = {ask["digest"] for ask in asks if ask["lost"]}
    assert lost == {ask["digest"] for ask in asks if ask["state"] == "intended"}
    assert len(lost) <= 20
    assert reader.total("run1").lost == len(lost)


def test_a_process_that_ends_leaves_one_file_with_all_that_its_ledger_was_given(path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys, threading\n"
        "from leadline.tasks.ledger.ledger import ledger_at\n"
        "from tests.support.judges.scripted_judge import question\n"
        "from tests.tasks.ledger.test_ledger import REPLY\n"
        "loop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
        "do = lambda work: asyncio.run_coroutine_threadsafe(work, loop)\n"
        "ledger = ledger_at(pathlib.Path(sys.argv[1]), 'run1')\n"
        "calls = [question(str(n)) for n in range(300)]\n"
        "for begun in [do(ledger.intend(call)) for call in calls]:\n"
        "    begun.result()\n"
        "for call in calls:\n"
        "    do(ledger.answered(call, REPLY))\n"
        "do(asyncio.sleep(0)).result()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=os.environ | {"PYTHONPATH": "."})
    assert not path.with_name("ledger.sqlite-wal").exists()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [ask["state"] for ask in LedgerReader(path).asks()] == ["answered"] * 300


def test_several_processes_write_at_once(place: Place) -> None:
    script = (
        "import asyncio, sys\n"
        "from leadline.tasks.ledger.ledger import ledger_at\n"
        "from tests.support.judges.scripted_judge import question\n"
        "from tests.support.stores.ledgers import named\n"
        "from tests.tasks.ledger.test_ledger import put\n"
        "async def main():\n"
        "    ledger = ledger_at(named(sys.argv[1]), sys.argv[2])\n"
        "    await asyncio.gather(*(put(ledger, question(f'{sys.argv[2]} {n}')) for n in range(200)))\n"
        "asyncio.run(main())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(place), f"run{n}"], env=os.environ | {"PYTHONPATH": "."})
        for n in range(4)
    ]
    assert [process.wait(60) for process in processes] == [0] * 4
    totals = LedgerReader(place).totals()
    assert [(total.run, total.asked, total.answered) for total in totals] == [(f"run{n}", 200, 200) for n in range(4)]


async def test_a_process_that_holds_the_ledger_does_not_hold_up_the_loop(path: Path) -> None:
    ledger = ledger_at(path, "run1")
    await put(ledger, question("before"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = [asyncio.ensure_future(put(ledger, question(str(n)))) for n in range(20)]
    longest, last = 0.0, time.perf_counter()
    for _ in range(50):
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    assert longest < 0.3
    assert not any(task.done() for task in writing)
    assert await ledger.find(question("before").digest) is not None
    other.execute("COMMIT")
    other.close()
    await asyncio.gather(*writing)
    assert LedgerReader(path).total("run1").answered == 21


async def test_what_the_database_cannot_hold_costs_only_itself(place: Place) -> None:
    calls = [question(str(n)) for n in range(9)]
    ledger = ledger_at(place, "run1")
    async with asyncio.timeout(30):
        for call in calls:
            await ledger.intend(call)
        replies = [replace(REPLY, input_tokens=10**30 if call is calls[4] else 10) for call in calls]
        ends = await asyncio.gather(*map(ledger.answered, calls, replies), return_exceptions=True)
        assert [type(end) for end in ends] == [type(None)] * 4 + [StoreError] + [type(None)] * 4
        assert "cannot hold the end of ask" in str(ends[4])
        intents = [question("unwritable", purpose="\ud800"), question("written")]
        begun = await asyncio.gather(*map(ledger.intend, intents), return_exceptions=True)
        assert [type(outcome) for outcome in begun] == [StoreError, type(None)]
        assert str(begun[0]).endswith("surrogates not allowed.")
        assert intents[0].digest in str(begun[0])
        await ledger.answered(intents[1], replace(REPLY, finish_reason="a lone \ud800"))
        found = [await ledger.find(call.digest) is not None for call in (*calls, *intents)]
        assert found == [True] * 4 + [False] + [True] * 4 + [False, True]
    total = LedgerReader(place).total("run1")
    assert (total.asked, total.answered) == (10, 9)


async def test_what_does_not_fit_beside_another_process_costs_only_itself(path: Path) -> None:
    ledger = ledger_at(path, "run1")
    await ledger.intend(question("a"))
    await ledger.intend(question("b"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ends = [ledger.answered(question("a"), replace(REPLY, tries=10**30)), ledger.answered(question("b"), REPLY)]
    writing = asyncio.gather(*ends, return_exceptions=True)
    await asyncio.sleep(0.2)
    other.execute("COMMIT")
    other.close()
    assert [type(end) for end in await asyncio.wait_for(writing, 30)] == [StoreError, type(None)]


async def test_a_full_disk_fails_all_that_waits_and_leaves_nothing_open(path: Path) -> None:
    ledger = ledger_at(path, "run1")
    connection = ledger._access._writing  # type: ignore[attr-defined]
    await put(ledger, question("before"))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    long = replace(REPLY, text="long " * 10_000)
    writing = [put(ledger, question(str(n)), long) for n in range(4)]
    outcomes = await asyncio.wait_for(asyncio.gather(*writing, return_exceptions=True), 30)
    assert all(isinstance(outcome, StoreError) and "LEADLINE_LEDGER" in outcome.hint for outcome in outcomes)
    connection.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    await put(ledger, question("after"), long)
    assert await ledger.find(question("after").digest) is not None


async def test_a_thousand_calls_take_few_transactions(place: Place) -> None:
    ledger = ledger_at(place, "run1")
    await put(ledger, question("warm"))
    began = time.perf_counter()
    await asyncio.gather(*(put(ledger, question(str(n))) for n in range(1_000)))
    assert time.perf_counter() - began < 3  # 0.2 s on an idle machine


async def test_an_unknown_price_is_counted_not_taken_for_nothing(place: Place) -> None:
    ledger = ledger_at(place, "run1")
    await put(ledger, question("a", purpose="faithfulness:verdicts"))
    await put(ledger, question("b", purpose="faithfulness:verdicts"), replace(REPLY, cost_usd=None))
    await put(ledger, question("c", purpose="byop:prompt"))
    await put(ledger, question("d", purpose="byop:prompt"), None)
    reader = LedgerReader(place)
    byop, faithfulness = reader.totals("run1")
    assert (faithfulness.evaluator, faithfulness.answered, faithfulness.unknown_price) == ("faithfulness", 2, 1)
    assert faithfulness.cost_usd == pytest.approx(0.001)
    assert (byop.asked, byop.answered, byop.failed) == (2, 1, 1)
    every = reader.total("run1")
    assert (every.asked, every.answered, every.unknown_price, every.repeated_attempts) == (4, 3, 1, 6)
    assert reader.total("another").asked == 0


async def test_calls_lost_with_a_process_are_told_from_calls_in_flight(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ledger_at(place, "run1").intend(question("in flight"))
    host = this_process().rsplit(":", 2)[0]
    monkeypatch.setattr(ledger_module, "this_process", lambda: f"{host}:{os.getpid()}:1")  # the pid's former owner
    await ledger_at(place, "run1").intend(question("lost"))
    again = ledger_at(place, "run2")
    await put(again, question("lost"))
    await put(again, question("in flight"))
    reader = LedgerReader(place)
    assert [line["digest"] for line in reader.lost("run1")] == [question("lost").digest]
    assert reader.made_again("run2") == 1
    assert [line["digest"] for line in reader.asks(failed=True)] == [question("lost").digest]


def as_process(monkeypatch: pytest.MonkeyPatch, started: str) -> None:
    """Let the ledgers opened from now on be those of this process, or of another one of that name."""
    host, pid, mine = this_process().rsplit(":", 2)
    monkeypatch.setattr(ledger_module, "this_process", lambda: f"{host}:{pid}:{started or mine}")


async def test_a_call_that_another_process_makes_is_left_to_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ELSEWHERE_S", 0.02)
    monkeypatch.setattr(operations, "is_gone", lambda process, *_, **__: process.endswith(":gone"))
    others = {}
    for name in ("alive", "gone"):
        as_process(monkeypatch, name)
        others[name] = ledger_at(place, name)
    as_process(monkeypatch, "")
    transport = ScriptedTransport(lambda n, messages: "asked here", latency=0)
    client = make_client(transport, ledger=ledger_at(place, "mine"))

    await others["alive"].intend(question("a"), CHARGE)
    await others["alive"].intend(question("b"), CHARGE)
    await others["gone"].intend(question("c"), CHARGE)
    waiting = {name: asyncio.ensure_future(client.ask(question(name))) for name in "abc"}
    assert (await waiting["c"]).text == "asked here", "nobody else will bring it"
    await asyncio.sleep(0.1)
    assert not waiting["a"].done()
    await others["alive"].answered(question("a"), replace(REPLY, text="asked there"))
    await others["alive"].failed(question("b"), "no")
    assert (await waiting["a"]).text == "asked there"
    assert (await waiting["b"]).text == "asked here"
    assert len(transport.sent) == 2
    assert client.limiter.in_flight == 0


async def test_a_reply_that_came_after_the_look_is_not_asked_for(place: Place) -> None:
    one, other = ledger_at(place, "run1"), ledger_at(place, "run2")
    assert await one.find(question().digest) is None
    await put(other, question())
    found = await one.intend(question(), CHARGE)
    assert found == replace(REPLY, from_ledger=True, earlier=True)
    assert LedgerReader(place).total("run1").asked == 0


@pytest.mark.slow
@pytest.mark.postgres
async def test_processes_that_ask_the_same_in_any_order_do_not_block_each_other(postgres_url: str) -> None:
    ledgers = [DatabaseLedger(PostgresAccess(postgres_url), f"run{n}") for n in range(3)]
    orders = [random.Random(n).sample(range(100), 100) for n in range(3)]
    await asyncio.gather(
        *(put(ledger, question(str(n))) for ledger, order in zip(ledgers, orders, strict=True) for n in order)
    )
    asks = LedgerReader(postgres_url).asks()
    assert len({ask["digest"] for ask in asks if ask["state"] == "answered"}) == 100


def test_processes_of_other_hosts_are_given_up_after_a_while() -> None:
    assert not is_gone("elsewhere:1:1", 1_000.0, 1_000.0 + FOREIGN_S - 1)
    assert is_gone("elsewhere:1:1", 1_000.0, 1_000.0 + FOREIGN_S + 1)


async def test_one_call_is_shown_by_the_beginning_of_its_digest(place: Place) -> None:
    await put(ledger_at(place, "run1"), question())
    digest = question().digest
    call = LedgerReader(place).one(digest[:8])
    assert (call["digest"], call["text"], call["model"]) == (digest, "yes", "m")
    assert call["verdicts"] == [{"parser": "1", "verdict": "yes", "problem": ""}]
    assert json.dumps(call)
    for wrong in ("0000", "xyz", "%", digest[:2]):
        with pytest.raises(UsageError):
            LedgerReader(place).one(wrong)


def test_where_there_is_no_ledger_nothing_was_asked(place: Place) -> None:
    reader = LedgerReader(place)
    assert (reader.asks(), reader.totals(), reader.made_again("run1")) == ([], [], 0)
    assert not isinstance(place, Path) or not place.exists()


def test_a_ledger_that_cannot_be_used_says_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_text("this is no database, and it is longer than a header of SQLite could be" * 10)
    with pytest.raises(StoreError, match=r"ledger\.sqlite"):
        ledger_at(path, "run1")


def test_its_place_is_the_store_or_what_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path)
    monkeypatch.delenv("LEADLINE_LEDGER", raising=False)
    assert ledger_place(store) == tmp_path / "ledger.sqlite"
    monkeypatch.setenv("LEADLINE_LEDGER", str(tmp_path / "other" / "l.db"))
    assert ledger_place(store) == tmp_path / "other" / "l.db"


async def test_a_call_that_is_given_up_takes_its_intent_back_and_is_left_to_others(place: Place) -> None:
    """A process that goes on living would else keep others from the call, and its money set aside."""
    ledger = ledger_at(place, "run", Limits(calls=2))
    waiting = asyncio.create_task(ledger.intend(question("waits"), Charge(2.0)))
    await asyncio.sleep(0)
    waiting.cancel()  # while its intent is being written
    with suppress(asyncio.CancelledError):
        await waiting
    await ledger.failed(question("waits"), "Given up while it waited.")
    client = make_client(ScriptedTransport(latency=60), ledger=ledger)
    flying = asyncio.create_task(client._obtain(question("flies"), 1000))
    while client.limiter.in_flight == 0:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    flying.cancel()
    with suppress(asyncio.CancelledError):
        await flying
    assert await ledger.intend(question("one more"), Charge(2.0)) is None
    with pytest.raises(BudgetSpent):
        await ledger.intend(question("and another"), Charge(2.0))
    said = [None, "Given up in flight: it may have been paid for.", "Given up while it waited."]
    assert [line["error"] for line in LedgerReader(place).asks("run")] == said


def test_a_forked_process_is_refused_the_ledger_that_it_inherits(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from leadline.evaluators.ground.errors import StoreError\n"
        "from leadline.tasks.ledger.ledger_report import LedgerReader\n"
        "from leadline.tasks.ledger.ledger import ledger_at\n"
        "from leadline.evaluators.judge_client.calls import Reply\n"
        "from tests.support.judges.scripted_judge import question\n"
        "place = Path(sys.argv[1])\n"
        "async def put(text, ledger):\n"
        "    await ledger.intend(question(text))\n"
        "    await ledger.answered(question(text), Reply('yes'))\n"
        "ledger = ledger_at(place, 'run')\n"
        "asyncio.run(put('first', ledger))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for each in (ledger, ledger_at(place, 'other')):\n"
        "        try: asyncio.run(put('second', each))\n"
        "        except StoreError as error: assert 'was opened before this process was forked' in str(error)\n"
        "        else: os._exit(1)\n"
        "    os._exit(0)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "asyncio.run(put('third', ledger))\n"
        "print(status, len(LedgerReader(place).asks()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "ledger.sqlite")], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("0 2\n", "")


async def test_what_the_provider_tells_of_the_model_that_answered_is_kept(place: Place) -> None:
    told = replace(REPLY, served_model="small-2026-11-01", fingerprint="fp_a1")
    await put(ledger_at(place, "told"), question("a"), told)
    await put(ledger_at(place, "told"), question("b"))
    found = LedgerReader(place).told("told")
    assert found[question("a").digest] == {
        "output_tokens": 2, "served_model": "small-2026-11-01", "fingerprint": "fp_a1",
    }  # fmt: skip
    assert found[question("b").digest]["served_model"] is None
    served = LedgerReader(place).served("told")
    assert all(line["identity"] == question("a").judge for line in served)
    names = {(line["served_model"], line["fingerprint"]) for line in served}
    assert names == {("small-2026-11-01", "fp_a1"), (None, None)}
    assert LedgerReader(place).served("another run") == []


async def test_a_check_of_a_judge_is_kept_once_for_its_occasion(place: Place) -> None:
    def line(at: float, state: str) -> tuple[object, ...]:
        return ("check/2026-11-20", "a1", 0, at, 100, 3.0, 2.5, 0.4, 0.01, state, "", "")

    ledger = ledger_at(place, "checks")
    await ledger.keep_check(line(1.0, "steady"))
    await ledger.keep_check(line(2.0, "changed"))
    [kept] = LedgerReader(place).drift_checks("a1")
    assert (kept["at"], kept["state"], kept["differing"]) == (1.0, "steady", 3.0)
    assert LedgerReader(place).drift_checks("b2") == []


async def test_a_ledger_of_an_earlier_version_gets_what_it_lacks_and_keeps_what_it_has(path: Path) -> None:
    path.parent.mkdir()
    await put(ledger_at(path.parent / "new.sqlite", "run1"), question("old"))
    with closing(sqlite3.connect(path.parent / "new.sqlite", isolation_level=None)) as connection:
        connection.execute("DROP TABLE drift_checks")
        for column in operations.LATER_COLUMNS:
            connection.execute(f"ALTER TABLE asks DROP COLUMN {column}")
        connection.execute(f"VACUUM INTO '{path}'")
    assert LedgerReader(path).drift_checks() == [], "it is read as it is"
    ledger = ledger_at(path, "run2")
    await put(ledger, question("new"), replace(REPLY, fingerprint="fp_a1"))
    found = await ledger.find(question("old").digest)
    assert found is not None
    assert found.text == "yes"
    assert LedgerReader(path).told("run2")[question("new").digest]["fingerprint"] == "fp_a1"
