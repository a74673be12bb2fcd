"""Intersections, unions and conversions of geometries against masks that are counted pixel by pixel."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leadline.evaluators.data import decode_counts
from leadline.evaluators.ground import UsageError
from leadline.evaluators.vision.engine import geometry
from leadline.evaluators.vision.engine.objects import Labels, collect, common_detail, convert, overlapping
from tests.support.datasets.detections import annotation, raster

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@st.composite
def masks(draw, number: int) -> list[np.ndarray]:
    size = draw(SIZES)
    return [draw(arrays(np.bool_, size)) for _ in range(number)]


def runs(mask: np.ndarray) -> geometry.Runs:
    return geometry.runs_of([raster(mask)])[0]


@given(masks(4))
def test_shared_pixels_are_those_of_the_decoded_masks(found):
    *many, one = found
    shared = geometry.shared_pixels([runs(mask) for mask in many], runs(one))
    assert shared.tolist() == [int((mask & one).sum()) for mask in many]


@given(masks(3))
def test_a_union_is_that_of_the_decoded_masks(found):
    together = geometry.united_masks([runs(mask) for mask in found])
    expected = runs(np.logical_or.reduce(found))
    assert (together.starts.tolist(), together.ends.tolist()) == (expected.starts.tolist(), expected.ends.tolist())
    assert together.area == int(np.logical_or.reduce(found).sum())


@given(masks(1))
def test_the_box_around_a_mask_is_that_of_its_pixels(found):
    [mask] = found
    rows, columns = np.nonzero(mask)
    expected = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) if len(rows) else (0, 0, 0, 0)
    assert runs(mask).box == expected


@settings(deadline=None, max_examples=40)
@given(masks(2))
def test_outlines_of_masks_have_the_areas_of_their_pixels(found):
    one, other = (geometry.outline(runs(mask)) for mask in found)
    assert geometry.areas([one, other]) == pytest.approx([mask.sum() for mask in found])
    assert geometry.shared_areas([one], [other]) == pytest.approx([(found[0] & found[1]).sum()])


def whole_rectangles() -> st.SearchStrategy[list[float]]:
    """Boxes on the grid of pixels, so that counting pixels is exact."""
    corner = st.tuples(st.integers(0, 15), st.integers(0, 15))
    sides = st.tuples(st.integers(1, 15), st.integers(1, 15))
    return st.builds(lambda c, s: [float(c[0]), float(c[1]), float(c[0] + s[0]), float(c[1] + s[1])], corner, sides)


def filled(box: list[float]) -> np.ndarray:
    mask = np.zeros((32, 32), dtype=bool)
    left, top, right, bottom = map(int, box)
    mask[top:bottom, left:right] = True
    return mask


@settings(deadline=None, max_examples=60)
@given(whole_rectangles(), whole_rectangles())
def test_boxes_polygons_and_masks_of_one_shape_have_one_iou(one, other):
    expected = (filled(one) & filled(other)).sum() / (filled(one) | filled(other)).sum()
    forms = {
        "box": lambda box: {"box": box},
        "polygon": lambda box: {"polygon": [[box[0], box[1]], [box[2], box[1]], [box[2], box[3]], [box[0], box[3]]]},
        "raster": lambda box: {"raster": raster(filled(box))},
    }
    for detail, form in forms.items():
        labels = Labels()
        truth, found = (
            collect([([(0, annotation("cat", **form(box)))], detail)], labels)  # type: ignore[list-item]
            for box in (one, other)
        )
        pairs = overlapping(found, truth, labels.keys(), 1e-9)
        assert pairs.iou.tolist() == pytest.approx([expected] if expected else [], abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 30)), min_size=3, max_size=8))
def test_any_outline_has_an_area_no_greater_than_its_box(points):
    shape = geometry.polygon([[points]])
    left, top, right, bottom = geometry.bounds(shape)
    assert 0 <= geometry.areas([shape])[0] <= (right - left) * (bottom - top) + 1e-9
    assert shape.is_valid


def test_an_outline_that_crosses_itself_encloses_its_loops():
    bow_tie = [[0.0, 0.0], [10.0, 10.0], [10.0, 0.0], [0.0, 10.0]]
    assert geometry.areas([geometry.polygon([[bow_tie]])])[0] == pytest.approx(50.0)


def test_holes_and_parts_count():
    outer = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]
    hole = [[2.0, 2.0], [4.0, 2.0], [4.0, 4.0], [2.0, 4.0]]
    far = [[20.0, 0.0], [21.0, 0.0], [21.0, 1.0], [20.0, 1.0]]
    assert geometry.areas([geometry.polygon([[outer, hole], [far]])])[0] == pytest.approx(97.0)


def test_a_rotated_box_has_its_own_area_and_a_straight_one_is_a_box():
    _, rotated = convert(annotation("cat", box=[[5.0, 0.0], [10.0, 5.0], [5.0, 10.0], [0.0, 5.0]]), "box")
    assert geometry.areas([rotated])[0] == pytest.approx(50.0)
    assert convert(annotation("cat", box=[[0.0, 0.0], [4.0, 0.0], [4.0, 2.0], [0.0, 2.0]]), "box") == (
        (0.0, 0.0, 4.0, 2.0),
        None,
    )


def test_the_least_detailed_type_wins():
    mask = annotation("cat", raster=raster(np.ones((4, 4), dtype=bool)))
    polygon = annotation("cat", polygon=[[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]])
    box = annotation("cat", box=[0.0, 0.0, 4.0, 4.0])
    assert common_detail([mask, mask], None) == "raster"
    assert common_detail([mask, polygon], None) == "polygon"
    assert common_detail([mask, polygon, box], None) == "box"
    assert common_detail([mask, polygon], "box") == "box"
    with pytest.raises(ValueError, match="a box cannot be converted to a raster"):
        common_detail([mask, box], "raster")


def test_masks_of_one_image_have_one_size():
    sizes = [annotation("cat", raster=raster(np.ones(size, dtype=bool))) for size in ((4, 4), (4, 5))]
    with pytest.raises(ValueError, match="4 x 4 and 4 x 5"):
        common_detail(sizes, None)


@given(masks(4))
def test_masks_decoded_together_are_those_decoded_alone(found):
    written = [raster(mask) for mask in found]
    written[1] = written[1] | {"counts": decode_counts(written[1]["counts"]).tolist()}
    together = geometry.runs_of(written)
    for mask, alone in zip(together, (geometry.runs_of([one])[0] for one in written), strict=True):
        assert (mask.size, mask.starts.tolist(), mask.ends.tolist()) == (
            alone.size,
            alone.starts.tolist(),
            alone.ends.tolist(),
        )


def test_only_polygons_and_rotated_boxes_need_shapely(monkeypatch):
    monkeypatch.setitem(sys.modules, "shapely", None)
    assert convert(annotation("cat", box=[0.0, 0.0, 1.0, 1.0]), "box") == ([0.0, 0.0, 1.0, 1.0], None)
    assert convert(annotation("cat", raster=raster(np.ones((2, 2), dtype=bool))), "raster")[0] == (0, 0, 2, 2)
    with pytest.raises(UsageError, match=r"pip install -c constraints.txt -e '\.\[vision\]'"):
        convert(annotation("cat", polygon=[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), "polygon")
