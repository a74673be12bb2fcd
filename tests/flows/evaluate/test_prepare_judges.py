"""What a plan says of judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import preview
from leadline.flows.shared.judge_access import canaries_of
from leadline.flows.shared.settings import Judges
from tests.support.judges.judged_run import register, write_rows


def plan_of(folder: Path, **judges: object) -> dict[str, int | None]:
    register()
    config = EvaluateConfig(
        dataset=str(write_rows(folder / "rows.jsonl", 120)),
        evaluators=("test.brief", "test.supported"),
        judges=Judges(model="openai/judge", api_base="http://127.0.0.1:1/v1", **judges),  # type: ignore[arg-type]
        store=str(folder / "store"),
    )
    return {entry.evaluator: entry.judge_calls for entry in preview(config).entries}


def canaries(folder: Path) -> Path:
    path = folder / "canaries.jsonl"
    line = {"case": "k", "model": "canary", "actual_answer": "It is deep.", "expected_scores": {"test.brief": 1}}
    path.write_text("".join(json.dumps(line | {"case": f"k{n}"}) + "\n" for n in range(2)))
    return path


def test_a_plan_counts_the_calls_for_canaries_with_every_chunk(tmp_path: Path) -> None:
    without = plan_of(tmp_path)
    found = plan_of(tmp_path, canaries=str(canaries(tmp_path)))
    assert without == {"test.brief": 120, "test.supported": 120}
    assert found == {"test.brief": 120 + 2 * 3, "test.supported": 120}, "2 canaries for each of 3 chunks"


def test_a_plan_counts_every_trial(tmp_path: Path) -> None:
    assert plan_of(tmp_path, trials=3) == {"test.brief": 360, "test.supported": 360}


def test_one_evaluator_may_run_several_times_under_names_of_its_own(tmp_path: Path) -> None:
    config = EvaluateConfig(
        dataset=str(write_rows(tmp_path / "rows.jsonl", 4)),
        evaluators=("byop#tone", "byop#length"),
        params={
            "byop#tone": {"prompt_template": "Is it kind? {ACTUAL_OUTPUT}"},
            "byop#length": {"prompt_template": "Is it short? {ACTUAL_OUTPUT}"},
        },
        judges=Judges(model="openai/judge", api_base="http://127.0.0.1:1/v1"),
        store=str(tmp_path / "store"),
    )
    assert {entry.evaluator: entry.judge_calls for entry in preview(config).entries} == {
        "byop#tone": 4,
        "byop#length": 4,
    }


def test_the_configuration_file_may_name_the_canaries(tmp_path: Path) -> None:
    file = tmp_path / "leadline.toml"
    file.write_text('canaries = "canaries.jsonl"\n[judges.a]\nmodel = "openai/m"\n')
    assert canaries_of(Judges(config=str(file))) == str(tmp_path / "canaries.jsonl")
    assert canaries_of(Judges(config=str(file), canaries="others.csv")) == "others.csv"
    file.write_text("canaries = 3\n")
    with pytest.raises(UsageError, match="canaries is a file's name"):
        canaries_of(Judges(config=str(file)))


def test_without_a_file_there_are_no_canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canaries_of(Judges()) is None
