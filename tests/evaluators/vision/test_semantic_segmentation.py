"""Intersection over union of regions, summed over a dataset."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.data import NotApplicable, Unscored
from tests.support.datasets.detections import Image, Said, annotation, raster, say

LABELS = ("road", "sky", "tree")
NOTHING = "(nothing)"


def segmentation(images: list[Image], **parameters) -> Said:
    return say(images, "valor.semantic_segmentation", **parameters)


def pixels(size: tuple[int, int], *set_pixels: tuple[int, int]) -> dict:
    mask = np.zeros(size, dtype=bool)
    for pixel in set_pixels:
        mask[pixel] = True
    return raster(mask)


def rectangle(left: int, top: int, right: int, bottom: int, size: tuple[int, int] = (900, 300)) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def regions(classes: np.ndarray) -> list[dict]:
    """Return the regions of an image whose pixels have a class each, -1 for none."""
    return [
        annotation(label, raster=raster(classes == number), is_instance=False)
        for number, label in enumerate(LABELS)
        if (classes == number).any()
    ]


def test_four_pixels_of_valors_suite():
    truth = [annotation("v1", raster=pixels((2, 2), (0, 0), (1, 1))), annotation("v2", raster=pixels((2, 2), (1, 0)))]
    found = [annotation("v1", raster=pixels((2, 2), (0, 0))), annotation("v2", raster=pixels((2, 2), (0, 1), (1, 0)))]
    said = segmentation([(truth, found)])
    assert said.record("IOU", value="v1") == said.record("IOU", value="v2") == said.metrics()["miou"] == 0.5
    assert [said.record("Precision", value=value) for value in ("v1", "v2")] == [1.0, 0.5]
    assert [said.record("Recall", value=value) for value in ("v1", "v2")] == [0.5, 1.0]
    assert [said.record("F1", value=value) for value in ("v1", "v2")] == pytest.approx([2 / 3, 2 / 3])


def test_boxes_as_masks_of_valors_suite():
    first = (
        [annotation("v1", raster=raster(rectangle(0, 0, 100, 100)))],
        [annotation("v1", raster=raster(rectangle(50, 0, 150, 100)))],
    )
    second = (
        [annotation("v2", raster=raster(rectangle(150, 400, 300, 500)))],
        [annotation("v2", raster=raster(rectangle(101, 301, 151, 401)))],
    )
    said = segmentation([first, second])
    assert said.record("IOU", value="v1") == pytest.approx(1 / 3)
    assert said.record("IOU", value="v2") == pytest.approx(1 / 19999)
    assert said.record("mIOU", label_key="class") == pytest.approx(0.16669166791672915)
    assert said.metrics()["iou"] == pytest.approx((5000 + 1) / (15000 + 19999))


CLASSES = st.integers(0, 10_000)


@settings(deadline=None, max_examples=30)
@given(CLASSES)
def test_random_images_equal_pixel_counts(seed):
    draw = np.random.default_rng(seed)
    size = tuple(draw.integers(1, 20, 2))
    truth, found = (draw.integers(-1, len(LABELS), (5, *size)) for _ in range(2))
    said = segmentation([(regions(one), regions(other)) for one, other in zip(truth, found, strict=True)])
    ious = {}
    for number, label in enumerate(LABELS):
        true, predicted = truth == number, found == number
        if true.any():
            ious[label] = (true & predicted).sum() / (true | predicted).sum()
            assert said.record("IOU", value=label) == pytest.approx(ious[label], abs=1e-12)
    assert said.metrics()["miou"] == pytest.approx(np.mean(list(ious.values())) if ious else np.nan, nan_ok=True)
    for matrix in said.details["confusion"]:
        known = [*LABELS, NOTHING]
        for row, name in enumerate(matrix["expected"]):
            for column, other in enumerate(matrix["predicted"]):
                one, two = (known.index(each) % len(known) for each in (name, other))
                both = (truth == (one if one < 3 else -1)) & (found == (two if two < 3 else -1))
                assert matrix["counts"][row][column] == (0 if name == other == NOTHING else both.sum())


@settings(deadline=None, max_examples=15)
@given(CLASSES)
def test_weights_are_as_good_as_repeated_images(seed):
    draw = np.random.default_rng(seed)
    images = [tuple(regions(draw.integers(-1, 3, (4, 4))) for _ in range(2)) for _ in range(4)]
    weights = draw.integers(0, 3, len(images))
    repeated = [image for image, number in zip(images, weights, strict=True) for _ in range(number)]
    weighted = segmentation(images).metrics(weights.astype(float))
    assert weighted == pytest.approx(segmentation(repeated).metrics(), nan_ok=True)


def test_a_row_has_the_values_of_its_image_alone():
    half = rectangle(0, 0, 2, 4, (4, 4))
    whole = np.ones((4, 4), dtype=bool)
    said = segmentation([
        ([annotation("sky", raster=raster(whole))], [annotation("sky", raster=raster(half))]),
        ([], [annotation("sky", raster=raster(half))]),
    ])  # fmt: skip
    assert said.scores[0].values == {"iou": 0.5, "miou": 0.5}
    assert all(isinstance(value, NotApplicable) for value in said.scores[1].values.values())
    assert said.metrics() == {"iou": pytest.approx(8 / 24), "miou": pytest.approx(8 / 24)}


def test_a_label_that_is_only_predicted_enters_no_mean():
    whole, half = np.ones((4, 4), dtype=bool), rectangle(0, 0, 2, 4, (4, 4))
    said = segmentation([
        ([annotation("sky", raster=raster(whole))],
         [annotation("sky", raster=raster(whole)), annotation("tree", raster=raster(half))]),
    ])  # fmt: skip
    assert said.metrics() == {"iou": 1.0, "miou": 1.0}
    assert not [one for one in said.details["records"] if one.get("label", {}).get("value") == "tree"]


def test_a_label_that_is_never_predicted_is_zero():
    whole = np.ones((4, 4), dtype=bool)
    truth = [annotation("sky", raster=raster(whole)), annotation("tree", raster=raster(whole))]
    assert segmentation([(truth, truth[:1])]).metrics() == {"iou": 0.5, "miou": 0.5}


def test_several_annotations_of_a_label_are_one_region():
    left, right = rectangle(0, 0, 3, 4, (4, 4)), rectangle(1, 0, 4, 4, (4, 4))
    parts = [annotation("sky", raster=raster(mask)) for mask in (left, right)]
    assert segmentation([([annotation("sky", raster=raster(left | right))], parts)]).metrics()["iou"] == 1.0


def test_labels_are_mapped_and_keys_are_apart():
    mask = raster(np.ones((4, 4), dtype=bool))
    said = segmentation(
        [
            (
                [annotation("oak", raster=mask), annotation("wet", raster=mask, key="state")],
                [annotation("elm", raster=mask)],
            )
        ],
        label_map={"oak": "tree", "elm": "tree"},
    )
    assert said.record("mIOU", label_key="class") == 1.0
    assert said.record("mIOU", label_key="state") == 0.0
    assert said.metrics()["miou"] == 0.5


def test_polygons_are_compared_by_their_exact_areas_and_boxes_are_no_regions():
    triangle = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    whole = annotation("sky", raster=raster(np.ones((4, 4), dtype=bool)))
    boxed = annotation("sky", box=[0.0, 0.0, 4.0, 4.0])
    assert segmentation([([whole], [annotation("sky", polygon=triangle), boxed])]).metrics()["iou"] == 0.5
    assert np.isnan(segmentation([([boxed], [boxed])]).metrics()["iou"])


def test_masks_of_different_size_cannot_be_compared():
    one, other = (annotation("sky", raster=raster(np.ones(size, dtype=bool))) for size in ((4, 4), (2, 8)))
    [score] = segmentation([([one], [other])]).scores
    assert all(isinstance(value, Unscored) for value in score.values.values())
    assert score.payload is None


def test_examples_are_the_images_with_the_greatest_error():
    whole, half = np.ones((4, 4), dtype=bool), rectangle(0, 0, 2, 4, (4, 4))
    truth = [annotation("tree", raster=raster(half)), annotation("sky", raster=raster(whole))]
    images = [(truth, truth), (truth, [truth[0], annotation("sky", raster=raster(half))])]
    [example] = segmentation(images).details["examples"]
    assert (example["case"], example["value"], example["expected"], example["predicted"]) == ("1", "sky", [1], [1])
