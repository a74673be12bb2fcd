"""Judged runs find, tell and ask what was recorded: labelled by people, stopped early, compared, and on Dask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.comparing import differences
from tests.golden.record import HERE, recorded
from tests.golden.walks import dask_run, judged_walk, stopped_run

pytestmark = pytest.mark.e2e

RUNS = ("judged", "labelled", "trials", "judged_report")
COMMANDS = sorted(f"commands/{file.stem}" for file in (HERE / "commands").glob("*.json"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged_walk(tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_finds_what_was_recorded(found: dict[str, Any], name: str) -> None:
    assert list(differences(found[name], recorded(name))) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_programs_what_was_recorded(found: dict[str, Any], name: str) -> None:
    assert list(differences(found[name], recorded(name))) == []


def test_judges_are_asked_what_was_recorded_and_no_more(found: dict[str, Any]) -> None:
    assert found["judge_calls"] == recorded("judge_calls")


def test_databases_have_the_columns_that_were_recorded(found: dict[str, Any]) -> None:
    assert found["databases"] == recorded("databases")


def test_a_run_that_is_stopped_early_finds_and_asks_what_was_recorded(tmp_path: Path) -> None:
    assert list(differences(stopped_run(tmp_path)["stopped"], recorded("stopped"))) == []


def test_a_run_on_dask_finds_what_was_recorded_of_one_without(tmp_path: Path) -> None:
    assert list(differences(dask_run(tmp_path)["judged"], recorded("judged"))) == []
