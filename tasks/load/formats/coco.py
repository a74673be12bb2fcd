"""COCO: ground truth of images and the detections of each model, in files of their own.

Annotations are staged as they come and put together by image in the staging database, so that memory stays bounded
whatever the order of the files is. A category's name is the label, under the key ``class``.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, ClassVar, Final

import orjson

from leadline.evaluators.data import DEFAULT_KEY
from leadline.tasks.db import sql
from leadline.tasks.load.annotations import box, polygon, raster
from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import DatasetFormat
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.limits import MAX_TEXT
from leadline.tasks.load.readers import Item
from leadline.tasks.load.readers.json_records import read_document
from leadline.tasks.load.source import GROUND_TRUTH, PREDICTIONS, SourceFile
from leadline.tasks.load.values import ValueFault, canonical, expected, key, shown

_SECTIONS: Final = frozenset({"images", "annotations", "categories"})
_TRUTH: Final = -1
"""Number of the ground truth among the files; models count from 0."""
_BATCH: Final = 20_000
_FETCHED: Final = 100
_KEPT: Final = ("file_name", "width", "height")
"""Members of an image that become metadata of its case."""


@register
class Coco(DatasetFormat):
    """Reads a manifest and the files that it names.

    ``geometry`` of the manifest chooses between ``box`` and ``segmentation``; by default segmentations are read where
    the results have them. Every image is a case, and every model has a row for it: a model without results for an image
    found nothing there.
    """

    name = "coco"
    title = "COCO"
    recognised_by = "a folder of [COCO](annotations.md#coco) files, or a manifest with `ground_truth` and `predictions`"
    answer_column = PREDICTIONS
    columns: ClassVar[Columns] = {}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that this is a manifest."""
        return 0.8 if {GROUND_TRUTH, PREDICTIONS} <= names else 0

    @classmethod
    def advice(cls, names: Set[str]) -> str:
        """Return how to load COCO files of which only one was named."""
        if not ({"images", "annotations"} <= names or {"image_id", "category_id"} <= names):
            return ""
        return (
            "this is one file of COCO; put the ground truth and each model's results into a folder and name that, or "
            'name them in a manifest {"ground_truth": "instances.json", "predictions": {"model": "results.json"}}'
        )

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Read all files and stage a case for every image and a row for every image and model."""
        source = self.source
        if not source.parts:
            self.faults.stop(None, "", "this is no manifest of COCO files: it needs ground_truth and predictions")
        self.dataset_name = str(record.get("name") or "")
        (_, truth), *results = source.parts
        segmented = self._segmented(record.get("geometry"), [file for _, file in results])
        self.batches.connection.execute(sql("load/coco"))
        self._lines: dict[str, list[tuple[Any, ...]]] = {"coco_images": [], "coco_categories": [], "coco_found": []}
        self._waiting = 0
        self._read_truth(truth, segmented=segmented)
        for number, (model, file) in enumerate(results):
            self._read_results(number, file, segmented=segmented)
            self._check(number, file.name)
            self.models.describe(Place(1), model, None, None, listed=True)
        self._flush()
        self._check(_TRUTH, truth.name)
        self.faults.file = source.name
        if not self.faults:
            self._emit([model for model, _ in results])

    def _segmented(self, asked: Any, results: list[SourceFile]) -> bool:
        if asked not in (None, "auto", "box", "segmentation"):
            self.faults.stop(None, "geometry", f"{shown(asked)} is none of auto, box, segmentation")
        if asked in ("box", "segmentation"):
            return bool(asked == "segmentation")
        for file in results:
            for item in read_document(file, self.faults):
                return isinstance(item.value, dict) and item.value.get("segmentation") is not None
        return False

    def _read_truth(self, file: SourceFile, *, segmented: bool) -> None:
        self.faults.file = file.name
        seen: set[str] = set()
        for item in read_document(file, self.faults, sections=_SECTIONS):
            seen.add(item.section)
            try:
                if not isinstance(item.value, dict):
                    raise expected("an object", item.value)
                if item.section == "images":
                    self._image(item)
                elif item.section == "categories":
                    self._add("coco_categories", item.row, _id(item.value, "id"), _category(item.value))
                else:
                    crowd = ',"is_instance":false,"is_crowd":true' if item.value.get("iscrowd") else ""
                    found = _geometry(item.value, segmented=segmented) + crowd
                    self._found(_TRUTH, item, found, "")
            except ValueFault as error:
                self.faults.add(item.place, "", str(error))
        for section in sorted(_SECTIONS - seen):
            if section != "annotations":
                self.faults.add(None, section, "COCO's ground truth needs this list, and it is missing or empty")

    def _image(self, item: Item) -> None:
        image = _id(item.value, "id")
        metadata = {name: item.value[name] for name in _KEPT if item.value.get(name) is not None}
        self._add("coco_images", item.row, image, canonical(metadata))

    def _read_results(self, number: int, file: SourceFile, *, segmented: bool) -> None:
        self.faults.file = file.name
        for item in read_document(file, self.faults):
            try:
                if not isinstance(item.value, dict):
                    raise expected("an object", item.value)
                score = item.value.get("score")
                if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
                    raise ValueFault(f"score: expected a number between 0 and 1, found {shown(score)}")
                found = _geometry(item.value, segmented=segmented)
                scored = ',"score":' + orjson.dumps(float(score)).decode()
                self._found(number, item, found, scored)
            except ValueFault as error:
                self.faults.add(item.place, "", str(error))
        self._flush()

    def _found(self, file: int, item: Item, geometry: str, score: str) -> None:
        image, category = _id(item.value, "image_id"), _id(item.value, "category_id")
        self._add("coco_found", file, item.row, image, category, score, geometry)

    def _add(self, table: str, *line: Any) -> None:
        """Stage a line of a table, which is written with others."""
        self._lines[table].append(line)
        self._waiting += 1
        if self._waiting >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        connection = self.batches.connection
        for table, lines in self._lines.items():
            if lines:
                columns = [pa.array(column) for column in zip(*lines, strict=True)]
                connection.register("batch", pa.table(columns, names=[str(n) for n in range(len(columns))]))
                connection.execute(f"INSERT INTO {table} SELECT * FROM batch")
                connection.unregister("batch")
                lines.clear()
        self._waiting = 0

    def _check(self, number: int, name: str) -> None:
        """Note references to missing images and categories, and duplicates."""
        self.faults.file = name
        if self.faults.unreadable:
            return
        for row, part, message in self.batches.connection.execute(
            f"{sql('load/coco_faults')} LIMIT {max(0, self.faults.room)}", {"file": number}
        ).fetchall():
            self.faults.add(Place(row, part), "", message)

    def _emit(self, models: list[str]) -> None:
        """Stage the cases and rows, image by image in the order of the ground truth."""
        cursor = self.batches.connection.cursor().execute(sql("load/coco_rows"), {"models": len(models)})
        nothing = (None, None, None, None)
        case = ("", False, 0)
        while lines := cursor.fetchmany(_FETCHED):
            for row, image, metadata, number, found in lines:
                place = Place(row, "images[].")
                if len(found) > MAX_TEXT:
                    self.faults.add(place, "", f"image {shown(image)} has more annotations than can be read")
                elif number == _TRUTH:
                    fields = (None, None, None, None, None, found, metadata)
                    case = (image, False, self.batches.case(place, image, derived=False, bare=False, fields=fields))
                elif not self.cases_only:
                    model = self.models.of_answer(models[number], place)
                    self.batches.answer(place, case, model, None, [], None, nothing, "{}", found)
                self.batches.end_of_record(len(found))


def _id(record: dict[str, Any], name: str) -> str:
    found = record.get(name)
    value = None if found is None else key(found)
    if value is None:
        raise ValueFault(f"{name} is missing")
    return value


def _category(record: dict[str, Any]) -> str:
    """Return the beginning of a label of this category, as JSON."""
    name = record.get("name")
    if not isinstance(name, str) or not name:
        raise ValueFault(f"name: {expected('a text', name)}")
    return orjson.dumps({"key": DEFAULT_KEY, "value": name}).decode()[:-1]


def _geometry(record: dict[str, Any], *, segmented: bool) -> str:
    """Return the geometry of a record as a member of an annotation's JSON."""
    try:
        if not segmented:
            return ',"box":' + orjson.dumps(_box(record.get("bbox"))).decode()
        found = record.get("segmentation")
        if isinstance(found, dict):
            return ',"raster":' + orjson.dumps(raster(found)).decode()
        return ',"polygon":' + orjson.dumps(_polygon(found)).decode()
    except ValueFault as error:
        raise ValueFault(f"{'segmentation' if segmented else 'bbox'}: {error}") from None


def _box(value: Any) -> list[Any]:
    """Return COCO's [x, y, width, height] as [x_min, y_min, x_max, y_max]."""
    if type(value) is not list or len(value) != 4 or any(type(one) not in (int, float) for one in value):
        raise ValueFault("expected [x, y, width, height]")
    x, y, width, height = value
    if not math.isfinite(width) or not math.isfinite(height) or width < 0 or height < 0:
        raise ValueFault(f"width and height must be positive numbers, and are {width} and {height}")
    return box([x, y, x + width, y + height])


def _polygon(value: Any) -> list[Any]:
    """Return COCO's list of flat rings, each of them one part of the object."""
    if type(value) is not list or not value:
        raise ValueFault("expected a list of polygons, or a mask with size and counts")
    rings = []
    for flat in value:
        if type(flat) is not list or len(flat) % 2:
            raise ValueFault("a polygon is a list of x and y in turn")
        rings.append([list(point) for point in zip(flat[::2], flat[1::2], strict=True)])
    return polygon(rings[0] if len(rings) == 1 else [[ring] for ring in rings])
