"""Annotated images for tests, made at random or written in short, and what an evaluator says of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from leadline.evaluators.core import EvalContext, Evaluator, get
from leadline.evaluators.data import Row, RowScore, encode_counts

Image = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Ground truth and predictions."""


def annotation(value: str, score: float | None = None, key: str = "class", **geometry: Any) -> dict[str, Any]:
    label: dict[str, Any] = {"key": key, "value": value}
    return {"labels": [label if score is None else label | {"score": score}], **geometry}


def raster(mask: np.ndarray) -> dict[str, Any]:
    """Return a mask in COCO's encoding."""
    flat = np.concatenate(([False], mask.ravel(order="F"), [False]))
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    bounds = np.unique(np.concatenate((edges, [mask.size])))
    counts = np.diff(np.concatenate(([0], bounds)))
    if mask.size and mask[0, 0]:
        counts = np.concatenate(([0], np.diff(bounds)))
    return {"size": list(mask.shape), "counts": encode_counts(counts)}


@dataclass(frozen=True)
class Said:
    """What an evaluator says of some images."""

    evaluator: Evaluator
    scores: list[RowScore]

    @cached_property
    def prepared(self) -> Any:
        """Return what the evaluator makes of the payloads, which travel as JSON in a run."""
        return self.evaluator.prepare([orjson.loads(orjson.dumps(score.payload)) for score in self.scores])

    @cached_property
    def details(self) -> dict[str, Any]:
        """Return the details as a program reads them."""
        cases = [str(number) for number in range(len(self.scores))]
        details = self.evaluator.details(self.prepared, np.ones(len(cases)), cases)
        return orjson.loads(orjson.dumps(details))

    def metrics(self, weights: np.ndarray | None = None) -> dict[str, float]:
        """Return the model's metrics, rounded so that they can be compared."""
        weights = np.ones(len(self.scores)) if weights is None else weights
        found = self.evaluator.aggregate(self.prepared, weights[np.newaxis])
        return {metric: round(float(values[0]), 12) for metric, values in found.items()}

    def record(self, kind: str, **facts: Any) -> Any:
        """Return the value of the one record of a kind with these facts among its label and parameters."""
        [found] = [one["value"] for one in self.details["records"] if one["type"] == kind and _has(one, facts)]
        return found


def _has(record: dict[str, Any], facts: dict[str, Any]) -> bool:
    known = {**record.get("label", {}), **record.get("parameters", {})}
    return all(known.get(name) == value for name, value in facts.items())


def say(images: list[Image], evaluator_id: str = "valor.object_detection", **parameters: Any) -> Said:
    """Return what an evaluator says of images."""
    kind = get(evaluator_id)
    evaluator = kind(kind.parameters.build(evaluator_id, parameters))
    rows = [
        Row(str(number), "model", expected_annotations=expected, predicted_annotations=predicted)
        for number, (expected, predicted) in enumerate(images)
    ]
    return Said(evaluator, evaluator.score(rows, EvalContext()))


def random_images(
    seed: int, images: int = 20, objects: int = 6, predictions: int = 20, labels: int = 3, crowds: float = 0.0
) -> list[Image]:
    """Return crowded images: objects that overlap, predictions near them, some with the wrong label, and stray ones."""
    draw = np.random.default_rng(seed)

    def box() -> list[float]:
        corner = draw.uniform(0, 80, 2)
        return [*corner.tolist(), *(corner + draw.uniform(5, 40, 2)).tolist()]

    def label() -> str:
        return f"label {draw.integers(labels)}"

    out = []
    for _ in range(images):
        truth = [annotation(label(), box=box()) for _ in range(draw.integers(objects + 1))]
        for one in truth:
            if draw.random() < crowds:
                one |= {"is_crowd": True, "is_instance": False}
        found = []
        for _ in range(draw.integers(predictions + 1)):
            near, value = box(), label()
            if truth and draw.random() < 0.7:
                one = truth[draw.integers(len(truth))]
                moved = np.array(one["box"]) + draw.normal(0, 3, 4)
                near = [*np.minimum(moved[:2], moved[2:]).tolist(), *np.maximum(moved[:2], moved[2:]).tolist()]
                value = one["labels"][0]["value"] if draw.random() < 0.8 else value
            found.append(annotation(value, float(draw.random()), box=near))
        out.append((truth, found))
    return out
