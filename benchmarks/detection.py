"""Object detection on COCO's scale, against faster-coco-eval in the same run.

Run: ``python -m benchmarks.detection [IMAGES]`` (5,000 images by default, each with 7 objects and 100 predictions, 80
labels, 10 IoU thresholds). Both sides start from the same annotations. Leadline's time is that of scoring the images in
batches as a run does, and of its six metrics over all of them; reading the JSON, the curves and confusion matrices of
the report, and the confidence intervals, which faster-coco-eval does not have, are listed separately.
Each side runs in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

from benchmarks.machine import describe, verdict

OBJECTS, PREDICTIONS, LABELS, BATCH = 7, 100, 80, 1_000
GIB = 2**30
Times = dict[str, tuple[float, float]]
"""Wall and processor time of each step, in seconds."""


@contextmanager
def step(times: Times, name: str) -> Iterator[None]:
    """Add the time of a block to a step's."""
    wall, processor = time.perf_counter(), time.process_time()
    yield
    before = times.get(name, (0.0, 0.0))
    times[name] = (before[0] + time.perf_counter() - wall, before[1] + time.process_time() - processor)


def make(images: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for each image the boxes and labels of its objects, and boxes, labels and scores of its predictions.

    A third of the predictions are objects moved a little, most of them with the right label; the others are anywhere.
    """
    draw = np.random.default_rng(11)
    for _ in range(images):
        boxes = _boxes(draw, OBJECTS)
        labels = draw.integers(LABELS, size=OBJECTS)
        predicted = _boxes(draw, PREDICTIONS)
        predicted_labels = draw.integers(LABELS, size=PREDICTIONS)
        scores = draw.random(PREDICTIONS) * 0.6
        near = PREDICTIONS // 3
        which = draw.integers(OBJECTS, size=near)
        moved = boxes[which] + draw.normal(0, 6, (near, 4))
        predicted[:near] = np.concatenate([np.minimum(moved[:, :2], moved[:, 2:] - 1), moved[:, 2:]], axis=1)
        right = draw.random(near) < 0.8
        predicted_labels[:near][right] = labels[which][right]
        scores[:near] += 0.4 * draw.random(near)
        yield boxes.round(2), labels, predicted.round(2), predicted_labels, scores


def _boxes(draw: np.random.Generator, number: int) -> np.ndarray:
    corner = draw.uniform(0, 480, (number, 2))
    return np.concatenate([corner, corner + draw.uniform(16, 160, (number, 2))], axis=1)


def leadline(images: int) -> dict[str, Any]:
    """Measure Leadline."""
    from leadline.evaluators.core import EvalContext, get
    from leadline.evaluators.data import Row

    stored = [_annotations(*image) for image in make(images)]
    kind = get("valor.object_detection")
    evaluator, ctx = kind(kind.parameters.build("", {"method": "coco"})), EvalContext()
    times: Times = {}
    payloads = []
    for start in range(0, images, BATCH):
        with step(times, "read JSON"):
            rows = [
                Row(
                    str(number),
                    "model",
                    expected_annotations=orjson.loads(truth),
                    predicted_annotations=orjson.loads(found),
                )
                for number, (truth, found) in enumerate(stored[start : start + BATCH], start)
            ]
        with step(times, "score"):
            scores = evaluator.score(rows, ctx)
        payloads += [orjson.dumps(score.payload) for score in scores]
        del rows, scores
    with step(times, "read payloads"):
        parsed = [orjson.loads(payload) for payload in payloads]
    with step(times, "prepare"):
        prepared = evaluator.prepare(parsed)
    weights = np.ones((1, images))
    with step(times, "metrics"):
        metrics = evaluator.aggregate(prepared, weights)
    with step(times, "details"):
        evaluator.details(prepared, weights[0], [str(number) for number in range(images)])
    resamples = evaluator.resamples(prepared)
    drawn = np.random.default_rng(1).multinomial(images, np.full(images, 1 / images), size=resamples).astype(float)
    with step(times, f"intervals ({resamples} resamples)"):
        evaluator.aggregate(prepared, drawn)
    size = sum(map(len, payloads)) / images
    return {"times": times, "map": float(metrics["map_averaged_over_ious"][0]), "peak": _peak(), "payload": size}


def _annotations(
    boxes: np.ndarray, labels: np.ndarray, predicted: np.ndarray, predicted_labels: np.ndarray, scores: np.ndarray
) -> tuple[bytes, bytes]:
    truth = [
        {"labels": [{"key": "class", "value": f"label {label}"}], "box": box}
        for box, label in zip(boxes.tolist(), labels.tolist(), strict=True)
    ]
    found = [
        {"labels": [{"key": "class", "value": f"label {label}", "score": score}], "box": box}
        for box, label, score in zip(predicted.tolist(), predicted_labels.tolist(), scores.tolist(), strict=True)
    ]
    return orjson.dumps(truth), orjson.dumps(found)


def reference(images: int) -> dict[str, Any]:
    """Measure faster-coco-eval."""
    from faster_coco_eval import COCO, COCOeval_faster

    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image, (boxes, labels, predicted, predicted_labels, scores) in enumerate(make(images), 1):
        for (left, top, right, bottom), label in zip(boxes.tolist(), labels.tolist(), strict=True):
            size = [right - left, bottom - top]
            truth.append({"id": len(truth) + 1, "image_id": image, "category_id": label + 1, "iscrowd": 0,
                          "bbox": [left, top, *size], "area": size[0] * size[1]})  # fmt: skip
        for (left, top, right, bottom), label, score in zip(
            predicted.tolist(), predicted_labels.tolist(), scores.tolist(), strict=True
        ):
            found.append({"image_id": image, "category_id": label + 1, "score": score,
                          "bbox": [left, top, right - left, bottom - top]})  # fmt: skip
    dataset = {
        "images": [{"id": image} for image in range(1, images + 1)],
        "annotations": truth,
        "categories": [{"id": label + 1, "name": f"label {label}"} for label in range(LABELS)],
    }
    times: Times = {}
    with step(times, "load"):
        known = COCO(dataset)
        predictions = known.loadRes(found)
    with step(times, "evaluate"):
        evaluation = COCOeval_faster(known, predictions, "bbox", print_function=lambda *_: None)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {"times": times, "map": float(evaluation.stats[0]), "peak": _peak()}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def _alone(function: Any, images: int) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (images,))


def main() -> None:
    images = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    print(describe())
    print(f"{images:,} images x {OBJECTS} objects x {PREDICTIONS} predictions, {LABELS} labels, 10 IoU thresholds")
    theirs, ours = _alone(reference, images), _alone(leadline, images)
    for name, result in (("faster-coco-eval", theirs), ("Leadline (method=coco)", ours)):
        print(f"{name}: mAP[.5:.95] {result['map']:.9f}, peak {result['peak']:.2f} GiB")
        for part, (wall, processor) in result["times"].items():
            print(f"  {part:<28}{wall:8.2f} s wall{processor:8.2f} s processor")
    print(f"  payload of an image: {ours['payload'] / 1024:.1f} KiB")
    compared = ("score", "read payloads", "prepare", "metrics")
    for index, clock in enumerate(("wall", "processor")):
        mine = sum(ours["times"][part][index] for part in compared)
        its = sum(part[index] for part in theirs["times"].values())
        print(verdict(f"{clock} time, {mine:.1f} s to {its:.1f} s", mine / its, 1.5, at_least=False))
    print(verdict("peak memory in GiB", ours["peak"], 1.5, at_least=False))
    print(json.dumps({"difference of mAP": abs(ours["map"] - theirs["map"])}))


if __name__ == "__main__":
    main()
