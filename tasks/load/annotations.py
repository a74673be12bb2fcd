"""Reading of annotations: they are checked and brought into the form of :mod:`leadline.evaluators.data.annotations`.

An annotation is an object, or a text that is its label. Short forms: ``label`` (a value, or ``{"key", "value"}``) with
``score`` instead of ``labels``; a key that is left out is ``class``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import orjson

from leadline.evaluators.data import DEFAULT_KEY, GEOMETRIES, decode_counts, encode_counts
from leadline.tasks.load.limits import MAX_KEY, MAX_PIXELS
from leadline.tasks.load.values import ValueFault, expected, listed, shown

_MEMBERS: Final = ("labels", "label", "key", "score", *GEOMETRIES, "is_instance", "is_crowd")
_LABEL_MEMBERS: Final = frozenset({"key", "value", "score"})
_FARTHEST: Final = 1e9
"""No coordinate is larger: areas stay far from what a float can represent."""


def expected_annotations(value: Any) -> str:
    """Read the ground truth of a data item and return it as JSON."""
    return _annotations(value, scores=False)


def predicted_annotations(value: Any) -> str:
    """Read what a model found in a data item and return it as JSON."""
    return _annotations(value, scores=True)


def _annotations(value: Any, *, scores: bool) -> str:
    out = []
    for index, element in enumerate(listed(value)):
        if element is None:
            continue
        try:
            out.append(annotation(element, scores=scores))
        except ValueFault as error:
            raise ValueFault(f"annotation {index + 1}: {error}") from None
    return orjson.dumps(out).decode()


def annotation(value: Any, *, scores: bool) -> dict[str, Any]:
    """Read one annotation.

    Args:
        scores: Whether labels may have scores: those of predictions do, those of ground truth do not.
    """
    if type(value) is str:
        value = {"label": value}
    if type(value) is not dict:
        raise expected("an object", value)
    out: dict[str, Any] = {"labels": _labels(value, scores=scores)}
    for name, member in value.items():
        if member is None:
            continue
        reading = _GEOMETRY.get(name)
        if reading is not None:
            if len(out) > 1 and any(other in out for other in GEOMETRIES):
                raise ValueFault("an annotation has one geometry: a box, a polygon or a raster")
            try:
                out[name] = reading(member)
            except ValueFault as error:
                raise ValueFault(f"{name}: {error}") from None
        elif name not in _MEMBERS:
            raise ValueFault(f"there is no {shown(name)} in an annotation; it may have {', '.join(_MEMBERS)}")
    for name in ("is_instance", "is_crowd"):
        if value.get(name) is not None:
            out[name] = _flag(name, value[name])
    if out.get("is_crowd"):
        if scores:
            raise ValueFault("is_crowd belongs to ground truth")
        out["is_instance"] = False
    return out


def _labels(value: dict[str, Any], *, scores: bool) -> list[dict[str, Any]]:
    given = value.get("labels")
    if given is None:
        label = value.get("label")
        if label is None:
            raise ValueFault("the annotation has no label")
        label = dict(label) if type(label) is dict else {"value": label}
        given = [{name: value[name] for name in ("key", "score") if value.get(name) is not None} | label]
    elif value.get("label") is not None or value.get("score") is not None:
        raise ValueFault("label and score are the short form of labels; write one of them")
    if type(given) is not list:
        raise expected("a list of labels", given)
    if not given:
        raise ValueFault("the annotation has no label")
    found = [_label(label, scores=scores) for label in listed(given)]
    if len(found) > 1 and len({(label["key"], label["value"]) for label in found}) < len(found):
        raise ValueFault("the annotation has a label twice")
    return found


def _label(label: Any, *, scores: bool) -> dict[str, Any]:
    if type(label) is not dict:
        label = {"value": label}
    out: dict[str, Any] = {
        "key": _name("key", label.get("key", DEFAULT_KEY)),
        "value": _name("value", label.get("value")),
    }
    if not _LABEL_MEMBERS.issuperset(label):
        raise ValueFault("a label has key, value and score, nothing else")
    score = label.get("score")
    if score is not None:
        if not scores:
            raise ValueFault("ground truth has no score")
        if type(score) is not float and type(score) is not int:
            raise ValueFault(f"score: {expected('a number', score)}")
        if not 0 <= score <= 1:
            raise ValueFault(f"score: {score} is not between 0 and 1")
        out["score"] = float(score)
    return out


def _name(what: str, value: Any) -> str:
    if type(value) is bool or type(value) is int:
        value = str(value)
    if type(value) is not str:
        raise ValueFault(f"label: {expected(f'a {what} (text or whole number)', value)}")
    if not value or len(value) > MAX_KEY:
        raise ValueFault(f"label: the {what} is {'empty' if not value else f'longer than {MAX_KEY:,} characters'}")
    return value


def _flag(name: str, value: Any) -> bool:
    if type(value) is bool:
        return value
    raise ValueFault(f"{name}: {expected('true or false', value)}")


def box(value: Any) -> list[Any]:
    """Read ``[x_min, y_min, x_max, y_max]``, or the four corners of a rotated box in order."""
    if type(value) is not list or len(value) != 4:
        raise ValueFault("expected [x_min, y_min, x_max, y_max] or four points [x, y]")
    if type(value[0]) is list:
        return _ring(value)
    x_min, y_min, x_max, y_max = sides = _numbers(value)
    if x_min > x_max or y_min > y_max:
        raise ValueFault(f"the box {sides} ends before it begins; it is [x_min, y_min, x_max, y_max], not a width")
    return sides


def polygon(value: Any) -> list[Any]:
    """Read a ring, a ring with holes, or several of those."""
    depth, inner = 0, value
    while type(inner) is list and inner and depth < 4:
        depth, inner = depth + 1, inner[0]
    if depth == 2:
        return _ring(value)
    if depth == 3:
        return [_ring(ring) for ring in listed(value)]
    if depth == 4 and type(inner) is not list:
        return [[_ring(ring) for ring in _rings(part)] for part in listed(value)]
    raise ValueFault("expected points [[x, y], …], rings [[[x, y], …], …], or parts, each a list of rings")


def _rings(part: Any) -> list[Any]:
    if type(part) is not list or not part:
        raise expected("a list of rings", part)
    return listed(part)


def _ring(value: Any) -> list[list[float]]:
    if type(value) is not list:
        raise expected("a list of points", value)
    if len(value) < 3:
        raise ValueFault(f"a polygon has at least 3 points, not {len(value)}")
    points = []
    for point in listed(value):
        if type(point) is not list or len(point) != 2:
            raise ValueFault(f"expected a point [x, y], found {shown(point)}")
        points.append(_numbers(point))
    return points


def _numbers(values: Sequence[Any]) -> list[float]:
    for value in values:
        if type(value) is not float and type(value) is not int:
            raise expected("a number", value)
        if not -_FARTHEST <= value <= _FARTHEST:
            finite = math.isfinite(value)
            raise ValueFault(f"{value} is {'too large for a coordinate' if finite else 'not a finite number'}")
    return [float(value) for value in values]


def raster(value: Any) -> dict[str, Any]:
    """Read a mask whose counts fill it exactly; they become COCO's text."""
    if type(value) is not dict or not {"size", "counts"}.issuperset(value):
        raise ValueFault('expected {"size": [height, width], "counts": …}')
    size, counts = value.get("size"), value.get("counts")
    if type(size) is not list or len(size) != 2 or any(type(side) is not int or side < 1 for side in size):
        raise ValueFault(f"size is [height, width] in whole pixels, not {shown(size)}")
    if size[0] * size[1] > MAX_PIXELS:
        raise ValueFault(f"{size[0]} by {size[1]} are more than {MAX_PIXELS:,} pixels")
    if type(counts) is not str and type(counts) is not list:
        raise ValueFault("counts is a list of run lengths or COCO's text of them")
    if type(counts) is list and any(type(count) is not int for count in counts):
        raise ValueFault("counts: the run lengths are whole numbers")
    try:
        runs = decode_counts(counts)
    except (ValueError, OverflowError) as error:
        raise ValueFault(f"counts: {error}") from None
    if int(runs.sum()) != size[0] * size[1]:
        raise ValueFault(f"the counts fill {int(runs.sum()):,} pixels, but {size[0]} by {size[1]} has another number")
    return {"size": size, "counts": counts if type(counts) is str else encode_counts(runs)}


_GEOMETRY: Final = {"box": box, "polygon": polygon, "raster": raster}
