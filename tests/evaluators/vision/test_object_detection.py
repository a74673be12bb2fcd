"""What detection says: of odd images, of the same images in another order or number, and beside its metrics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.data import NotApplicable, Unscored
from leadline.evaluators.ground import UsageError
from tests.support.datasets.detections import Image, annotation, random_images, raster, say

CAT = annotation("cat", box=[0.0, 0.0, 10.0, 10.0])
SURE = annotation("cat", 0.9, box=[0.0, 0.0, 10.0, 10.0])
STRAY = annotation("cat", 0.95, box=[50.0, 50.0, 60.0, 60.0])
METRICS = ("map", "map_averaged_over_ious", "ap", "ap_averaged_over_ious", "ar", "mar")


def detection(images: list[Image], **parameters) -> dict[str, float]:
    return say(images, **parameters).metrics()


def test_everything_found_is_one_and_nothing_found_is_zero():
    assert set(detection([([CAT], [SURE])]).values()) == {1.0}
    assert set(detection([([CAT], [])]).values()) == {0.0}


def test_without_ground_truth_there_is_no_value():
    said = say([([], [STRAY]), ([], [])])
    assert all(np.isnan(value) for value in said.metrics().values())
    assert all(isinstance(value, NotApplicable) for score in said.scores for value in score.values.values())


def test_a_stray_prediction_on_an_image_without_objects_lowers_precision():
    assert detection([([CAT], [SURE]), ([], [STRAY])])["map"] == 0.5
    assert detection([([CAT], [SURE]), ([], [])])["map"] == 1.0


def test_a_label_that_is_only_predicted_enters_no_mean_but_is_counted():
    dog = annotation("dog", 0.99, box=[0.0, 0.0, 10.0, 10.0])
    said = say([([CAT], [SURE, dog])])
    assert said.metrics()["map"] == 1.0
    assert said.record("AR", value="dog") == -1.0
    assert said.record("PrecisionRecallCurve")["dog"]["0.05"]["fp"] == 1


def test_weighted_and_unweighted_means_differ_where_labels_are_not_equally_common():
    dogs = [annotation("dog", box=[20.0 * n, 0.0, 20.0 * n + 10, 10.0]) for n in range(3)]
    metrics = detection([([CAT, *dogs], [SURE])])
    assert metrics["map"] == metrics["mar"] == 0.5
    assert metrics["ap"] == metrics["ar"] == 0.25


def test_the_score_threshold_of_recall_leaves_precision_alone():
    metrics = detection([([CAT], [SURE])], recall_score_threshold=0.91)
    assert metrics["ar"] == 0.0
    assert metrics["map"] == 1.0


def test_labels_are_mapped_on_both_sides():
    tabby = annotation("tabby", box=[0.0, 0.0, 10.0, 10.0], key="breed")
    mapped = {"breed:tabby": "cat", "tom": "cat"}
    tom = annotation("tom", 0.8, box=[0.0, 0.0, 10.0, 10.0])
    assert detection([([tabby], [tom])], label_map=mapped)["map"] == 1.0
    assert detection([([tabby], [tom])])["map"] == 0.0


def test_labels_may_be_swapped_by_a_map():
    dog = annotation("dog", 0.9, box=[0.0, 0.0, 10.0, 10.0])
    swapped = say(
        [([CAT, dog | {"labels": [{"key": "class", "value": "dog"}]}], [SURE])], label_map={"cat": "dog", "dog": "cat"}
    )
    assert {one["value"] for one in swapped.details["labels"]} == {"", "cat", "dog"}
    assert swapped.record("AP", value="dog", iou=0.5) == 1.0
    assert swapped.record("AP", value="cat", iou=0.5) == 0.0


def test_a_map_that_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="label_map: expected an object such as"):
        say([], label_map=["cat"])


def test_thresholds_that_are_not_computed_cannot_be_returned():
    with pytest.raises(UsageError, match=r"0\.75, which is not among iou_thresholds_to_compute"):
        say([], iou_thresholds_to_compute=[0.5], iou_thresholds_to_return=[0.75])
    with pytest.raises(UsageError, match="iou_thresholds_to_compute"):
        say([], iou_thresholds_to_compute=[0.0])


def test_label_keys_are_averaged_apart():
    pairs = [annotation("red", box=CAT["box"], key="color"), CAT]
    said = say([(pairs, [SURE])])
    assert said.record("mAP", label_key="class", iou=0.5) == 1.0
    assert said.record("mAP", label_key="color", iou=0.5) == 0.0
    assert said.metrics()["map"] == 0.5


def test_a_prediction_without_a_score_is_certain():
    blind = annotation("cat", box=CAT["box"])
    assert detection([([CAT], [blind, STRAY])])["map"] == 1.0


def test_equal_scores_are_one_point_of_the_curve_with_coco_and_hits_come_first_with_valor():
    tied = [annotation("cat", 0.9, box=STRAY["box"]), SURE]
    assert detection([([CAT], tied)], method="valor")["map"] == 1.0
    assert detection([([CAT], tied)], method="coco")["map"] == 0.5


def test_a_prediction_of_score_zero_counts_for_coco_only():
    never = annotation("cat", 0.0, box=CAT["box"])
    assert detection([([CAT], [never])], method="valor")["map"] == 0.0
    assert detection([([CAT], [never])], method="coco")["map"] == 1.0


def test_crowds_are_neither_right_nor_wrong_with_coco_and_absent_with_valor():
    crowd = annotation("cat", box=[40.0, 40.0, 80.0, 80.0], is_crowd=True, is_instance=False)
    images = [([CAT, crowd], [SURE, STRAY, STRAY])]
    assert detection(images, method="coco")["map"] == 1.0
    assert detection(images, method="valor")["map"] == pytest.approx(1 / 3)


def test_regions_of_a_segmentation_and_labels_of_the_whole_image_are_no_objects():
    region = annotation("cat", raster=raster(np.ones((4, 4), dtype=bool)), is_instance=False)
    whole = annotation("cat")
    assert detection([([CAT, region, whole], [SURE])])["map"] == 1.0


def test_geometries_of_different_detail_are_compared_as_the_least_detailed():
    mask = np.zeros((20, 20), dtype=bool)
    mask[:10, :10] = True
    polygon = annotation("cat", 0.9, polygon=[[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
    triangle = annotation("cat", 0.9, polygon=[[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    masked = annotation("cat", raster=raster(mask))
    assert detection([([masked], [polygon])])["map_averaged_over_ious"] == 1.0
    assert detection([([masked], [triangle])])["map_averaged_over_ious"] == 0.1  # IoU 0.5
    assert detection([([masked], [triangle])], convert_annotations_to_type="box")["map_averaged_over_ious"] == 1.0


def test_masks_without_a_pixel_overlap_nothing():
    empty = annotation("cat", 0.9, raster=raster(np.zeros((4, 4), dtype=bool)))
    true = annotation("cat", raster=raster(np.zeros((4, 4), dtype=bool)))
    assert detection([([true], [empty])])["map"] == 0.0


def test_one_image_that_makes_no_sense_costs_no_other_its_value():
    wide = annotation("cat", raster=raster(np.ones((4, 9), dtype=bool)))
    high = annotation("cat", 0.5, raster=raster(np.ones((9, 4), dtype=bool)))
    broken = annotation("cat", raster={"size": [4, 9], "counts": [3]})
    images = [([CAT], [SURE]), ([wide], [high]), ([broken], [])]
    good, *bad = say(images).scores
    assert good.values["map"] == 1.0
    for score, message in zip(bad, ("differ in size: 4 x 9 and 9 x 4", "fill 3 of the 36 pixels"), strict=True):
        [value] = set(score.values.values())
        assert isinstance(value, Unscored)
        assert message in value.message
        assert score.complete
        assert score.payload is None


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from(["valor", "coco"]), st.randoms(use_true_random=False))
def test_neither_the_order_of_images_nor_of_annotations_matters(seed, method, random):
    images = random_images(seed, images=6, predictions=8)
    shuffled = [(random.sample(e, len(e)), random.sample(p, len(p))) for e, p in random.sample(images, len(images))]
    assert detection(images, method=method) == pytest.approx(detection(shuffled, method=method), nan_ok=True)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from(["valor", "coco"]))
def test_a_weight_is_as_good_as_repeated_images(seed, method):
    draw = np.random.default_rng(seed)
    images = random_images(seed, images=6, predictions=8, crowds=0.2)
    weights = draw.integers(0, 3, len(images))
    repeated = [image for image, number in zip(images, weights, strict=True) for _ in range(number)]
    weighted = say(images, method=method).metrics(weights.astype(float))
    # Repeated images tie in every score, so that only methods that treat ties alike can be compared exactly.
    if method == "coco":
        assert weighted == pytest.approx(detection(repeated, method=method), nan_ok=True)
    else:
        assert weighted["ar"] == pytest.approx(detection(repeated, method=method)["ar"], nan_ok=True)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000))
def test_a_rows_values_are_those_of_a_dataset_of_that_row(seed):
    images = random_images(seed, images=4)
    said = say(images)
    for image, score in zip(images, said.scores, strict=True):
        alone = detection([image])
        for metric in METRICS:
            value = score.values[metric]
            if isinstance(value, NotApplicable):
                assert np.isnan(alone[metric])
            else:
                assert value == pytest.approx(alone[metric], abs=1e-11)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000))
def test_curves_and_confusion_add_up(seed):
    images = random_images(seed, images=8)
    said = say(images, confusion_score_threshold=0.3)
    truths = sum(len(expected) for expected, _ in images)
    confident = sum(one["labels"][0]["score"] >= 0.3 for _, found in images for one in found)
    for matrix in said.details["confusion"]:
        counts = np.array(matrix["counts"])
        assert matrix["expected"][-1] == "(nothing)"
        assert counts[:-1].sum() == truths
        assert counts[:, :-1].sum() == confident
    for curve in said.record("PrecisionRecallCurve").values() if truths else ():
        for point in curve.values():
            assert point["tp"] + point["fn"] == curve["0.05"]["tp"] + curve["0.05"]["fn"]
    for chart in said.details["curves"]:
        for series in chart["series"]:
            assert len(series["x"]) == len(series["y"])
            assert all(0 <= value <= 1 for value in series["y"])


def test_the_precision_recall_chart_is_the_curve_that_average_precision_is_the_mean_of():
    said = say(random_images(3))
    chart = said.details["curves"][0]
    assert (chart["x_label"], chart["y_label"]) == ("recall", "precision")
    for series in chart["series"]:
        assert np.mean(series["y"]) == pytest.approx(said.record("AP", value=series["label"], iou=0.5))


def test_examples_name_the_annotations_that_went_wrong():
    far = annotation("dog", box=[80.0, 80.0, 90.0, 90.0])
    dog = annotation("dog", 0.8, box=CAT["box"])
    said = say([([CAT], [SURE]), ([CAT, far], [dog, STRAY])])
    found = {(one["kind"], one["value"], one["case"]): one for one in said.details["examples"]}
    assert set(found) == {
        ("misclassification", "cat", "1"),
        ("hallucination", "cat", "1"),
        ("no_prediction", "dog", "1"),
    }
    mistaken = found["misclassification", "cat", "1"]
    assert (mistaken["expected"], mistaken["predicted"], mistaken["score"]) == ([0], [0], 0.8)
    assert found["hallucination", "cat", "1"]["predicted"] == [1]
    assert found["no_prediction", "dog", "1"]["expected"] == [1]


def test_no_examples_where_none_are_wanted():
    said = say(random_images(1), pr_curve_max_examples=0)
    assert said.details["examples"] == []
    curve = said.record("DetailedPrecisionRecallCurve")
    assert not [one for points in curve.values() for one in points["0.05"]["tp"]["observations"]["all"]["examples"]]


def test_many_labels_are_cut_to_size_in_the_details():
    truth = [annotation(f"label {n:03}", box=[0.0, 0.0, 10.0, 10.0]) for n in range(300)]
    said = say([(truth, [])])
    assert len(said.details["curves"][0]["series"]) == 200
    assert said.details["notes"]
    matrix = said.details["confusion"][0]
    assert len(matrix["expected"]) == 50
    assert matrix["expected"][-2:] == ["(other labels)", "(nothing)"]
    assert np.array(matrix["counts"]).sum() == 300


def test_a_payload_is_short():
    [score] = say(random_images(0, images=1, objects=10, predictions=100)).scores
    assert len(str(score.payload)) < 60 * 110
