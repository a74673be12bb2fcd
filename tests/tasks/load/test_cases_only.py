"""Suites: a dataset's questions without its answers, from every format, with or without answers in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.evaluators.ground import DatasetError
from leadline.tasks.db import attach_dataset
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import load, write


def suite(folder: Path, name: str, content: Any) -> LoadedDataset:
    return load_dataset(Store.open(folder / "store"), write(folder, name, content), cases_only=True)


def cases(loaded: LoadedDataset) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        attach_dataset(connection, loaded.path)
        assert connection.execute("SELECT count(*) FROM rows").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM models").fetchall() == [(0,)]
        return connection.sql("FROM cases ORDER BY case_id").to_arrow_table().to_pylist()


H2O_SUITE = {
    "name": "Tides",
    "tests": [
        {
            "key": "t",
            "documents": ["https://port/tides.pdf"],
            "categories": ["facts"],
            "test_cases": [
                {"key": "a", "prompt": "How high?", "constraints": ["5", ["m", "metres"]], "expected_output": "5 m"},
                {
                    "prompt": "How hihg?",
                    "categories": ["typos", "facts"],
                    "relationships": [{"type": "perturbation_source", "target": "a", "target_type": "test_case"}],
                },
            ],
        }
    ],
}


def test_an_h2o_test_suite_gives_the_cases_of_all_tests(tmp_path: Path) -> None:
    loaded = suite(tmp_path, "suite.json", H2O_SUITE)
    assert (loaded.name, loaded.format, loaded.rows, loaded.cases, loaded.models) == ("Tides", "h2o-suite", 0, 2, ())
    first, second = cases(loaded)
    assert (first["case_key"], first["question"], first["expected_answers"]) == ("a", "How high?", ["5 m"])
    assert first["condition"] == '"5" AND ("m" OR "metres")'
    assert json.loads(first["metadata"]) == {"corpus": ["https://port/tides.pdf"], "test_key": "t"}
    assert (first["categories"], second["categories"]) == (["facts"], ["facts", "typos"])
    assert second["case_key"].startswith("c-")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("flat.jsonl", '{"case": "a", "question": "Q?", "topic": "tides"}\n'),
        ("flat.csv", "case,question,topic\na,Q?,tides\n"),
        ("ragas.json", [{"id": "a", "user_input": "Q?", "topic": "tides"}]),
        ("deepeval.json", [{"name": "a", "input": "Q?", "expected_output": "A", "topic": "tides"}]),
        ("h2o.json", {"inputs": [{"key": "a", "input": "Q?", "topic": "tides"}]}),
        ("databricks.json", [{"request_id": "a", "request": "Q?", "topic": "tides"}]),
        ("document.json", {"cases": [{"key": "a", "question": "Q?", "topic": "tides"}]}),
    ],
)
def test_every_format_can_ask_without_answers(tmp_path: Path, name: str, content: Any) -> None:
    (case,) = cases(suite(tmp_path, name, content))
    assert (case["case_key"], case["question"]) == ("a", "Q?")
    assert json.loads(case["metadata"]) == {"topic": "tides"}


def test_answers_that_are_there_are_ignored_and_one_case_stays_one(tmp_path: Path) -> None:
    rows = [
        {"case": "a", "model": model, "question": "Q?", "actual_answer": "A", "duration_s": 1.0, "mood": model}
        for model in ("m1", "m2")
    ]
    loaded = suite(tmp_path, "answers.json", rows)
    (case,) = cases(loaded)
    assert case["metadata"] == "{}"  # what is said of an answer is not said of the case
    assert loaded.warnings == ()


def test_a_suite_and_a_dataset_of_the_same_file_are_two(tmp_path: Path) -> None:
    rows = [{"case": "a", "question": "Q?", "actual_answer": "A"}]
    asked = suite(tmp_path, "same.json", rows)
    loaded = load(tmp_path, "same.json", rows)
    assert (asked.rows, loaded.rows) == (0, 1)
    assert asked.digest != loaded.digest
    assert suite(tmp_path, "same.json", rows).reused
    questions = [{"case": "b", "question": "Q?"}]
    suite(tmp_path, "open.json", questions)
    with pytest.raises(DatasetError, match="collect the models' answers first"):
        load(tmp_path, "open.json", questions)


def test_a_broken_suite_is_refused_with_its_places(tmp_path: Path) -> None:
    content = {"tests": [{"test_cases": [{"key": "a", "prompt": {}}, "text", {"key": "b", "condition": '"x'}]}]}
    with pytest.raises(DatasetError) as refused:
        suite(tmp_path, "suite.json", content)
    said = str(refused.value)
    assert "test_cases[1].prompt: expected a text" in said
    assert "test_cases[2].: expected an object" in said
    assert "condition" in said


def test_a_suite_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no cases"):
        suite(tmp_path, "suite.json", {"name": "S", "tests": [{"key": "t", "test_cases": []}]})
