"""Detection on the inputs of Valor's own test suites, whose full output was recorded.

Where Valor's two implementations contradict each other or themselves, the exceptions are listed here with the reason;
``docs/origins/valor.md`` has the same list.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.datasets.detections import Said, annotation, say

HERE = Path(__file__).parent
CORE = json.loads((HERE / "valor_core_detection.json").read_text(encoding="utf-8"))
LITE = json.loads((HERE / "valor_lite_detection.json").read_text(encoding="utf-8"))
COCO = json.loads((HERE / "valor_lite_coco.json").read_text(encoding="utf-8"))

PARAMETERS = (
    "iou_thresholds_to_compute",
    "iou_thresholds_to_return",
    "recall_score_threshold",
    "pr_curve_iou_threshold",
    "pr_curve_max_examples",
    "convert_annotations_to_type",
    "label_map",
)

MEASURED_ALL_THE_SAME = {
    "test_evaluate_detection_functional_test_with_rasters",  # Valor has no detailed curve of rasters
    "test_evaluate_detection_model_with_no_predictions",  # Valor wants one prediction at least
}
"""Cases that valor-core refuses and Leadline measures."""

LITE_MEANS = {
    "different_class": "valor-lite leaves labels without predictions out of its means, valor-core counts them as 0",
    "no_groundtruths": "valor-lite says 0 where nothing is to be found; there is no value",
}


def images_of(fixture: dict[str, Any], case: dict[str, Any]) -> list[Any]:
    return [(expected, predicted) for _, expected, predicted in fixture["images"][case["images"]]]


def cases(fixture: dict[str, Any]) -> list[Any]:
    return [pytest.param(case, id=f"{number}-{case['test']}") for number, case in enumerate(fixture["cases"])]


def at(curve: dict[str, Any], changes: list[list[float]]) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Yield each point of a curve with the recorded values, which stand where they change."""
    for confidence, point in curve.items():
        yield point, [values for first, *values in changes if first <= float(confidence)][-1]


def check(said: Said, expected: dict[str, Any]) -> None:
    if "curve" not in expected:
        facts = {**expected.get("label", {}), **expected.get("parameters", {})}
        assert said.record(expected["type"], **facts) == pytest.approx(expected["value"], abs=1e-12)
        return
    curves = said.record(expected["type"], label_key=expected["key"])
    assert set(curves) == set(expected["curve"])
    for value, changes in expected["curve"].items():
        assert len(curves[value]) == 19
        for point, values in at(curves[value], changes):
            assert plain(point) == pytest.approx(values, abs=1e-12)


def plain(point: dict[str, Any]) -> list[float]:
    if "precision" in point:
        return [point[name] for name in ("tp", "fp", "fn", "precision", "recall", "f1_score")]
    false, missing = point["fp"]["observations"], point["fn"]["observations"]
    assert point["fp"]["total"] == sum(one["count"] for one in false.values())
    assert point["fn"]["total"] == sum(one["count"] for one in missing.values())
    return [
        point["tp"]["total"],
        false["misclassifications"]["count"],
        false["hallucinations"]["count"],
        missing["misclassifications"]["count"],
        missing["no_predictions"]["count"],
    ]


@pytest.mark.parametrize("case", cases(CORE))
def test_valor_core_says_the_same(case):
    parameters = {name: case["parameters"][name] for name in PARAMETERS if name in case["parameters"]}
    said = say(images_of(CORE, case), **parameters)
    if case.get("raises") and "convert_annotations_to_type" in parameters:  # to a more detailed type
        [score] = said.scores
        assert {value.reason for value in score.values.values()} == {"unscorable"}
        return
    if case.get("raises") == "ValueError" and case["test"] == "test_evaluate_mixed_annotations":
        assert said.metrics()["map"] == 1.0  # converted to boxes, as Valor's documentation says; valor-core refuses
    elif case.get("raises"):
        assert case["test"] in MEASURED_ALL_THE_SAME
    for expected in case["expected"]:
        check(said, expected)


RATIOS = {"Precision": "precision", "Recall": "recall", "F1": "f1_score"}


def lite_value(said: Said, expected: dict[str, Any]) -> Any:
    parameters, kind = expected["parameters"], expected["type"]
    facts = {"value": parameters["label"]} if "label" in parameters else {}
    if kind == "Counts" or kind in RATIOS:
        point = said.record("PrecisionRecallCurve")[parameters["label"]][str(parameters["score_threshold"])]
        return {name: point[name] for name in ("tp", "fp", "fn")} if kind == "Counts" else point[RATIOS[kind]]
    if "iou_threshold" in parameters:
        facts["iou"] = parameters["iou_threshold"]
    return said.record(kind, **facts)


def is_exception(case: dict[str, Any], expected: dict[str, Any]) -> bool:
    if expected["type"].startswith("m") and any(name in case["test"] for name in LITE_MEANS):
        return True
    return contradicts_its_counts(case, expected)


def contradicts_its_counts(case: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether precision (or F1 with it) does not follow from the counts that were recorded for the same thresholds."""
    if expected["type"] not in ("Precision", "F1", "Counts"):
        return False
    recorded = {one["type"]: one["value"] for one in case["expected"] if one["parameters"] == expected["parameters"]}
    counts = recorded["Counts"]
    positives = counts["tp"] + counts["fp"]
    return recorded["Precision"] != pytest.approx(counts["tp"] / positives if positives else 0.0)


def asked(parameters: dict[str, Any], score: float, iou: float) -> bool:
    """Whether a recorded value is of the thresholds of this evaluation; curves begin at a score of 0.05."""
    if parameters.get("score_threshold", score) != score:
        return False
    return (
        "iou_threshold" not in parameters
        or "score_threshold" not in parameters
        or (parameters["iou_threshold"] == iou and score > 0)
    )


@pytest.mark.parametrize("case", cases(LITE))
def test_valor_lite_says_the_same(case):
    compared = 0
    for score in case["score_thresholds"]:
        for iou in case["iou_thresholds"]:
            said = say(
                images_of(LITE, case),
                iou_thresholds_to_compute=case["iou_thresholds"],
                iou_thresholds_to_return=case["iou_thresholds"],
                recall_score_threshold=score,
                pr_curve_iou_threshold=iou,
            )
            for expected in case["expected"]:
                if asked(expected["parameters"], score, iou) and not is_exception(case, expected):
                    assert lite_value(said, expected) == pytest.approx(expected["value"], abs=1e-9), expected
                    compared += 1
    assert compared or "no_groundtruths" in case["test"]


def test_precision_follows_from_the_counts_where_valor_lite_contradicts_itself():
    case = LITE["cases"][0]
    said = say(images_of(LITE, case), pr_curve_iou_threshold=0.5)
    point = said.record("PrecisionRecallCurve", label_key="class")["0"]["0.5"]
    assert (point["tp"], point["fp"], point["fn"]) == (3, 0, 2)
    assert point["precision"] == 1.0  # valor-lite's record says 0.6, which is the recall


def test_the_coco_regression_says_the_same():
    images = [
        (
            [annotation(value, box=box) for value, *box in truth],
            [annotation(value, score, box=box) for value, score, *box in (map(exact, one) for one in found)],
        )
        for truth, found in zip(COCO["truth"], COCO["predictions"], strict=True)
    ]
    iou, score = COCO["iou_thresholds"], COCO["score_threshold"]
    said = say(
        images,
        iou_thresholds_to_compute=iou,
        iou_thresholds_to_return=iou,
        recall_score_threshold=score,
        pr_curve_iou_threshold=iou[0],
    )
    for expected in COCO["expected"]:
        assert lite_value(said, expected) == pytest.approx(expected["value"], abs=1e-9), expected


def exact(value: Any) -> Any:
    """Return the float32 that was written with its shortest digits."""
    return float(np.float32(value)) if isinstance(value, float) else value
