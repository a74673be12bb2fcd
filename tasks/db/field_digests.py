"""Digests of a row's fields: those that a dataset holds, and those of what it has in other tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leadline.evaluators.data.row import RowField
from leadline.tasks.db.statements import sql

_MEASURED: Final = frozenset({RowField.DURATION_S, RowField.COST_USD, RowField.INPUT_TOKENS, RowField.OUTPUT_TOKENS})

_OF_OTHER_ROWS: Final = frozenset({RowField.ORIGINAL_ANSWER, RowField.RIVAL_ANSWERS})

STORED: Final = tuple(field for field in RowField if field not in _MEASURED | _OF_OTHER_ROWS)
"""The fields whose digests a dataset holds."""


def digests_of(fields: Iterable[RowField]) -> str:
    """Return what to select from for the digests of some fields, one column for each; NULL where a field is absent.

    A dataset has the digests of its texts in a table. Numbers are digested when they are asked for, and whether a case
    is a copy of another, and which other models answered it, is looked up only then.

    Args:
        fields: The fields that are needed.
    """
    wanted = frozenset(fields)
    joined = ["digests"]
    if wanted & _MEASURED:
        joined.append(f"JOIN ({sql('field_digests/measured_digests')}) AS measured USING (row_id)")
    if RowField.ORIGINAL_ANSWER in wanted:
        joined.append(f"LEFT JOIN ({original_digests()}) AS copies USING (row_id)")
    if RowField.RIVAL_ANSWERS in wanted:
        joined.append(f"LEFT JOIN ({sql('field_digests/rival_digests')}) AS rivals USING (row_id)")
    return " ".join(joined)


def original_digests() -> str:
    """Return the query of the digest of the original's answer, by ``row_id`` of the copy."""
    return sql("field_digests/original_digests").format(originals=sql("field_digests/originals"))
