"""Cases of runs that are added to a suite: each once, with where it is from, in a file that stays readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.tasks.collect import suite_file
from leadline.tasks.collect.suite_file import add_to_suite
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store

HELD = [
    {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ahoy"},
    {"role": "user", "content": "When is high water?"}, {"role": "assistant", "content": "At six."},
]  # fmt: skip
ANSWERS: list[dict[str, Any]] = [
    {"case": "a", "question": "How deep?", "expected_answer": ["3 m", "three"], "categories": ["depth"]},
    {"case": "a~typo", "question": "How dep?", "relationships": [
        {"type": "perturbation_source", "target": "a", "perturbation": "typo"}
    ]},
    {"case": "talk", "messages": HELD, "expected_outcome": "The tide is told."},
]  # fmt: skip


def write(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


@pytest.fixture
def run(store: Store, tmp_path: Path) -> str:
    """Id of a run with three cases."""
    answered = [line | ({"model": "m"} if "messages" in line else {"model": "m", "actual_answer": "No."})
                for line in ANSWERS]  # fmt: skip
    made = store.new_run()
    made.update({"dataset": load_dataset(store, write(tmp_path / "answers.jsonl", answered)).digest})
    return made.id


def test_cases_of_all_kinds_are_added_once_with_where_they_are_from(store: Store, run: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.jsonl"
    first = add_to_suite(store, {run: ["a"]}, file)
    assert (first.added, first.known, first.cases) == (("a",), (), 1)
    before = file.read_bytes()
    second = add_to_suite(store, {run: ["a", "a~typo", "talk"]}, file)
    assert (second.added, second.known, second.cases) == (("a~typo", "talk"), ("a",), 3)
    assert file.read_bytes().startswith(before)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["metadata"]["origin"] for line in lines] == [{"run": run, "case": line["case"]} for line in lines]
    assert (lines[0]["expected_answer"], lines[0]["categories"]) == (["3 m", "three"], ["depth"])
    assert lines[1]["relationships"] == ANSWERS[1]["relationships"]
    assert (lines[2]["messages"], lines[2]["expected_outcome"]) == (HELD, "The tide is told.")
    assert not {"model", "actual_answer"} & {name for line in lines for name in line}
    written = file.stat().st_mtime_ns
    assert add_to_suite(store, {run: ["a", "a~typo", "talk"]}, file).added == ()
    assert file.stat().st_mtime_ns == written, "nothing to write"
    assert [path.name for path in (store.root / "datasets").iterdir()] == [store.run(run).read()["dataset"]]


def test_a_copy_without_its_original_is_a_case_of_its_own(store: Store, run: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.jsonl"
    add_to_suite(store, {run: ["a~typo"]}, file)
    assert "relationships" not in json.loads(file.read_text())


def test_a_suite_keeps_its_columns_and_a_key_that_it_has_gets_the_run_behind_it(
    store: Store, run: str, tmp_path: Path
) -> None:
    own = {"id": "a", "input": "How high?", "expected_output": "2 m"}
    file = tmp_path / "suite.jsonl"
    file.write_text(json.dumps(own))  # its last line has no end
    assert add_to_suite(store, {run: ["a"]}, file).added == (f"a@{run}",)
    kept, new = map(json.loads, file.read_text().splitlines())
    assert kept == own
    assert (new["id"], new["input"], new["expected_output"]) == (f"a@{run}", "How deep?", ["3 m", "three"])


@pytest.mark.parametrize("changed", [{"question": "How deep is it?"}, {"case": "depth"}])
def test_a_case_that_people_edited_or_named_anew_since_is_known(
    store: Store, run: str, tmp_path: Path, changed: dict[str, str]
) -> None:
    file = tmp_path / "suite.jsonl"
    add_to_suite(store, {run: ["a"]}, file)
    write(file, [json.loads(file.read_text()) | changed])
    again = add_to_suite(store, {run: ["a"]}, file)
    assert (again.added, again.known, again.cases) == ((), (changed.get("case", "a"),), 1)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("suite.csv", "question\nWhy?\n", "not a file of JSON Lines"),
        ("answers.jsonl", "", "holds answers of models"),
        ("none/suite.jsonl", "", "a folder that is not there"),
        ("store/suite.jsonl", "", "is in the store"),
        ("suite.jsonl", "[1]\n", "suite.jsonl"),
        ("suite.jsonl", '[{"question": "Why?"}]', "is not JSON Lines"),
        ("suite.jsonl", '{"question": "Why?", "case": "x"}\n{"question": "Who?", "case": "x"}\n', "suite.jsonl, row 2"),
    ],
)
def test_what_is_no_suite_stays_as_it_is(
    store: Store, run: str, tmp_path: Path, name: str, content: str, said: str
) -> None:
    file = tmp_path / name
    if content:
        file.write_text(content)
    before = file.read_bytes() if file.exists() else None
    with pytest.raises(UsageError, match=said):
        add_to_suite(store, {run: ["a"]}, file)
    assert (file.read_bytes() if file.exists() else None) == before


def test_unknown_cases_and_too_many_are_refused(
    store: Store, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="has no case 'b'"):
        add_to_suite(store, {run: ["a", "b"]}, tmp_path / "suite.jsonl")
    monkeypatch.setattr(suite_file, "MOST_ADDED", 1)
    with pytest.raises(UsageError, match="too many"):
        add_to_suite(store, {run: ["a", "talk"]}, tmp_path / "suite.jsonl")
    assert not (tmp_path / "suite.jsonl").exists()
