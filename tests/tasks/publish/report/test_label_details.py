"""Charts and drawings of a report: right places, bounded sizes, nothing that breaks a page."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leadline.evaluators.data import encode_counts
from leadline.tasks.publish.report.sections.label_details import HEIGHT, MOST_LINES, WIDTH, canvas, plot

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def labelled(**geometry):
    return {"labels": [{"key": "class", "value": "cat", "score": 0.5}], **geometry}


def mask(pixels):
    values = np.asarray(pixels).flatten(order="F")
    runs = np.diff(np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(values)])))
    return {"size": list(np.shape(pixels)), "counts": encode_counts([0, *runs] if values[0] else runs)}


def test_a_curve_is_drawn_inside_its_axes_whatever_it_holds():
    series = [{"label": str(n), "x": [0, 0.5, 7, math.nan], "y": [1, 0.5, -3, 0]} for n in range(20)]
    drawn = plot({"name": "n", "x_label": "x", "y_label": "y", "series": series})
    assert (len(drawn.lines), drawn.more) == (MOST_LINES, 20 - MOST_LINES)
    for line in drawn.lines:
        assert len(line.points) == 3
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in line.points)
        assert "nan" not in line.path


def test_long_curves_have_no_marks():
    points = [n / 100 for n in range(101)]
    (line,) = plot({"series": [{"label": "a", "x": points, "y": points}]}).lines
    assert not line.points
    assert line.path.count("L") == 100


def test_shapes_are_scaled_to_the_canvas():
    example = {
        "kind": "hallucination", "case": "c", "value": "cat", "score": 0.5, "size": (600, 400),
        "expected": [labelled(box=[0, 0, 600, 400])],
        "predicted": [labelled(polygon=[[[0, 0], [300, 0], [300, 200]], [[10, 10], [20, 10], [20, 20]]])],
    }  # fmt: skip
    drawn = canvas(example)
    assert (drawn.width, drawn.height, drawn.kind) == (300, 200, "Nothing there")
    assert drawn.expected[0].path == "M0.0 0.0L300.0 0.0L300.0 200.0L0.0 200.0Z"
    assert drawn.predicted[0].path.count("Z") == 2
    assert drawn.predicted[0].label == "cat 0.50"


def test_an_item_of_unknown_size_is_as_large_as_what_is_in_it():
    drawn = canvas({"expected": [labelled(box=[[0, 50], [50, 0], [100, 50], [50, 100]])], "predicted": []})
    assert drawn.width == drawn.height == 300


def test_labels_without_a_geometry_are_said_and_not_drawn():
    drawn = canvas({"kind": "no_predictions", "expected": [labelled()], "predicted": [], "size": (10, 10)})
    assert (drawn.width, drawn.labels_expected, drawn.labels_predicted) == (0, ["cat 0.50"], [])


def test_a_mask_is_drawn_as_its_pixels():
    (shape,) = canvas({"expected": [labelled(raster=mask([[0, 1, 1], [0, 0, 0]]))], "predicted": []}).expected
    assert shape.path == "M100.0 0.0h200.0v100.00h-200.0z"
    assert (shape.x, shape.y) == (100, 0)


@given(arrays(np.uint8, st.tuples(st.integers(1, 300), st.integers(1, 300)), elements=st.integers(0, 1)))
@settings(max_examples=20, deadline=None)
def test_masks_stay_inside_the_canvas_and_small(pixels):
    drawn = canvas({"expected": [labelled(raster=mask(pixels))], "predicted": []})
    (shape,) = drawn.expected
    assert len(shape.path) < 300_000
    for part in shape.path.split("z")[:-1]:
        x, y, across, down, _ = map(float, NUMBER.findall(part))
        assert -0.1 <= x <= x + across <= drawn.width + 0.2
        assert -0.1 <= y <= y + down <= drawn.height + 0.2


@pytest.mark.parametrize("size", [(300, 2), (2, 300), (200, 1), (1, 200), (101, 3)])
def test_thin_masks_fill_their_canvas_and_no_more(size):
    drawn = canvas({"expected": [labelled(raster=mask(np.ones(size, np.uint8)))], "predicted": []})
    parts = [list(map(float, NUMBER.findall(part))) for part in drawn.expected[0].path.split("z")[:-1]]
    assert max(x + across for x, _, across, _, _ in parts) == pytest.approx(drawn.width, abs=0.2)
    assert max(y + down for _, y, _, down, _ in parts) == pytest.approx(drawn.height, abs=0.2)


@pytest.mark.parametrize("size", [20_000, 200])
def test_huge_masks_and_outlines_cost_little(size):
    raster = {"size": [size, size], "counts": encode_counts([0, size * size])}
    ring = [[math.cos(n / 1e4 * 6.28) * size, math.sin(n / 1e4 * 6.28) * size] for n in range(10_000)]
    drawn = canvas({"expected": [labelled(raster=raster)] * 100, "predicted": [labelled(polygon=ring)]})
    assert len(drawn.expected) == 40
    assert sum(len(shape.path) for shape in (*drawn.expected, *drawn.predicted)) < 300_000
