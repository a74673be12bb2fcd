"""COCO files: a manifest or a folder becomes cases and rows with annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import rows, tables

TRUTH: dict[str, Any] = {
    "info": {"year": 2026, "nested": [{"images": []}]},
    "annotations": [
        {"id": 1, "image_id": 8, "category_id": 2, "bbox": [10, 20, 30, 40.5], "iscrowd": 0,
         "segmentation": [[10, 20, 40, 20, 40, 60], [1, 1, 2, 1, 2, 2]]},
        {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 5, 5], "iscrowd": 1,
         "segmentation": {"size": [2, 3], "counts": [1, 2, 3]}},
        {"id": 3, "image_id": 8, "category_id": 1, "bbox": [1, 1, 1, 1], "segmentation": [[0, 0, 4, 0, 4, 4]]},
    ],
    "images": [
        {"id": 7, "file_name": "a.jpg", "width": 64, "height": 48, "license": 3},
        {"id": 8, "file_name": "b.jpg", "width": 64, "height": 48},
        {"id": 9, "file_name": "c.jpg"},
    ],
    "categories": [{"id": 1, "name": "cat", "supercategory": "animal"}, {"id": 2, "name": 'a "dog"'}],
}  # fmt: skip
FOUND = [
    {"image_id": 8, "category_id": 2, "bbox": [10, 20, 30, 40], "score": 0.25},
    {"image_id": 7, "category_id": 1, "bbox": [0, 0, 5, 5], "score": 1},
    {"image_id": 8, "category_id": 1, "bbox": [1, 1, 1, 1], "score": 0.5},
]
MASKS = [{"image_id": 8, "category_id": 2, "segmentation": {"size": [2, 3], "counts": "123"}, "score": 0.9}]


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def load(tmp_path: Path, path: Path) -> LoadedDataset:
    return load_dataset(Store.open(tmp_path / "store"), path)


def refused(tmp_path: Path, path: Path) -> str:
    with pytest.raises(DatasetError) as error:
        load(tmp_path, path)
    return str(error.value)


def test_a_folder_holds_the_ground_truth_and_the_results_of_each_model(tmp_path: Path) -> None:
    loaded = load(tmp_path, write(tmp_path / "set", instances_val=TRUTH, **{"model-a": FOUND, "model-b": []}))
    assert (loaded.format, loaded.rows, loaded.cases, loaded.models) == ("coco", 6, 3, ("model-a", "model-b"))
    cases = {case["case_key"]: case for case in tables(loaded)["cases"]}
    assert list(cases) == ["7", "8", "9"]
    assert json.loads(cases["7"]["metadata"]) == {"file_name": "a.jpg", "width": 64, "height": 48}
    assert json.loads(cases["8"]["expected_annotations"]) == [
        {"labels": [{"key": "class", "value": 'a "dog"'}], "box": [10, 20, 40, 60.5]},
        {"labels": [{"key": "class", "value": "cat"}], "box": [1, 1, 2, 2]},
    ]
    (crowd,) = json.loads(cases["7"]["expected_annotations"])
    assert (crowd["is_crowd"], crowd["is_instance"]) == (True, False)
    assert cases["9"]["expected_annotations"] == "[]"
    found = [json.loads(row["predicted_annotations"]) for row in rows(loaded).values()]
    assert [len(one) for one in found] == [1, 0, 2, 0, 0, 0]
    assert [label["score"] for one in found[2] for label in one["labels"]] == [0.25, 0.5]


def test_a_manifest_names_files_models_and_geometry(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", truth=TRUTH, dets=FOUND, masks=MASKS)
    manifest: dict[str, Any] = {"ground_truth": "truth.json", "predictions": {"net 1": "masks.json"}, "name": "Val"}
    loaded = load(tmp_path, write(folder, manifest=manifest) / "manifest.json")
    assert (loaded.name, loaded.models) == ("Val", ("net 1",))
    cases = {case["case_key"]: json.loads(case["expected_annotations"]) for case in tables(loaded)["cases"]}
    assert [len(one["polygon"]) for one in cases["8"]] == [2, 3]  # two parts; one ring
    assert cases["7"][0]["raster"] == {"size": [2, 3], "counts": "123"}
    manifest |= {"geometry": "box", "predictions": {"net 1": "dets.json"}}
    boxes = load(tmp_path, write(folder, manifest=manifest) / "manifest.json")
    assert '"box"' in tables(boxes)["cases"][1]["expected_annotations"]
    assert load(tmp_path, folder).digest == boxes.digest, "a folder with a manifest is that manifest"


def test_a_changed_file_of_results_is_another_dataset(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", truth=TRUTH, dets=FOUND)
    first = load(tmp_path, folder)
    assert load(tmp_path, folder).reused
    second = load(tmp_path, write(folder, dets=FOUND[:1]))
    assert not second.reused
    assert first.digest != second.digest


def test_faults_of_all_files_are_listed_with_their_file(tmp_path: Path) -> None:
    bad = [
        {"image_id": 99, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5},
        {"image_id": 7, "category_id": 99, "bbox": [0, 0, 1, 1], "score": 0.5},
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, -1, 1], "score": 0.5},
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 2},
        {"image_id": 7, "category_id": 1, "score": 0.5},
        {"category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5},
        5,
    ]
    truth = TRUTH | {"images": [*TRUTH["images"], TRUTH["images"][0]], "categories": [{"id": 1, "name": ""}]}
    said = refused(tmp_path, write(tmp_path / "set", truth=truth, dets=bad))
    for message in (
        "dets.json, row 1: there is no image 99",
        "dets.json, row 2: there is no category 99",
        "dets.json, row 3: bbox: width and height must be positive numbers, and are -1 and 1",
        "dets.json, row 4: score: expected a number between 0 and 1",
        "dets.json, row 5: bbox: expected [x, y, width, height]",
        "dets.json, row 6: image_id is missing",
        "dets.json, row 7: expected an object",
        "truth.json, row 4, images[].: image 7 is listed a second time",
        "truth.json, row 1, categories[].: name: expected a text",
    ):
        assert message in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ground_truth": "../truth.json"}, "outside of the manifest's folder"),
        ({"ground_truth": "/etc/passwd"}, "outside of the manifest's folder"),
        ({"ground_truth": "nothing.json"}, "there is no such file"),
        ({"ground_truth": 5}, "expected the name of a file"),
        ({"predictions": []}, "the file of results of each model"),
        ({"predictions": {" ": "dets.json"}}, "the model's key is blank"),
        ({"results": "x"}, "a manifest has no 'results'"),
        ({"geometry": "circle"}, "none of auto, box, segmentation"),
        ({"ground_truth": "dets.json"}, "broken JSON: expected an object"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    manifest: dict[str, Any] = {"ground_truth": "truth.json", "predictions": {"m": "dets.json"}} | change
    folder = write(tmp_path / "set", truth=TRUTH, dets=FOUND, manifest=manifest)
    assert said in refused(tmp_path, folder / "manifest.json")


@pytest.mark.parametrize("content", [TRUTH, FOUND])
def test_one_file_alone_is_refused_with_a_word_on_what_to_do(tmp_path: Path, content: Any) -> None:
    folder = write(tmp_path / "set", alone=content)
    assert "put the ground truth and each model's results into a folder" in refused(tmp_path, folder / "alone.json")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "here are 0 objects and 1 lists" in refused(tmp_path, write(tmp_path / "set", dets=FOUND))


def test_a_list_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    truth = {name: value for name, value in TRUTH.items() if name != "categories"}
    assert "categories: COCO's ground truth needs this list" in refused(
        tmp_path, write(tmp_path / "set", truth=truth, dets=[])
    )
