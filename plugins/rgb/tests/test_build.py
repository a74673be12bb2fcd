"""From RGB's files to a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError, UsageError
from leadline.plugins.rgb.build import Plan, build
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.rgb_files import FALSIFIED, PLAIN, write_lines, write_testbeds


def cases_of(path: Path) -> dict[str, dict[str, Any]]:
    return {case["case"]: case for case in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def test_each_kind_of_file_becomes_the_cases_of_its_task(tmp_path: Path) -> None:
    built = build([str(write_testbeds(tmp_path / "rgb"))], tmp_path / "suite.jsonl", Plan(closed_book=True))
    assert built.cases == {
        ("zh_int", "information_integration"): 5,
        ("en_fact", "counterfactual_robustness"): 1,
        ("en_fact", "closed_book"): 1,
        ("en_refine", "noise_robustness"): 5,
        ("en_refine", "negative_rejection"): 1,
    }
    cases = cases_of(built.path)
    assert len(cases) == 13
    noisy = cases["en_refine-0-noise0.4"]
    assert noisy["metadata"]["rgb"]["documents"] == ["p1", "n1", "n0", "p2", "p0"]
    assert "p1\nn1\nn0\np2\np0" in noisy["question"]
    assert noisy["question"].endswith("Question:\nWho found the wreck?")
    assert noisy["expected_answer"] == ["Ada Lund", "A. Lund"]
    assert noisy["relationships"] == [
        {"type": "perturbation_source", "target": "en_refine-0-noise0", "perturbation": "noise 0.4"}
    ]
    assert "relationships" not in cases["en_refine-0-noise1"]
    assert cases["zh_int-0-noise0"]["expected_answer"] == ["1月3日; 1月12日"]
    assert "文档信息不足" in cases["zh_int-0-noise0"]["question"]
    assert cases["en_fact-0-noise0"]["metadata"]["rgb"]["counterfactual_answer"] == "Malmö"
    assert cases["en_fact-0-closed-book"]["question"] == "Where is the light?"


def test_the_suite_is_one_that_models_can_be_asked(tmp_path: Path) -> None:
    suite = build([str(write_testbeds(tmp_path / "rgb"))], tmp_path / "suite.jsonl", Plan()).path
    assert load_dataset(Store.open(tmp_path / "store"), suite, cases_only=True).cases == 12


def test_a_prompt_of_ones_own_cannot_reach_beyond_its_values(tmp_path: Path) -> None:
    file = str(write_lines(tmp_path / "en.json", [PLAIN | {"query": "{{ 7*7 }}"}]))
    built = build([file], tmp_path / "s.jsonl", Plan(noise=(0,), prompt="{{ documents[0] }}: {{ query }}"))
    assert cases_of(built.path)["en-0-noise0"]["question"] == "p1: {{ 7*7 }}"
    for hostile in ("{{ query.__class__.__mro__ }}", "{{ nothing }}", "{% for"):
        with pytest.raises(UsageError, match="prompt"):
            build([file], tmp_path / "t.jsonl", Plan(prompt=hostile))
    assert not (tmp_path / "t.jsonl").exists()


def test_every_fault_of_a_file_is_listed_and_nothing_is_written(tmp_path: Path) -> None:
    lines = [
        FALSIFIED | {"query": None},
        FALSIFIED | {"positive_wrong": ["only one"]},
        FALSIFIED | {"answer": [], "negative": "n"},
        "text",
    ]
    file = write_lines(tmp_path / "en_fact.json", lines)  # type: ignore[arg-type]
    with pytest.raises(DatasetError) as caught:
        build([str(file)], tmp_path / "s.jsonl", Plan())
    said = {(fault.row, fault.column) for fault in caught.value.faults}
    assert {(1, "query"), (2, "positive_wrong"), (3, "answer"), (3, "negative")} <= said
    assert any(row == 4 for row, _ in said)
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize("plan", [{"noise": (1.0,)}, {"noise": ()}, {"noise": (-0.1,)}, {"passages": 0}])
def test_a_plan_that_makes_no_sense_is_a_usage_error(plan: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Plan(**plan)


def test_a_file_whose_name_says_nothing_and_the_same_testbed_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file of RGB's"):
        build([str(write_lines(tmp_path / "answers.json", [PLAIN]))], tmp_path / "s.jsonl", Plan())
    both = [str(write_lines(tmp_path / name, [PLAIN])) for name in ("en.json", "data_en.jsonl")]
    with pytest.raises(UsageError, match="both en"):
        build(both, tmp_path / "s.jsonl", Plan())
