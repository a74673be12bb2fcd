"""The column ``labels``: people's labels that come with a dataset."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.tasks.load.columns import ColumnNames
from leadline.tasks.load.dataset import LoadedDataset
from leadline.tasks.load.label import LabelColumn
from leadline.tasks.load.limits import COLUMNS_FROM
from tests.support.datasets.loading import as_jsonl, faults, load, rows, tables

ROW: dict[str, Any] = {"case": "a", "question": "q", "actual_answer": "x"}


def labels(loaded: LoadedDataset) -> list[tuple[int, str, float | None, str, str]]:
    """Return the labels of a dataset: row, name, value, person and note."""
    return [tuple(line.values()) for line in parquet.read_table(loaded.path / "labels.parquet").to_pylist()]


def read(value: object, **options: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
    found, wrong = LabelColumn.of(ColumnNames(**options), cells=False, taken=False).read(value)
    return [tuple(each) for each in found], wrong


@pytest.mark.parametrize(
    ("given", "value"),
    [(1, 1.0), (0.25, 0.25), (True, 1.0), ("fail", 0.0), ("Yes", 1.0), ("no", 0.0), (None, None), ("can't tell", None)],
)
def test_a_label_is_a_number_a_truth_value_or_a_word(given: object, value: float | None) -> None:
    assert read({"faithfulness": given}) == ([("faithfulness", value, "unnamed", "")], [])


def test_a_label_may_name_its_person_and_several_people_may_say_something() -> None:
    given = {"a.b": {"value": 4, "person": "anna", "note": "n"}, "c": [1, "fail", {"value": None, "person": "bo"}]}
    assert read(given)[0] == [
        ("a.b", 4.0, "anna", "n"),
        ("c", 1.0, "unnamed", ""),
        ("c", 0.0, "unnamed 2", ""),
        ("c", None, "bo", ""),
    ]


def test_what_a_table_of_types_leaves_out_is_no_label() -> None:
    given = {"a": 1, "b": None}
    assert len(read(given)[0]) == 2
    assert read(given, complete=True)[0] == [("a", 1.0, "unnamed", "")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": "goood"}, "'a': expected a number, pass, fail or can't tell, found 'goood'"),
        ({"a": 10**400}, "expected a number"),
        ({"a": float("inf")}, "expected a number"),
        ({"faithfulness": 4}, "'faithfulness': its values are from 0 to 1, found 4"),
        ({"llamaindex.correctness": {"value": 9}}, "from 0 to 5, found 9"),
        ({"a": {"vote": 1}}, "an object of value, person and note"),
        ({"a": [[1]]}, "expected a number"),
        ({"a": {"value": 1, "person": 3}}, "person is a text"),
        ({"a": {"value": 1, "note": "x" * 3000}}, "note is a text of at most 2,000"),
        ({"a": [{"value": 1, "person": "p"}, {"value": 0, "person": "p"}]}, "'p' says two things"),
        ({"": 1}, "the name of a label"),
        ({"a\x1b[2J": 1}, "the name of a label"),
        ({"a" * 300: 1}, "the name of a label"),
        ({f"m{n}": 1 for n in range(2000)}, "more than 1,000 labels"),
        ({"a": [1] * 2000}, "at most 1,000"),
    ],
)
def test_what_is_no_label_is_said(given: object, said: str) -> None:
    assert any(said in message for message in read(given)[1])


def test_labels_are_kept_beside_the_rows_and_evaluators_do_not_read_them(tmp_path: Path) -> None:
    given = {"faithfulness": 1, "toxicity.toxic": {"value": 0.5, "person": "anna"}}
    plain = load(tmp_path, "d.jsonl", as_jsonl([{**ROW, "case": "b"}, ROW]))
    loaded = load(tmp_path, "d.jsonl", as_jsonl([{**ROW, "case": "b"}, {**ROW, "labels": given}]))
    assert labels(loaded) == [(1, "faithfulness", 1.0, "unnamed", ""), (1, "toxicity.toxic", 0.5, "anna", "")]
    assert tables(loaded) == tables(plain)
    assert (loaded.columns["labels"], loaded.metadata_columns) == ("labels", ())
    assert loaded.labels == {"faithfulness": 1, "toxicity.toxic": 1}
    assert not (plain.path / "labels.parquet").exists()


def test_csv_has_them_as_json(tmp_path: Path) -> None:
    cell = json.dumps({"faithfulness": "pass"}).replace('"', '""')
    loaded = load(tmp_path, "d.csv", f'case,question,actual_answer,labels\na,q,x,\nb,q2,y,"{cell}"\n')
    assert labels(loaded) == [(1, "faithfulness", 1.0, "unnamed", "")]
    assert rows(loaded)["a", "d"]["expected_answers"] == []
    assert not loaded.warnings


def test_parquet_has_them_as_structs_or_under_the_name_that_the_user_says_as_json(tmp_path: Path) -> None:
    columns = {"case": ["a", "b"], "question": ["q", "r"], "actual_answer": ["x", "y"]}
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({**columns, "labels": [{"m": 1.0, "n": None}, None]}), path)
    assert labels(load(tmp_path, "d.parquet", path.read_bytes())) == [(0, "m", 1.0, "unnamed", "")]
    parquet.write_table(pa.table({**columns, "human": ['{"m": 0}', None]}), path)
    loaded = load(tmp_path, "d.parquet", path.read_bytes(), columns={"labels": "human"})
    assert labels(loaded) == [(0, "m", 0.0, "unnamed", "")]
    assert loaded.columns["human"] == "labels"


def test_answers_inside_of_a_case_have_labels_and_a_case_has_none(tmp_path: Path) -> None:
    case = {"case": "a", "question": "q", "answers": [{"actual_answer": "x", "labels": {"m": 1}}]}
    assert labels(load(tmp_path, "d.json", {"cases": [case]})) == [(0, "m", 1.0, "unnamed", "")]
    (tmp_path / "other").mkdir()
    [fault] = faults(tmp_path / "other", "d.json", {"cases": [{**case, "labels": {"m": 1}}]})
    assert "row 1, cases[].labels: labels belong to an answer" in fault


@pytest.mark.parametrize("many", [False, True])
def test_a_column_of_other_values_keeps_its_meaning(tmp_path: Path, many: bool) -> None:
    number = COLUMNS_FROM // 60 if many else 2
    records = [{"question": f"q{n}", "actual_answer": "x", "labels": "Paris"} for n in range(number)]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    assert tables(loaded)["cases"][0]["expected_answers"] == ["Paris"]
    assert loaded.columns["labels"] == "expected_answer"
    beside = load(tmp_path, "e.jsonl", as_jsonl([{**each, "expected_answer": "Rome"} for each in records]))
    assert tables(beside)["rows"][0]["metadata"] == '{"labels":"Paris"}'
    mapped = load(
        tmp_path, "f.jsonl", as_jsonl([{**ROW, "labels": {"topic": "finance"}}]), columns={"metadata": "labels"}
    )
    assert tables(mapped)["rows"][0]["metadata"] == '{"labels":{"topic":"finance"}}'


def test_faults_are_listed_together_with_row_and_column_and_what_to_do(tmp_path: Path) -> None:
    bad = [{**ROW, "case": n, "labels": {"m": value}} for n, value in enumerate((1, "finance", [2, "x"]))]
    found = faults(tmp_path, "d.jsonl", as_jsonl(bad))
    assert [fault.partition(":")[0] for fault in found] == ["row 2, labels", "row 3, labels"]
    assert "if they are something else: --map metadata=labels" in found[0]
    for first, second in (({"m": 1}, "Paris"), ("Paris", {"m": 1})):
        mixed = faults(
            tmp_path, "m.jsonl", as_jsonl([{**ROW, "labels": first}, {**ROW, "case": "b", "labels": second}])
        )
        assert mixed
        assert all("some rows have people's labels here" in fault for fault in mixed)
    [broken] = faults(tmp_path, "d.csv", 'question,actual_answer,labels\nq,x,"{m: 1}"\n')
    assert "row 1, labels: expected an object" in broken


def test_a_large_file_has_them_too_wherever_they_begin(tmp_path: Path) -> None:
    number = COLUMNS_FROM // 40
    records: list[dict[str, Any]] = [{"question": f"question {n}", "actual_answer": f"x{n}"} for n in range(number)]
    records[-2]["labels"] = None
    records[-1]["labels"] = {"m": 1}
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    assert labels(loaded) == [(number - 1, "m", 1.0, "unnamed", "")]
    assert not loaded.warnings
    cells = "".join(f"question {n},x{n},{'{}' if n % 2 else ''}\n" for n in range(number))
    loaded = load(tmp_path, "d.csv", f'question,actual_answer,labels\n{cells}last,y,"{{""m"": 0}}"\n')
    assert labels(loaded) == [(number, "m", 0.0, "unnamed", "")]


def test_questions_alone_are_loaded_without_them(tmp_path: Path) -> None:
    loaded = load(tmp_path, "d.jsonl", as_jsonl([{**ROW, "labels": {"m": 1}}]), cases_only=True)
    assert not (loaded.path / "labels.parquet").exists()
    assert tables(loaded)["cases"][0]["metadata"] == "{}"
