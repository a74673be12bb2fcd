"""Datasets of several files: COCO's ground truth and one file of results for each model.

Either a manifest names them, or they stand in one folder: the JSON object with ``images`` and ``annotations`` is the
ground truth, every JSON list is the results of a model called after the file.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Final

from leadline.evaluators.ground.errors import DatasetError, Fault
from leadline.tasks.load.limits import MAX_KEY, MAX_MODELS
from leadline.tasks.load.source import SourceFile, located

GROUND_TRUTH: Final = "ground_truth"
PREDICTIONS: Final = "predictions"
_MEMBERS: Final = frozenset({GROUND_TRUTH, PREDICTIONS, "format", "geometry", "name"})
_LONGEST: Final = 1024 * 1024
"""Bytes of a manifest."""


def source_at(path: str | os.PathLike[str]) -> SourceFile:
    """Look at what a user named as a dataset: a file, a manifest with the files that it names, or a folder.

    Raises:
        DatasetError: Something of it is missing, unreadable or of no use.
    """
    place = located(path)
    if os.path.isdir(place):  # noqa: PTH112 - a name that no file can have is no folder
        return _folder(os.fspath(path), place)
    source = SourceFile.at(path)
    manifest = _manifest(source)
    return source if manifest is None else _with_parts(source, manifest)


def _manifest(source: SourceFile) -> dict[str, Any] | None:
    if source.size > _LONGEST or not source.head.lstrip().startswith(b"{"):
        return None
    try:
        record = json.loads(source.head)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {GROUND_TRUTH, PREDICTIONS} <= set(record) else None


def _with_parts(source: SourceFile, manifest: dict[str, Any]) -> SourceFile:
    faults: list[Fault] = []
    truth, predictions = manifest[GROUND_TRUTH], manifest[PREDICTIONS]
    for name in sorted(set(manifest) - _MEMBERS):
        message = f"a manifest has no {name!r}; it may have {', '.join(sorted(_MEMBERS))}"
        faults.append(Fault(source.name, None, name, message))
    if not isinstance(predictions, dict) or not predictions or len(predictions) > MAX_MODELS:
        faults.append(Fault(source.name, None, PREDICTIONS, "expected an object: the file of results of each model"))
        predictions = {}
    parts = []
    named = [(GROUND_TRUTH, "", truth), *((f"{PREDICTIONS}.{key}", key, file) for key, file in predictions.items())]
    for column, key, file in named:
        message = _refusal(key, file, is_truth=column == GROUND_TRUTH)
        if message:
            faults.append(Fault(source.name, None, column, message))
            continue
        try:
            parts.append((key, SourceFile.at(os.path.join(os.path.dirname(source.name), file))))  # noqa: PTH118, PTH120 - as named
        except DatasetError as error:
            faults += error.faults
    if faults:
        raise DatasetError(faults)
    return replace(source, parts=tuple(parts))


def _refusal(key: str, file: object, *, is_truth: bool) -> str:
    """Return why a file of a manifest is not read, ``""`` if it is."""
    if not is_truth and (not key.strip() or len(key) > MAX_KEY):
        return "the model's key is blank or too long"
    if not isinstance(file, str) or not file.strip():
        return "expected the name of a file"
    pure = PurePath(os.path.normpath(file))
    if pure.is_absolute() or ".." in pure.parts:
        return f"{file!r} lies outside of the manifest's folder; put the manifest into a folder above both"
    return ""


def _folder(name: str, place: Path) -> SourceFile:
    """Take the manifest that stands in a folder, or make one of its files."""
    files = sorted(path for path in place.iterdir() if path.suffix.lower() == ".json" and path.is_file())
    found = {path.name: SourceFile.at(os.path.join(name, path.name)) for path in files}  # noqa: PTH118 - as named
    truths = [file for file, source in found.items() if source.head.lstrip().startswith(b"{")]
    results = [file for file, source in found.items() if source.head.lstrip().startswith(b"[")]
    manifests = [(found[file], manifest) for file in truths if (manifest := _manifest(found[file])) is not None]
    if len(manifests) == 1:
        return _with_parts(*manifests[0])
    if len(truths) != 1 or not results:
        message = (
            f"a folder is read as COCO: one JSON object with images and annotations, and a JSON list of results for "
            f"each model; here are {len(truths)} objects and {len(results)} lists. Any other dataset is one file"
        )
        raise DatasetError([Fault(name, None, "", message)])
    manifest = {GROUND_TRUTH: truths[0], PREDICTIONS: {Path(file).stem: file for file in results}}
    content = json.dumps(manifest, sort_keys=True).encode()
    parts = (("", found[truths[0]]), *((Path(file).stem, found[file]) for file in results))
    return SourceFile(place, name, len(content), 0, content, parts=parts, content=content)
