"""Data that a program holds becomes a file that loads like any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import BaseModel

from leadline.api.inputs import stage
from leadline.evaluators.ground import DatasetError, UsageError
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store

RECORDS: list[dict[str, Any]] = [
    {"question": "Who?", "expected_answer": "Ada", "actual_answer": "Ada L.", "contexts": ["one", "two"], "level": 1},
    {"question": "Where?", "expected_answer": None, "actual_answer": "Paris", "contexts": [], "level": 2},
]
COLUMNS: dict[str, Any] = {name: [record[name] for record in RECORDS] for name in RECORDS[0]}


@dataclass
class TestCase:
    """Looks like deepeval's LLMTestCase."""

    __test__ = False

    input: str
    actual_output: str
    expected_output: str | None = None
    retrieval_context: list[str] | None = None
    _identifier: str = "hidden"


class Sample(BaseModel):
    """Looks like ragas's SingleTurnSample."""

    user_input: str
    response: str
    reference: str | None = None
    retrieved_contexts: list[str] | None = None


@dataclass
class Samples:
    samples: list[Sample]


@dataclass
class TestCases:
    __test__ = False

    test_cases: list[TestCase]
    goldens: list[Any] = field(default_factory=list)


SAMPLES = [
    Sample(
        user_input=record["question"],
        response=record["actual_answer"],
        reference=record["expected_answer"],
        retrieved_contexts=record["contexts"],
    )
    for record in RECORDS
]
CASES = [TestCase(r["question"], r["actual_answer"], r["expected_answer"], r["contexts"]) for r in RECORDS]


def made_by(library: str) -> Any:
    """Return the records as a library's table, which takes a second to import."""
    import datasets
    import polars as pl

    match library:
        case "polars":
            return pl.DataFrame(RECORDS)
        case "polars, lazy":
            return pl.DataFrame(RECORDS).lazy()
        case "datasets":
            return datasets.Dataset.from_list(RECORDS)
        case _:
            return datasets.Dataset.from_list([RECORDS[1], RECORDS[0]]).select([1, 0])


def named(data: Any) -> str:
    return data if isinstance(data, str) else f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"


def generated() -> Iterator[dict[str, Any]]:
    yield from RECORDS


def loaded(store: Store, data: Any, folder: Path, **options: Any) -> list[tuple[Any, ...]]:
    found = load_dataset(store, stage(data, folder, **options).path)
    with connect() as connection:
        attach_dataset(connection, found.path)
        return connection.execute(
            "SELECT question, expected_answers, actual_answer, list_transform(retrieved_context, lambda c: c.content) "
            "FROM rows JOIN cases USING (case_id) ORDER BY row_id"
        ).fetchall()


@pytest.mark.parametrize(
    "data",
    [
        RECORDS,
        tuple(RECORDS),
        generated(),
        COLUMNS,
        pd.DataFrame(RECORDS),
        pd.DataFrame(RECORDS, index=pd.Index(["a", "b"], name="case")),
        pd.DataFrame(RECORDS).assign(level=[1, "two"]),
        pd.DataFrame(RECORDS).assign(level=pd.Categorical(["x", "y"])),
        "polars",
        "polars, lazy",
        pa.Table.from_pylist(RECORDS),
        pa.RecordBatch.from_pylist(RECORDS),
        "datasets",
        "datasets, chosen",
        SAMPLES,
        Samples(SAMPLES),
        CASES,
        TestCases(CASES),
    ],
    ids=named,
)
def test_every_kind_of_data_loads_to_the_same_rows(store: Store, data: Any, tmp_path: Path) -> None:
    if isinstance(data, str):
        data = made_by(data)
    assert loaded(store, data, tmp_path) == [
        ("Who?", ["Ada"], "Ada L.", ["one", "two"]),
        ("Where?", [], "Paris", []),
    ]


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    staged = stage(tmp_path / "answers.csv", tmp_path)
    assert (staged.path, staged.is_own) == (str(tmp_path / "answers.csv"), False)
    assert not list(tmp_path.iterdir())


def test_equal_data_is_one_dataset(store: Store, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    for make in (lambda: pd.DataFrame(RECORDS), lambda: RECORDS):
        first, second = (load_dataset(store, stage(make(), folder).path) for folder in folders)
        assert first.digest == second.digest
        assert second.reused


def test_classes_of_hugging_face_have_their_names(store: Store, tmp_path: Path) -> None:
    import datasets

    features = datasets.Features(
        {"question": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
        | {"actual_answer": datasets.Value("string")}
    )
    data = datasets.Dataset.from_dict(
        {"question": ["a", "b"], "label": [1, 0], "actual_answer": ["good", "good"]}, features=features
    )
    assert [row[1] for row in loaded(store, data, tmp_path)] == [["good"], ["bad"]]


@dataclass
class Deep:
    inner: Any


@pytest.mark.parametrize(
    "value",
    [
        np.int64(3),
        np.array([1, 2]),
        Decimal("1.5"),
        pd.Timestamp("2026-01-01"),
        pd.NA,
        Path("a"),
        {"k": (1, {2})},
        Deep(Deep(1)),
    ],
)
def test_values_of_python_can_be_metadata(store: Store, value: Any, tmp_path: Path) -> None:
    assert len(loaded(store, [{"question": "q", "actual_answer": "a", "meta": value}], tmp_path)) == 1


def test_texts_are_questions_where_a_target_answers(tmp_path: Path) -> None:
    staged = stage(["Who?", {"question": "Where?"}], tmp_path, questions=True)
    assert Path(staged.path).read_text() == '{"question":"Who?"}\n{"question":"Where?"}\n'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the list: it holds no records"),
        (pd.DataFrame({"question": []}), "the DataFrame: it holds no records"),
        ([{"question": "a"}, "b"], "the list, row 2: expected an object with fields, found str"),
        (
            [{"question": "a", "actual_answer": object()}],
            "the list, row 1, actual_answer: a value of type object cannot",
        ),
        ([{"question": "a", "actual_answer": "\ud800"}], "row 1, actual_answer: a text with half a character"),
        ([{"question": "a", "actual_answer": 1j}] * 50, "20 faults"),
    ],
)
def test_a_refusal_names_the_row_and_the_column(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=message):
        stage(data, tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "int is nothing that can be evaluated"),
        (pd.Series(["a"], name="question"), "Series is nothing that can be evaluated"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "has the column 'a' more than once"),
        ({"question": ["a"], "actual_answer": ["a", "b"]}, "different lengths: question 1, actual_answer 2"),
        ({"question": "a"}, "'question' is no column"),
    ],
)
def test_what_is_no_table_is_refused(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        stage(data, tmp_path)


def test_of_several_splits_one_is_chosen(tmp_path: Path) -> None:
    import datasets

    with pytest.raises(UsageError, match=r"Choose one: data\['test'\]"):
        stage(datasets.DatasetDict({"test": datasets.Dataset.from_list(RECORDS)}), tmp_path)


@pytest.mark.parametrize(
    ("name", "stem"), [("my run", "my-run"), ("../../etc", "etc"), ("", "answers"), ("…", "answers")]
)
def test_a_name_becomes_the_name_of_a_file(name: str, stem: str, tmp_path: Path) -> None:
    assert Path(stage(RECORDS, tmp_path, name).path) == tmp_path / f"{stem}.jsonl"
    frame = pd.DataFrame(RECORDS)
    frame.attrs["name"] = "faq"
    assert Path(stage(frame, tmp_path, name).path).stem == (stem if name else "faq")
