"""Annotations of data items: what is read, into which form, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.data import geometry, is_rotated, parts
from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.annotations import annotation, expected_annotations, predicted_annotations
from leadline.tasks.load.values import ValueFault
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, load, rows, tables

CAT = {"key": "class", "value": "cat"}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("cat", {"labels": [CAT]}),
        ({"label": "cat"}, {"labels": [CAT]}),
        ({"label": 3, "score": 1}, {"labels": [{"key": "class", "value": "3", "score": 1.0}]}),
        ({"label": {"key": "animal", "value": "cat"}}, {"labels": [{"key": "animal", "value": "cat"}]}),
        ({"label": "cat", "key": "animal"}, {"labels": [{"key": "animal", "value": "cat"}]}),
        ({"labels": ["cat", {"value": "pet"}]}, {"labels": [CAT, {"key": "class", "value": "pet"}]}),
        ({"label": "cat", "box": [1, 2, 3, 4.5]}, {"labels": [CAT], "box": [1.0, 2.0, 3.0, 4.5]}),
        (
            {"label": "cat", "box": [[0, 0], [2, 1], [1, 3], [-1, 2]]},
            {"labels": [CAT], "box": [[0.0, 0.0], [2.0, 1.0], [1.0, 3.0], [-1.0, 2.0]]},
        ),
        (
            {"label": "cat", "raster": {"size": [2, 3], "counts": [1, 2, 3]}, "is_instance": False},
            {"labels": [CAT], "raster": {"size": [2, 3], "counts": "123"}, "is_instance": False},
        ),
        ({"label": "cat", "box": None, "score": None}, {"labels": [CAT]}),
    ],
)
def test_short_forms_become_the_one_form(given: Any, read: dict[str, Any]) -> None:
    assert annotation(given, scores=True) == read
    assert annotation(read, scores=True) == read


@pytest.mark.parametrize(
    ("polygon", "n_parts"),
    [
        ([[0, 0], [4, 0], [4, 4]], [1]),
        ([[[0, 0], [4, 0], [4, 4]], [[1, 1], [2, 1], [2, 2]]], [2]),
        ([[[[0, 0], [4, 0], [4, 4]]], [[[5, 5], [6, 5], [6, 6]], [[1, 1], [2, 1], [2, 2]]]], [1, 2]),
    ],
)
def test_polygons_have_rings_holes_and_parts(polygon: Any, n_parts: list[int]) -> None:
    read = annotation({"label": "a", "polygon": polygon}, scores=False)
    assert [len(part) for part in parts(read)] == n_parts  # type: ignore[arg-type]
    assert geometry(read) == "polygon"  # type: ignore[arg-type]


def test_a_box_of_four_points_is_rotated() -> None:
    boxes = ([0, 0, 1, 1], [[0, 0], [1, 0], [1, 1], [0, 1]])
    assert [is_rotated(annotation({"label": "a", "box": box}, scores=False)) for box in boxes] == [False, True]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "expected an object"),
        ({}, "no label"),
        ({"labels": []}, "no label"),
        ({"labels": "cat"}, "expected a list of labels"),
        ({"label": ""}, "the value is empty"),
        ({"label": "a", "labels": ["a"]}, "short form"),
        ({"labels": ["a", "a"]}, "a label twice"),
        ({"labels": [{"value": "a", "colour": "red"}]}, "nothing else"),
        ({"label": "a", "boxes": []}, "there is no 'boxes'"),
        ({"label": "a", "score": 1.1}, "not between 0 and 1"),
        ({"label": "a", "score": float("nan")}, "not between 0 and 1"),
        ({"label": "a", "score": "high"}, "expected a number"),
        ({"label": "a", "box": [0, 0, 1, 1], "polygon": [[0, 0], [1, 0], [1, 1]]}, "one geometry"),
        ({"label": "a", "box": [0, 0, 1]}, "expected [x_min"),
        ({"label": "a", "box": [5, 0, 1, 1]}, "ends before it begins"),
        ({"label": "a", "box": [0, 0, float("inf"), 1]}, "not a finite number"),
        ({"label": "a", "box": [0, 0, 1e12, 1]}, "too large for a coordinate"),
        ({"label": "a", "box": [0, 0, "1", 1]}, "expected a number"),
        ({"label": "a", "polygon": [[0, 0], [1, 0]]}, "at least 3 points"),
        ({"label": "a", "polygon": [[0, 0], [1, 0], [1]]}, "expected a point"),
        ({"label": "a", "polygon": "round"}, "expected points"),
        ({"label": "a", "polygon": [[[[[0]]]]]}, "expected points"),
        ({"label": "a", "raster": [[0, 1]]}, 'expected {"size"'),
        ({"label": "a", "raster": {"size": [2, 2], "counts": [1, 2]}}, "the counts fill 3 pixels"),
        ({"label": "a", "raster": {"size": [0, 2], "counts": []}}, "whole pixels"),
        ({"label": "a", "raster": {"size": [10**6, 10**6], "counts": [10**12]}}, "more than"),
        ({"label": "a", "raster": {"size": [2, 2], "counts": [5, -1]}}, "negative"),
        ({"label": "a", "raster": {"size": [2, 2], "counts": "é"}}, "no text of COCO's encoding"),
        ({"label": "a", "is_instance": "yes"}, "expected true or false"),
        ({"label": "a", "is_crowd": True}, "belongs to ground truth"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(given: Any, said: str) -> None:
    with pytest.raises(ValueFault) as fault:
        predicted_annotations(["fine", given])
    assert str(fault.value).startswith("annotation 2: ")
    assert said in str(fault.value)


def test_ground_truth_has_no_scores_and_may_hold_crowds() -> None:
    with pytest.raises(ValueFault, match="ground truth has no score"):
        expected_annotations([{"label": "a", "score": 0.5}])
    (read,) = json.loads(expected_annotations([{"label": "a", "is_crowd": True}]))
    assert read["is_instance"] is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["labels", "label", "box", "polygon", "raster", "size", "counts"]), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_anything_is_read_or_refused(value: Any) -> None:
    try:
        text = predicted_annotations(value)
    except ValueFault:
        return
    assert predicted_annotations(json.loads(text)) == text


RECORDS = [
    {"case": "i1", "model": "a", "expected_annotations": [{"label": "cat", "box": [1, 2, 3, 4]}],
     "predicted_annotations": [{"label": "cat", "score": 0.5, "box": [1, 2, 3, 5]}]},
    {"case": "i1", "model": "b", "predicted_annotations": []},
    {"case": "i2", "model": "a", "expected_annotations": [], "error": "out of memory"},
]  # fmt: skip


@pytest.mark.parametrize("pack", [as_jsonl, as_csv, as_parquet])
def test_annotations_come_in_any_container(tmp_path: Path, pack: Any) -> None:
    loaded = load(tmp_path, "d", pack(RECORDS, tmp_path) if pack is as_parquet else pack(RECORDS))
    assert loaded.format == "leadline"
    cases = {case["case_key"]: case["expected_annotations"] for case in tables(loaded)["cases"]}
    assert cases == {"i1": '[{"labels":[{"key":"class","value":"cat"}],"box":[1.0,2.0,3.0,4.0]}]', "i2": "[]"}
    found = {key: row["predicted_annotations"] for key, row in rows(loaded).items()}
    assert sorted(map(str, found.values())) == [
        "None", "[]", '[{"labels":[{"key":"class","value":"cat","score":0.5}],"box":[1.0,2.0,3.0,5.0]}]',
    ]  # fmt: skip


def test_faults_name_row_and_column_and_are_listed_together(tmp_path: Path) -> None:
    bad = [
        {"case": "1", "expected_annotations": [{"label": "a", "score": 1}], "predicted_annotations": ["a", 5]},
        {"expected_annotations": ["a"], "predicted_annotations": ["a"]},
        {"case": "1", "expected_annotations": ["b"], "predicted_annotations": None},
        {"case": "2", "expected_annotations": ["a"], "predicted_annotations": ["a"]},
        {"case": "2", "model": "x", "expected_annotations": ["b"], "predicted_annotations": ["a"]},
    ]
    with pytest.raises(DatasetError) as refused:
        load(tmp_path, "d.jsonl", as_jsonl(bad))
    said = str(refused.value)
    assert "row 1, expected_annotations: annotation 1: ground truth has no score" in said
    assert "row 1, predicted_annotations: annotation 2: expected an object" in said
    assert "row 2, case: a data item needs a key" in said
    assert "row 5, expected_annotations: case '2' has another expected_annotations in row 4" in said
