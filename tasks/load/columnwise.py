"""Staging of records column by column.

It is done if reading them one at a time (:meth:`.formats.base.DatasetFormat.convert_record`) would stage the very same
and note no fault. Anything else (a value of the wrong type, two columns of one field, relationships, annotations,
objects that a format takes apart) leaves the records to that way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.tasks.ground.arrow_arrays import numbers_of, numpy_of, scalar_of
from leadline.tasks.load.column_values import is_absent, is_number, read_column
from leadline.tasks.load.faults import Place
from leadline.tasks.load.readers import Records
from leadline.tasks.load.readers.tables import Column, Unclear, values_of
from leadline.tasks.load.staged_arrays import text_array
from leadline.tasks.load.staging import WORDS_FOR_NOTHING
from leadline.tasks.load.values import InCells, Reading, ValueFault, canonical, derived_key

if TYPE_CHECKING:
    from leadline.tasks.load.formats.base import DatasetFormat

_CASE: Final = {
    "question": "question",
    "expected": "expected_answers",
    "documents": "expected_documents",
    "condition": "condition",
    "categories": "categories",
}
"""Fields of a case, in the order in which its key is made of them, each with its column of the staging table."""

_ANSWER: Final = {
    "answer": "actual_answer",
    "context": "retrieved_context",
    "error": "error",
    "duration_s": "duration_s",
    "cost_usd": "cost_usd",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
_MODEL: Final = ("model", "model_name", "model_version")
_METADATA: Final = "row_metadata"
_TEXT: Final = pa.large_string()
_WORDS: Final = text_array(sorted(WORDS_FOR_NOTHING))
_FIELDS: Final = frozenset({"case", *_CASE, *_ANSWER, *_MODEL, _METADATA})


def stage_records(reader: DatasetFormat, records: Records) -> bool:
    """Stage records as cases and answers; return whether it was done, or they are to be read one at a time."""
    if not records.rows:
        return False
    try:
        namings = _without_labels(reader, records)
        names = dict.fromkeys(name for naming in namings for name in naming)
        if any(_is_opened(reader.opens(name), records.column(name)) for name in names if reader.opens(name)):
            return False
        for naming in namings:
            reader.flat.of(naming)
        _stage(reader, records, names)
    except Unclear:
        return False
    return True


def _without_labels(reader: DatasetFormat, records: Records) -> list[Mapping[str, object]]:
    """Return the namings of records, without a column of people's labels in which nothing is.

    Raises:
        Unclear: There are labels, or the column has been one of labels.
    """
    namings = list(records.namings())
    column = reader.labels.name
    if column is None or not any(column in naming for naming in namings):
        return namings
    given = [value for value in values_of(records.column(column)) if value is not None]
    if given and (reader.labels.used or any(map(reader.labels.holds, given))):
        raise Unclear
    if given:
        return namings
    return [{name: value for name, value in naming.items() if name != column} for naming in namings]


def _is_opened(kinds: tuple[type, ...], column: Column) -> bool:
    return any(isinstance(value, kinds) for value in values_of(column) if value is not None)


def _stage(reader: DatasetFormat, records: Records, names: Collection[str]) -> None:
    known = {name: target for name in names if (target := reader.flat.known.get(name)) is not None}
    columns: dict[str, Column] = {}
    readings: dict[str, Reading] = {}
    for name, target in known.items():
        column = records.column(name)
        if is_absent(column):
            continue
        field, reading = (reader.by_columns or {}).get(target[0], target)
        if isinstance(target[1], InCells) and not isinstance(reading, InCells):
            reading = InCells(reading)
        if field not in _FIELDS or field in columns:
            raise Unclear
        columns[field], readings[field] = column, reading
        if name in records.rounded and not is_number(reading):
            raise Unclear
    if not records.rounded <= known.keys():
        raise Unclear
    metadata = _metadata(records, known, columns.pop(_METADATA, None), readings, has_others=len(known) < len(names))
    found = {field: read_column(readings[field], column) for field, column in columns.items()}
    models = _models(reader, records.rows, [found.get(field) for field in _MODEL])
    of_case = {field: found[field] for field in _CASE if field in found}
    keys, is_derived = _case_keys(found.get("case"), of_case, len(records.rows))
    bare = pc.invert(is_derived)
    for array in of_case.values():
        bare = pc.and_(bare, pc.invert(array.is_valid()))
    reader.note_blank()
    shared = {"case_key": keys, "derived": is_derived}
    answers = {column: found[field] for field, column in _ANSWER.items() if field in found}
    given = [answers[name].is_valid() for name in ("actual_answer", "error") if name in answers]
    _fill_in(answers, reader.batches.blank, len(records.rows))
    said = answers.get("actual_answer")
    reader.batches.records(
        records.rows,
        shared | {"bare": bare} | {column: of_case[field] for field, column in _CASE.items() if field in of_case},
        shared | {"model_id": numbers_of(models)} | ({} if metadata is None else {"metadata": metadata}) | answers,
        answered=pc.sum(pc.or_(given[0], given[-1])).as_py() if given else 0,
        words_for_nothing=0 if said is None else pc.sum(pc.is_in(said, _WORDS)).as_py() or 0,
        size=records.size,
    )


def _fill_in(answers: dict[str, pa.Array], blank: str | None, rows: int) -> None:
    """Put what an empty cell says in place of answers that are absent, where the host returned no error."""
    if blank is None:
        return
    said = pa.repeat(scalar_of(blank, _TEXT), rows)
    if "error" in answers:
        said = pc.if_else(answers["error"].is_valid(), scalar_of(None, _TEXT), said)
    answers["actual_answer"] = pc.coalesce(answers["actual_answer"], said) if "actual_answer" in answers else said


def _metadata(
    records: Records,
    known: Collection[str],
    column: Column | None,
    readings: Mapping[str, Reading],
    *,
    has_others: bool,
) -> pa.Array | None:
    """Return the metadata of each record as JSON; ``None`` if none has any."""
    if column is None and not has_others:
        return None
    others: Iterable[dict[str, Any]] = records.others(known) if has_others else ({} for _ in records.rows)
    try:
        if column is not None:
            own = (None if value is None else readings[_METADATA](value) for value in values_of(column))
            others = ((mine or {}) | other for mine, other in zip(own, others, strict=True))
        return text_array(list(map(canonical, others)))
    except ValueFault:
        raise Unclear from None


def _case_keys(given: pa.Array | None, of_case: Mapping[str, pa.Array], rows: int) -> tuple[pa.Array, pa.Array]:
    """Return the keys of the cases, and which of them are made from the content."""
    given = pa.nulls(rows, _TEXT) if given is None else given
    derived = given.is_null()
    number = pc.sum(derived).as_py()
    if not number:
        return given, derived
    contents = [of_case[field].filter(derived).to_pylist() if field in of_case else [None] * number for field in _CASE]
    made = text_array([derived_key(fields) for fields in zip(*contents, strict=True)])
    return pc.replace_with_mask(given, derived, made), derived


def _models(reader: DatasetFormat, rows: Sequence[int], columns: Sequence[pa.Array | None]) -> Any:
    """Return the id of the model of each record; each description of a model is noted once.

    Raises:
        Unclear: Two descriptions contradict each other.
    """
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        if column is not None:
            encoded = column.dictionary_encode(null_encoding="encode")
            codes = codes * len(encoded.dictionary) + numpy_of(encoded.indices)
            _, codes = np.unique(codes, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    ids = np.zeros(len(first), dtype=np.uint16)
    nothing = [None] * len(first)
    of_first = [nothing if column is None else column.take(numbers_of(first)).to_pylist() for column in columns]
    for index in np.argsort(first).tolist():
        key, name, version = (values[index] for values in of_first)
        place = Place(int(rows[first[index]]))
        described = key or name
        if (name or version) and described is not None:
            if reader.models.contradicts(described, name, version):
                raise Unclear
            reader.models.describe(place, described, name, version)
        ids[index] = reader.models.of_answer(key, place)
    return ids[inverse]
