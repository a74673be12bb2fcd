"""Method ``coco`` equals pycocotools and faster-coco-eval; method ``valor`` equals the rules written as plain loops."""

import contextlib
import io
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.support.datasets.detections import Image, annotation, random_images, raster, say

IOUS = np.linspace(0.5, 0.95, 10)


def width_height(box: list[float]) -> list[float]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def coco_dataset(images: list[Image]) -> tuple[list[str], dict[str, Any], list[dict[str, Any]]]:
    names = sorted({one["labels"][0]["value"] for sides in images for side in sides for one in side})
    truth, found = [], []
    for image, (expected, predicted) in enumerate(images):
        for one in expected:
            truth.append(
                {"id": len(truth) + 1, "image_id": image, "iscrowd": int(one.get("is_crowd", False)), **geometry(one),
                 "category_id": names.index(one["labels"][0]["value"]) + 1, "area": 1.0}
            )  # fmt: skip
        for one in predicted:
            [label] = one["labels"]
            found.append(
                {"image_id": image, "category_id": names.index(label["value"]) + 1, "score": label["score"],
                 **geometry(one)}
            )  # fmt: skip
    dataset = {
        "images": [{"id": image, "height": 100, "width": 120} for image in range(len(images))],
        "annotations": truth,
        "categories": [{"id": number, "name": name} for number, name in enumerate(names, 1)],
    }
    return names, dataset, found


def geometry(one: dict[str, Any]) -> dict[str, Any]:
    if "raster" in one:
        return {"segmentation": {"size": one["raster"]["size"], "counts": one["raster"]["counts"]}}
    return {"bbox": width_height(one["box"])}


def pycocotools(images: list[Image], kind: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    names, dataset, found = coco_dataset(images)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = dataset
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), kind)
        evaluation.evaluate()
        evaluation.accumulate()
    precision, recall = evaluation.eval["precision"][:, :, :, 0, 2], evaluation.eval["recall"][:, :, 0, 2]
    return names, precision.mean(axis=1).T, recall.T


def assert_same(images: list[Image], kind: str) -> None:
    names, precision, recall = pycocotools(images, kind)
    said = say(images, method="coco")
    measured = said.prepared.measure(np.ones(len(images)))
    order = [said.prepared.names.index(("class", name)) for name in names]
    assert np.nan_to_num(measured.precision[order], nan=-1) == pytest.approx(precision, abs=1e-9)
    assert np.nan_to_num(measured.recall[order], nan=-1) == pytest.approx(recall, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_boxes_equal_pycocotools(seed):
    assert_same(random_images(seed, crowds=0.2 if seed % 2 else 0.0), "bbox")


@pytest.mark.parametrize("seed", range(3))
def test_only_the_hundred_most_confident_predictions_count_as_in_pycocotools(seed):
    assert_same(random_images(seed, images=3, objects=20, predictions=400, labels=1), "bbox")


def masks_of(images: list[Image]) -> list[Image]:
    """Return the images with an ellipse in the place of each box."""
    y, x = np.mgrid[0:100, 0:120] + 0.5

    def ellipse(one: dict[str, Any]) -> dict[str, Any]:
        x0, y0, x1, y1 = one.pop("box")
        inside = ((x - (x0 + x1) / 2) / max(x1 - x0, 1)) ** 2 + ((y - (y0 + y1) / 2) / max(y1 - y0, 1)) ** 2 <= 0.25
        return one | {"raster": raster(inside)}

    return [([ellipse(one) for one in expected], [ellipse(one) for one in found]) for expected, found in images]


@pytest.mark.parametrize("seed", range(4))
def test_masks_equal_pycocotools(seed):
    assert_same(masks_of(random_images(seed, images=10, crowds=0.2)), "segm")


def test_all_labels_together_equal_faster_coco_eval():
    from faster_coco_eval import COCO, COCOeval_faster

    images = random_images(5, images=40, labels=5)
    _, dataset, found = coco_dataset(images)
    truth = COCO(dataset)
    evaluation = COCOeval_faster(truth, truth.loadRes(found), "bbox", print_function=lambda *_: None)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    metrics = say(images, method="coco").metrics()
    assert metrics["map_averaged_over_ious"] == pytest.approx(evaluation.stats[0], abs=1e-9)
    assert metrics["map"] == pytest.approx(evaluation.stats[1], abs=1e-9)
    assert metrics["mar"] == pytest.approx(evaluation.stats[8], abs=1e-9)


def box_iou(one: list[float], other: list[float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1])
    return width * height / (area - width * height)


def valor_loops(images: list[Image]) -> dict[tuple[str, float], tuple[float, float]]:
    """Return AP and recall by label and IoU as Valor's rules say, prediction by prediction."""
    truths: defaultdict[str, int] = defaultdict(int)
    best: defaultdict[str, list[tuple[float, float, Any]]] = defaultdict(list)
    for image, (expected, found) in enumerate(images):
        for one in expected:
            truths[one["labels"][0]["value"]] += 1
        for one in found:
            [label] = one["labels"]
            rivals = [
                (box_iou(one["box"], true["box"]), -number)
                for number, true in enumerate(expected)
                if true["labels"][0]["value"] == label["value"]
            ]
            iou, number = max(rivals, default=(0.0, 0))
            best[label["value"]].append((label["score"], iou, (image, number)))
    out = {}
    for value, number in truths.items():
        for iou in IOUS.round(2).tolist():
            taken, points, hits = set(), [], 0
            for rank, (_, overlap, truth) in enumerate(sorted(best[value], key=lambda one: -one[0]), 1):
                if overlap >= iou and truth not in taken:
                    taken.add(truth)
                    hits += 1
                points.append((hits, hits / rank))
            average = sum(
                max((precision for reached, precision in points if reached * 100 >= recall * number), default=0.0)
                for recall in range(101)
            )
            out[value, iou] = average / 101, hits / number
    return out


@pytest.mark.parametrize("seed", range(6))
def test_valors_rules_equal_plain_loops(seed):
    images = random_images(seed, images=12)
    said = say(images)
    measured = said.prepared.measure(np.ones(len(images)))
    for (value, iou), (average, recall) in valor_loops(images).items():
        label = said.prepared.names.index(("class", value))
        step = said.evaluator.params.iou_thresholds_to_compute.index(iou)
        assert measured.precision[label, step] == pytest.approx(average, abs=1e-12)
        assert measured.recall[label, step] == pytest.approx(recall, abs=1e-12)


def test_the_methods_differ_where_a_prediction_could_have_a_second_choice():
    truth = [annotation("cat", box=[0.0, 0.0, 10.0, 10.0]), annotation("cat", box=[0.0, 4.0, 10.0, 14.0])]
    found = [annotation("cat", 0.9, box=[0.0, 1.0, 10.0, 11.0]), annotation("cat", 0.8, box=[0.0, 1.0, 10.0, 11.0])]
    assert say([(truth, found)], iou_thresholds_to_compute=[0.5]).metrics()["ar"] == 0.5
    assert say([(truth, found)], iou_thresholds_to_compute=[0.5], method="coco").metrics()["ar"] == 1.0
