"""The benchmark's own result files as a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError, UsageError
from leadline.plugins.rgb.predictions import convert, is_predictions
from tests.support.datasets.rgb_files import write_lines

LINE: dict[str, Any] = {
    "id": 3, "query": "Who?", "ans": [["Ada", "A."]], "label": [1], "prediction": "Ada did", "docs": ["d"],
    "noise_rate": 0.4, "factlabel": 0,
}  # fmt: skip
NAME = "prediction_en_refine_some_model-7b_temp0.2_noise0.4_passage5_correct0.0.json"


def converted(path: Path, **options: Any) -> dict[str, Any]:
    (line,) = convert([str(path)], path.with_suffix(".out"), **options).read_text(encoding="utf-8").splitlines()
    return dict(json.loads(line))


def test_model_and_testbed_are_read_from_the_name(tmp_path: Path) -> None:
    row = converted(write_lines(tmp_path / NAME, [LINE]))
    assert (row["model"], row["case"]) == ("some_model-7b", "en_refine-3-noise0.4")
    assert row["actual_answer"] == "Ada did"
    assert row["expected_answer"] == ["Ada", "A."]
    tags = row["metadata"]["rgb"]
    assert (tags["task"], tags["noise"], tags["answer"]) == ("noise_robustness", 0.4, [["Ada", "A."]])


@pytest.mark.parametrize(
    ("testbed", "change", "task"),
    [
        ("en", {"noise_rate": 1}, "negative_rejection"),
        ("zh_int", {"noise_rate": 1}, "information_integration"),
        ("zh_fact", {}, "counterfactual_robustness"),
        ("zh_fact", {"docs": []}, "closed_book"),
    ],
)
def test_the_task_follows_from_testbed_noise_and_documents(
    tmp_path: Path, testbed: str, change: dict[str, Any], task: str
) -> None:
    row = converted(write_lines(tmp_path / "p.json", [LINE | change]), model="m", testbed=testbed)
    assert row["metadata"]["rgb"]["task"] == task


def test_what_the_name_does_not_say_must_be_said(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.json", [LINE])
    with pytest.raises(UsageError, match="testbed"):
        converted(file, model="m")
    with pytest.raises(UsageError, match="model"):
        converted(file, testbed="en")


def test_every_fault_is_listed(tmp_path: Path) -> None:
    lines = [LINE | {"prediction": None, "noise_rate": 2}, LINE | {"ans": []}, LINE]
    with pytest.raises(DatasetError) as caught:
        converted(write_lines(tmp_path / NAME, lines))
    assert {(fault.row, fault.column) for fault in caught.value.faults} == {
        (1, "prediction"), (1, "noise_rate"), (2, "ans")
    }  # fmt: skip


def test_results_are_told_from_datasets(tmp_path: Path) -> None:
    assert is_predictions(str(write_lines(tmp_path / "p.json", [LINE])))
    assert not is_predictions(str(write_lines(tmp_path / "d.json", [{"case": "c", "model": "m"}])))
