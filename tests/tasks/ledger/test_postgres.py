"""The ledger in PostgreSQL: lost connections, dead hosts, and credentials that nobody gets to see."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leadline.evaluators.ground import LeadlineError, StoreError, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.calls import Charge
from leadline.flows.command.session import check_ledger
from leadline.tasks.ground.processes import SILENT_S
from leadline.tasks.ledger import ledger as ledger_module
from leadline.tasks.ledger import postgres
from leadline.tasks.ledger.ledger import ledger_at, ledger_place, read_ledger
from leadline.tasks.ledger.ledger_report import LedgerReader
from leadline.tasks.ledger.operations import LATER_COLUMNS, End, Find, Intend
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.judged_run import CALLS_PER_ROW, evaluate, judge_at, reply, write_rows
from tests.support.judges.scripted_judge import question
from tests.support.processes.waiting import kill_once
from tests.support.stores.postgres import PostgresServer, serving_postgres
from tests.support.stores.s3 import S3, environment
from tests.tasks.ledger.test_ledger import REPLY, put

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def rows_of(url: str, table: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT * FROM leadline.{table}".encode()).fetchall()


async def test_its_tables_lie_in_a_schema_of_their_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE public.calls (theirs TEXT)")
    await put(ledger_at(postgres_url, "run1"), question())
    assert len(rows_of(postgres_url, "calls")) == 1
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT * FROM public.calls").fetchall() == []


def test_that_its_server_is_waited_for_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LEADLINE_SERVER_WAIT", "2")
    monkeypatch.setattr(postgres, "_make_tables", lambda url: None)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        access = postgres.PostgresAccess(f"postgresql://u@127.0.0.1:{nobody.getsockname()[1]}/x")
        with pytest.raises(StoreError, match="cannot be used"):
            asyncio.run(access.do(Find("0" * 32)))
    said = [record.getMessage() for record in caplog.records if record.name == "leadline.ledger"]
    assert said == ["The ledger's server does not answer; it is waited for, 2 s at most."]


async def test_a_lost_connection_is_made_again(postgres_url: str) -> None:
    def cut() -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'leadline' AND pid <> pg_backend_pid()"
            )

    ledger = ledger_at(postgres_url, "run1", Limits(calls=100))
    for number in range(3):
        await asyncio.gather(*(put(ledger, question(f"{number} {n}")) for n in range(10)))
        writing = [asyncio.ensure_future(put(ledger, question(f"{number} {n}"))) for n in range(10, 20)]
        await asyncio.to_thread(cut)
        await asyncio.gather(*writing)
    assert await ledger.find(question("0 0").digest) is not None
    assert LedgerReader(postgres_url).total("run1").answered == 60


async def test_a_batch_that_is_repeated_changes_nothing(postgres_url: str) -> None:
    ledger = ledger_at(postgres_url, "run1", Limits(cost_usd=10.0))
    access, done = ledger._access, []
    assert isinstance(access, postgres.PostgresAccess)
    run = access._run

    async def spied(operations: Any, again: bool) -> None:
        await run(operations, again)
        if any(isinstance(operation, Intend | End) for operation in operations) and not again:
            done.append(operations)
            raise psycopg.OperationalError("the connection was lost while it was committed")

    access._run = spied  # type: ignore[method-assign]
    for name in "abc":
        await ledger.intend(question(name), Charge(1.0))
    await ledger.answered(question("a"), replace(REPLY, cost_usd=0.25))
    await ledger.failed(question("b"), "no")
    assert len(done) == 5
    assert rows_of(postgres_url, "budgets") == [("run1", 2, 1.25)]
    total = LedgerReader(postgres_url).total("run1")
    assert (total.asked, total.answered, total.failed) == (3, 1, 1)


async def test_calls_of_a_host_that_fell_silent_are_lost(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ledger_module, postgres):
        monkeypatch.setattr(module, "this_process", lambda: "elsewhere:1:1")
    ledger = ledger_at(postgres_url, "run1")
    await ledger.intend(question())
    await ledger.find("0")  # what waits is written by then
    reader = LedgerReader(postgres_url)
    ((process, seen_at),) = rows_of(postgres_url, "processes")
    assert process == "elsewhere:1:1"
    assert time.time() - seen_at < 30
    assert reader.total("run1").lost == 0
    with psycopg.connect(postgres_url) as connection:
        for change in ("asks SET intended_at = intended_at - %s", "processes SET seen_at = seen_at - %s"):
            assert reader.total("run1").lost == 0
            connection.execute(f"UPDATE leadline.{change}".encode(), [SILENT_S + 60])
            connection.commit()
    assert reader.total("run1").lost == 1


async def test_a_process_that_only_waits_is_heard_of(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "BEAT_S", 0.1)
    ledger = ledger_at(postgres_url, "run1")
    await ledger.intend(question())
    await asyncio.sleep(0.3)
    ((_, first),) = await asyncio.to_thread(rows_of, postgres_url, "processes")
    await asyncio.sleep(0.5)
    ((_, later),) = await asyncio.to_thread(rows_of, postgres_url, "processes")
    assert later > first
    await ledger.answered(question(), REPLY)


SECRET = "hunter2-hunter2"


def failing(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("LEADLINE_LEDGER", url)
    monkeypatch.setenv("LEADLINE_SERVER_WAIT", "0")
    said = []
    for attempt in (lambda: ledger_at(ledger_place(Store.open(tmp_path)), "run1"),
                    lambda: read_ledger(Store.open(tmp_path)).asks()):  # fmt: skip
        with pytest.raises(LeadlineError) as error:
            attempt()
        said.append(str(error.value))
        assert "\n" not in said[-1]
        assert SECRET not in said[-1]
        assert error.value.__suppress_context__ or error.value.__context__ is None
    return said[0]


def test_credentials_stand_in_no_error(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()[1]
    here, name = f"127.0.0.1:{postgres_server.port}", postgres_url.rpartition("/")[2]
    wrong = failing(f"postgresql://leadline:{SECRET}@{here}/{name}", monkeypatch, tmp_path)
    assert "authentication failed" in wrong
    assert f"postgresql://{here}/{name}" in wrong
    assert "refused" in failing(f"postgres://leadline:{SECRET}@127.0.0.1:{dead}/x", monkeypatch, tmp_path)
    failing(f"postgresql://leadline@127.0.0.1:{dead}/x?password={SECRET}", monkeypatch, tmp_path)
    failing(f"postgresql://leadline:{SECRET}@[not an address/x", monkeypatch, tmp_path)
    failing(f"postgresql://leadline:{SECRET}@{here}/x?{SECRET}={SECRET}", monkeypatch, tmp_path)
    missing = failing(f"{postgres_url}-missing", monkeypatch, tmp_path)
    assert "does not exist" in missing
    assert postgres_server.password not in missing
    assert "neither a file" in failing(f"mysql://leadline:{SECRET}@host/x", monkeypatch, tmp_path)


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"\.\[service\]"):
        ledger_at("postgresql://nobody@nowhere/x", "run1")


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres._SETTINGS, "connect_timeout", "2")
    monkeypatch.setenv("LEADLINE_SERVER_WAIT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with pytest.raises(StoreError, match="timeout"):
            ledger_at(f"postgresql://leadline@127.0.0.1:{silent.getsockname()[1]}/x", "run1")
    assert time.monotonic() - began < 30


def test_a_killed_server_that_comes_back_costs_no_call_and_no_reply(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 30)
    with serving_postgres() as server, serving(JudgeEndpoint(reply, latency=0.05)) as endpoint:
        command = [sys.executable, "-m", "tests.support.judges.judged_run", str(tmp_path / "store"), str(rows)]
        with subprocess.Popen(
            [*command, endpoint.url], env=os.environ | {"LEADLINE_LEDGER": server.create()}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            while len(endpoint.log) < CALLS_PER_ROW * 10 and process.poll() is None:
                time.sleep(0.02)
            server.crash(3)
            out, error = process.communicate(timeout=100)
        assert process.returncode == 0, error
    result = json.loads(out.splitlines()[-1])
    assert [line[3] for line in result["scores"]] == ["scored"] * 60
    assert len(endpoint.log) == CALLS_PER_ROW * 30, "nothing is asked twice"
    assert result["calls"]["answered"] == CALLS_PER_ROW * 30, "no reply is lost"


def test_a_server_that_is_not_there_when_a_command_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("LEADLINE_LEDGER", f"postgresql://leadline@127.0.0.1:{free.getsockname()[1]}/x")
        began = time.monotonic()
        with pytest.raises(StoreError, match="refused"):
            check_ledger(None)
    assert time.monotonic() - began < 30


def test_hosts_that_share_a_bucket_and_a_ledger_repeat_nothing_when_one_is_killed(
    postgres_url: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 40)
    monkeypatch.setenv("LEADLINE_LEDGER", postgres_url)
    with serving(JudgeEndpoint(reply, latency=0.05)) as endpoint:
        command = [sys.executable, "-m", "tests.support.judges.judged_run", s3.url, str(rows), endpoint.url]
        first = os.environ | environment(s3.endpoint, tmp_path / "one")
        process = subprocess.Popen(command, env=first, stdout=subprocess.DEVNULL, start_new_session=True)
        kill_once(lambda: len(endpoint.answered) >= 60, process)
        time.sleep(0.2)  # until the endpoint has noticed
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "two"))
        result = evaluate(Store.open(s3.url), rows, [judge_at(endpoint.url)])
        ledger = read_ledger(Store.open(s3.url))
        finished = Counter(ask["digest"] for ask in ledger.asks() if ask["state"] == "answered")
        assert set(finished.values()) == {1}, "a call whose reply is on record was made again"
        assert len(finished) == 40 * CALLS_PER_ROW
        assert result["calls"]["made_again"] <= len(ledger.lost()) <= 16
        monkeypatch.delenv("LEADLINE_LEDGER")
        whole = evaluate(Store.open(tmp_path / "local"), rows, [judge_at(endpoint.url)])
    assert result["scores"] == whole["scores"]
    password = postgres_url.split(":")[2].partition("@")[0]
    for name in s3.names():
        body = s3.client().get_object(Bucket=s3.bucket, Key=f"a/store/{name}")["Body"].read()
        assert password.encode() not in body, name


def test_a_ledger_of_an_earlier_version_gets_what_it_lacks(postgres_url: str) -> None:
    postgres.require_postgres(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE leadline.drift_checks")
        for column in LATER_COLUMNS:
            connection.execute(f"ALTER TABLE leadline.asks DROP COLUMN {column}".encode())
    assert LedgerReader(postgres_url).drift_checks() == [], "it is read as it is"
    for _ in range(2):
        postgres.require_postgres(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'leadline' AND table_name = 'asks'"
        ).fetchall()
        assert {(column,) for column in LATER_COLUMNS} <= set(found)
        assert connection.execute("SELECT count(*) FROM leadline.drift_checks").fetchone() == (0,)
