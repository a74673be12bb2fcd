"""A run's budget in the ledger: exact however many processes work on the run, and whichever of them are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.calls import BudgetSpent, Charge, Reply
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.ledger.ledger import ledger_at, read_ledger
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import Choice
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.judged_run import EVALUATORS, judge_at, register, reply, write_rows
from tests.support.judges.scripted_judge import question
from tests.support.processes.waiting import eventually
from tests.support.stores.ledgers import Place, admitted

REPLY = Reply("yes", cost_usd=0.25)
SCORE = (
    "import json, sys\n"
    "from leadline.tasks.plan.jobs import Chunk\nfrom leadline.tasks.score.chunk import score_chunk\n"
    "from tests.support.judges.judged_run import register\n"
    "register()\n"
    "score_chunk(Chunk(**json.loads(sys.argv[1])))\n"
)


async def test_calls_are_limited_for_all_that_work_on_a_run_together(place: Place) -> None:
    one, other = (ledger_at(place, "run1", Limits(calls=10)) for _ in range(2))
    first = await admitted(one, [f"a{n}" for n in range(6)])
    second = await admitted(other, [f"b{n}" for n in range(6)])
    assert (len(first), len(second)) == (6, 4)
    with pytest.raises(BudgetSpent, match="budget of 10 calls is spent"):
        await one.intend(question("one more"), Charge(1.0))
    assert await one.intend(question("a search"), None) is None, "it does not count"
    await other.failed(question(second[0]), "refused")
    assert len(await admitted(one, ["c1", "c2"])) == 1, "what failed is given back"
    await one.answered(question(first[0]), REPLY)
    assert await admitted(one, ["d1"]) == [], "what was answered is not"
    assert len(await admitted(ledger_at(place, "run2", Limits(calls=3)), ["e1", "e2", "e3", "e4"])) == 3


async def test_money_is_set_aside_and_settled(place: Place) -> None:
    one, other = (ledger_at(place, "run1", Limits(cost_usd=3.0)) for _ in range(2))
    assert await admitted(one, ["a", "b"]) == ["a", "b"]
    assert await admitted(other, ["c", "d"]) == ["c"]
    await one.answered(question("a"), REPLY)  # 0.25 of the dollar that was set aside
    assert await admitted(other, ["e", "f"], usd=0.75) == ["e"]
    await one.answered(question("b"), replace(REPLY, cost_usd=None))  # what it cost is not known: a dollar
    assert await admitted(other, ["g"], usd=0.1) == []
    with pytest.raises(BudgetSpent, match="price is unknown"):
        await other.intend(question("h"), Charge(None))


async def test_without_limits_no_books_are_kept_of_them(place: Place) -> None:
    ledger = ledger_at(place, "run1")
    assert len(await admitted(ledger, ["a", "b"], usd=None)) == 2
    assert await admitted(ledger_at(place, "run1", Limits(calls=1)), ["c"]) == ["c"]


@given(st.lists(st.tuples(st.sampled_from("bafu"), st.integers(0, 5)), max_size=40), st.integers(0, 6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_never_more_than_the_limit_is_begun_or_answered(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]], limit: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    ledgers = [ledger_at(path, "run1", Limits(calls=limit)) for _ in range(2)]
    in_flight: list[tuple[int, str]] = []
    spent = 0
    for number, (event, which) in enumerate(events):
        if event == "b":
            names = await admitted(ledgers[which % 2], [f"{number}"])
            assert len(names) == (1 if spent + len(in_flight) < limit else 0)
            in_flight += [(which % 2, name) for name in names]
        elif in_flight:
            ledger, name = in_flight.pop(which % len(in_flight))
            if event == "f":
                await ledgers[ledger].failed(question(name), "no")
                continue
            spent += 1
            if event == "a":
                await ledgers[ledger].answered(question(name), REPLY)  # otherwise it was lost


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_two_processes_make_no_call_too_many_even_if_one_is_killed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_LEDGER", str(place))
    register()
    store, limit = Store.open(tmp_path / "store"), 150
    loaded = load_dataset(store, write_rows(tmp_path / "rows.jsonl", 100))
    with serving(JudgeEndpoint(reply, latency=0.05)) as endpoint:
        plan = pipeline.plan_run(
            store, loaded, Choice(tuple(kind() for kind in EVALUATORS), {}),
            Settings(judges=(judge_at(endpoint.url),)),
            model_keys=(), processes=1, config={}, limits=Limits(calls=limit),
        )  # fmt: skip
        assert len(plan.chunks) == 2
        processes = [score(chunk) for chunk in plan.chunks]
        eventually(lambda: len(endpoint.answered) > limit / 3, 120, "a third of the calls")
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        for process in [score(plan.chunks[0]), processes[1]]:
            assert process.wait(120) == 0
        asked = len(endpoint.log)
        total = read_ledger(store).total(plan.run)
        assert asked <= limit
        assert total.answered + total.lost == limit, "all of it was used"
        assert total.asked == limit
    run = store.run(plan.run)
    pipeline.gather_scores(store, run)
    counts = pipeline.count_scores(store, run)
    assert counts["scored"] + counts["unscored"] == 200
    assert counts["scored"] > 0
    assert counts["unscored"] > 0


def score(chunk: Chunk) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": "."}
    return subprocess.Popen([sys.executable, "-c", SCORE, json.dumps(asdict(chunk))], env=environment)
