"""The sample's digests, keys and findings, prompts and public names are those that were recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.golden.comparing import differences
from tests.golden.faces import prompts, public_names
from tests.golden.record import HERE, TABLES, configurations, recorded, sample_run
from tests.golden.walks import demo_report


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return sample_run(tmp_path_factory.mktemp("golden"))


def test_configurations_have_the_digests_that_were_recorded() -> None:
    assert configurations() == recorded("configurations")


def test_judges_are_sent_the_very_messages_that_were_recorded() -> None:
    assert prompts() == recorded("prompts")


def test_public_names_can_be_imported_and_called_as_was_recorded() -> None:
    assert list(differences(public_names(), recorded("public_names"))) == []


def test_no_golden_file_names_a_module_of_the_rooms() -> None:
    room = re.compile(r"\bleadline\.(evaluators|tasks|flows|deployments)\b")
    assert [file for file in HERE.rglob("*.json") if room.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_keys_of_scores_are_those_that_were_recorded(found: dict[str, Any]) -> None:
    assert found["keys"] == recorded("keys")


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_tables_of_the_sample_hold_what_was_recorded(found: dict[str, Any], table: str) -> None:
    assert list(differences(found[table], recorded(table))) == []


@pytest.mark.slow
def test_the_report_of_the_sample_says_to_programs_what_was_recorded(tmp_path: Path) -> None:
    report = demo_report(tmp_path)["demo_report"]
    assert list(differences(report, recorded("demo_report"))) == []
