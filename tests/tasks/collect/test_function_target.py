"""Collecting from Python callables, found by their path like those of users."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import LeadlineError, StoreError, UsageError
from leadline.tasks.collect import Target
from leadline.tasks.collect.cases import Case
from tests.support.datasets.collecting import HASTY, Bench

pytestmark = pytest.mark.slow


def plain_function(case: Case) -> str:
    return f"{case.key}: {case.question}"


async def async_function(case: Case) -> dict[str, Any]:
    await asyncio.sleep(0.01)
    if case.key == "c1":
        raise KeyError("no such berth")
    return {"answer": "yes", "retrieved_context": [{"content": "x", "doc_uri": "d"}], "cost_usd": 0.5}


_attempts: dict[str, int] = {}
_lock = threading.Lock()


def moody_function(case: Case) -> str:
    with _lock:
        _attempts[case.key] = _attempts.get(case.key, 0) + 1
        first = _attempts[case.key] == 1
    if first and case.key == "c0":
        raise ConnectionError("reset")
    if first and case.key == "c1":
        time.sleep(3)
    return "at last"


def function(name: str) -> Target:
    return Target.model_validate({"key": "fn", "function": f"{__name__}:{name}", **HASTY})


def test_functions_are_called_with_the_case(tmp_path: Path) -> None:
    done, rows = Bench(tmp_path, 3).collect(function("plain_function"))
    assert done.answered == 3
    assert rows[2]["actual_answer"] == "c2: How deep is berth 2?"


def test_coroutine_functions_are_awaited_and_what_they_raise_is_an_error(tmp_path: Path) -> None:
    done, rows = Bench(tmp_path, 3).collect(function("async_function"))
    assert (done.answered, done.failed) == (2, 1)
    assert rows[0]["retrieved_context"] == [{"content": "x", "doc_uri": "d"}]
    assert rows[1]["error"] == "The model refused the call: KeyError: 'no such berth'."


def test_a_function_that_hangs_or_loses_its_connection_is_called_again(tmp_path: Path) -> None:
    _attempts.clear()
    target = function("moody_function").model_copy(update={"timeout_s": 1.0})
    done, _ = Bench(tmp_path, 3).collect(target)
    assert done.answered == 3
    assert _attempts == {"c0": 2, "c1": 2, "c2": 1}


def leaving_function(case: Case) -> str:
    if case.key == "c0":
        sys.exit(3)
    return next(iter(()))


async def leaving_coroutine(case: Case) -> str:
    sys.exit(3)


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("leaving_function", ["SystemExit: 3", "StopIteration: "]),
        ("leaving_coroutine", ["SystemExit: 3", "SystemExit: 3"]),
    ],
)
def test_a_function_that_leaves_the_program_is_an_error_at_once(tmp_path: Path, name: str, errors: list[str]) -> None:
    with pytest.raises(LeadlineError, match=errors[0]):
        Bench(tmp_path, 2).collect(function(name).model_copy(update={"timeout_s": 600.0}))


def test_a_function_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be imported"):
        Bench(tmp_path).collect(function("missing"))


def test_a_ledger_that_cannot_be_written_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> None:
        raise StoreError("The ledger cannot be used: the disk is full.")

    monkeypatch.setattr("leadline.tasks.ledger.ledger.DatabaseLedger.find", full)
    with pytest.raises(StoreError, match="the disk is full"):
        Bench(tmp_path, 2).collect(function("plain_function"))
