"""Rows as their owner knows them: by the row of the file or the case's own key, and by the question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.evaluators.ground.text import quoted
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import records

MOST_QUESTION: Final = 60
"""Characters of a question that name a row."""
MOST_REASON: Final = 200
"""Characters of what an evaluator says of a row."""
_DERIVED: Final = re.compile(r"c-[0-9a-f]{16}(-\d+)?")
"""A key that loading gave to a case without one of its own."""


def rows_in_words(view: RunView, evaluator_id: int, rows: Sequence[int]) -> Iterator[str]:
    """Yield for each row a sentence with its name and what an evaluator says of it.

    Of checks on privacy the question is left out: it may hold what should not be told on.

    Args:
        rows: The rows, in the order of the sentences.
    """
    found = records(view.connection, sql("problems/evidence_of"), {"evaluator": evaluator_id, "rows": list(rows)})
    told = view.evaluators[evaluator_id]["family"] != "privacy"
    by_row = {line["row_id"]: line for line in found}
    for row in rows:
        if line := by_row.get(row):
            reason = _reason(line["evidence"])
            yield f"{row_name(line, question=told)}{f': {reason}' if reason else ''}."


def row_name(line: Mapping[str, Any], *, question: bool = True) -> str:
    """Return what a person calls a row: ``Row 6, "How long does charging take?"``.

    Args:
        line: Its ``row_id``, ``case_key`` and ``question``.
        question: Whether the question may be told.
    """
    key = str(line["case_key"])
    name = f"Row {line['row_id'] + 1:,}" if _DERIVED.fullmatch(key) else f"Case {quoted(key, most=80)[1:-1]}"
    return f"{name}, {quoted(line['question'], most=MOST_QUESTION)}" if question and line["question"] else name


def _reason(evidence: str | None) -> str:
    said = json.loads(evidence or "{}")
    text = said.get("message") or (said.get("data") or {}).get("reasoning") or ""
    return quoted(str(text), most=MOST_REASON)[1:-1].rstrip(".")
