"""Recognises what a file is: its container by its first bytes, its format by the names of its fields."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core.errors import DatasetError, Fault
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.kinds import Container, DatasetFormat
from leadline.tasks.load.readers import read_items
from leadline.tasks.load.readers.json_document import TITLE, is_envelope
from leadline.tasks.load.readers.json_values import Broken, decode

if TYPE_CHECKING:
    from leadline.tasks.load.source import Source

_FOREIGN: Final = {
    b"\x1f\x8b": "gzip data; unpack the file first",
    b"\x28\xb5\x2f\xfd": "Zstandard data; unpack the file first",
    b"BZh": "bzip2 data; unpack the file first",
    b"PK\x03\x04": "a ZIP archive or an office document; export it as CSV",
    b"%PDF": "a PDF",
    b"\xff\xfe": "UTF-16 text; save the file as UTF-8",
    b"\xfe\xff": "UTF-16 text; save the file as UTF-8",
}
_PEEKED: Final = 20

_H2O: Final = frozenset({"model_key", "test_key", "test_case_key", "output_condition", "output_constraints", "corpus"})


def container_of(source: Source) -> Container:
    """Recognise the container.

    Raises:
        DatasetError: The file is something else altogether.
    """
    head = source.head.lstrip()
    if head.startswith(b"PAR1"):
        return Container.PARQUET
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise DatasetError([Fault(source.name, None, "", f"the file is {what}")])
    if head.startswith(b"["):
        return Container.JSON
    if head.startswith(b"{"):
        return Container.JSON if is_envelope(source) or not _is_lines(head) else Container.JSON_LINES
    if _is_binary(source.head):
        raise DatasetError([Fault(source.name, None, "", "the file is binary data of an unknown kind")])
    return Container.CSV


def _is_binary(head: bytes) -> bool:
    """Return whether the first line is no text; a NUL further on may be part of an answer."""
    first = head.split(b"\n", 1)[0]
    return b"\0" in first or (b"\0" in head and "\ufffd" in first.decode("utf-8", "replace"))


def _is_lines(head: bytes) -> bool:
    """Return whether a text that begins with an object has an object on each line."""
    lines = list(islice((line for line in head.split(b"\n", 50) if line.strip()), 2))
    if len(lines) == 1 or lines[1].lstrip().startswith(b"{"):
        return True
    try:
        decode(lines[0])
    except Broken:
        return False
    return True


def format_of(source: Source, container: Container) -> DatasetFormat:
    """Recognise the format by the first records.

    Raises:
        DatasetError: No format has such fields, or there are no records.
    """
    if container in (Container.CSV, Container.PARQUET):
        names = set(_column_names(source, container))
        sections: set[str] = set()
        broken = not names
    else:
        faults = Faults(source.name)
        items = (item for item in read_items(source, container, faults) if item.section not in ("models", TITLE))
        peeked = list(islice(items, _PEEKED))
        sections = {item.section for item in peeked}
        names = {name for item in peeked if isinstance(item.value, dict) for name in item.value}
        if faults and not peeked:
            faults.refuse()  # all of it was read, as far as it can be
        broken = bool(faults)
    found = _by_sections(sections) or _by_names(names)
    if found:
        return found
    if broken:
        return DatasetFormat.LEADLINE  # reading it all will say what is broken
    if not names:
        raise DatasetError([Fault(source.name, None, "", "the file holds no records")])
    raise DatasetError([Fault(source.name, None, "", _unknown(names))])


def _by_sections(sections: Iterable[str]) -> DatasetFormat | None:
    if any(section.startswith(("dataset.", "raw_dataset.")) for section in sections):
        return DatasetFormat.H2O_LAB
    if "tests" in sections:
        return DatasetFormat.H2O_SUITE
    if "inputs" in sections or "results" in sections:
        return DatasetFormat.H2O_DATASET
    if "cases" in sections or "answers" in sections:
        return DatasetFormat.LEADLINE
    return None


def _by_names(names: set[str]) -> DatasetFormat | None:
    if {"ground_truth", "predictions"} <= names:
        return DatasetFormat.COCO
    if "request" in names:
        return DatasetFormat.DATABRICKS
    if "user_input" in names:
        return DatasetFormat.RAGAS
    if names & {"actual_answer", "expected_answer", "expected_annotations", "predicted_annotations"}:
        return DatasetFormat.LEADLINE
    if "input" in names:
        if names & _H2O:
            return DatasetFormat.H2O_DATASET
        if names & {"actual_output", "retrieval_context", "expected_output"}:
            return DatasetFormat.DEEPEVAL
    if "question" in names:
        legacy = names & {"answer", "contexts", "ground_truth", "ground_truths"}
        return DatasetFormat.RAGAS if legacy else DatasetFormat.LEADLINE
    return None


def _column_names(source: Source, container: Container) -> list[str]:
    if container is Container.CSV:
        from leadline.tasks.load.readers.csv_table import header

        return header(source.head)[0]
    from leadline.tasks.load.readers.parquet import column_names

    return column_names(source)


def _unknown(names: Iterable[Any]) -> str:
    if {"images", "annotations"} <= set(names) or {"image_id", "category_id"} <= set(names):
        return (
            "this is one file of COCO; put the ground truth and each model's results into a folder and name that, or "
            'name them in a manifest {"ground_truth": "instances.json", "predictions": {"model": "results.json"}}'
        )
    listed = sorted(map(str, names))
    shown = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
    return (
        f"no known format has the fields {shown}; expected question and actual_answer (Leadline), input and "
        "actual_output (H2O, deepeval), request and response (Databricks) or user_input and response (ragas)"
    )
