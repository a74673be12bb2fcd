"""A finding: a problem or an insight before it becomes a line of its table, and rows as their owner knows them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import quoted
from leadline.tasks.analyse.findings.run_view import RunView
from leadline.tasks.db import Fault, records, sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


RETRIEVAL: Final = "retrieval"
"""Type of what is found of retrieved contexts, and of evaluators' flags on them."""
MOST_ROWS: Final = 1000
"""Most rows that a finding names."""
MOST_KEYS: Final = 100
"""Most cases that a finding's attributes name."""

MOST_QUESTION: Final = 60
"""Characters of a question that name a row."""

_MOST_REASON: Final = 200
"""Characters of what an evaluator says of a row."""

_DERIVED: Final = re.compile(r"c-[0-9a-f]{16}(-\d+)?")
"""A key that loading gave to a case without one of its own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or insight before it is numbered.

    Attributes:
        type: Its kind, as ``docs/mechanisms/problems-and-insights.md`` lists them.
        description: What was found, in a sentence or two.
        actions: What to do about it.
        severity: How bad it is; ``None`` for an insight.
        fault: Who is at fault.
        question: The question of the verdict that it bears on; ``""`` for that of its metric.
        kind: Which check found it: ``failing_rows``, ``missed_threshold``, ``flips``, ``slice``, ``failure_cluster``,
            ``root_cause``, ``regression``, ``unscored``, …
        harm: Orders problems of one severity, larger first: the share of a model's answers that are bad because of it,
            times the weight that the policy gives such answers.
        evaluator_id: The evaluator concerned, if it is one.
        metric_id: The metric concerned, if it is one.
        model_id: The model concerned, if it is one.
        attrs: Names and numbers for programs.
        row_ids: The rows concerned, the worst or most central one first.
    """

    type: str
    description: str
    actions: str
    severity: Severity | None = None
    fault: Fault = "model"
    question: str = ""
    kind: str = ""
    harm: float = 0.0
    evaluator_id: int | None = None
    metric_id: int | None = None
    model_id: int | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    row_ids: Sequence[int] = ()

    @property
    def instrument(self) -> bool:
        """True if no model is at fault, so that the gate does not count it."""
        return self.fault != "model"


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings with the same description of the same model: their evaluators and rows are joined."""
    groups: defaultdict[tuple[Any, ...], list[Finding]] = defaultdict(list)
    for found in findings:
        groups[found.type, found.severity, found.fault, found.model_id, found.description].append(found)
    return [group[0] if len(group) == 1 else _merged(group) for group in groups.values()]


def _merged(group: Sequence[Finding]) -> Finding:
    first = group[0]
    rows = list(dict.fromkeys(row for found in group for row in found.row_ids))[:MOST_ROWS]
    names = list(dict.fromkeys(found.attrs["evaluator_name"] for found in group if "evaluator_name" in found.attrs))
    if len(names) < 2:
        return replace(first, row_ids=rows)
    ids = list(dict.fromkeys(found.attrs["evaluator_id"] for found in group if "evaluator_id" in found.attrs))
    attrs = {key: value for key, value in first.attrs.items() if key not in ("evaluator_name", "evaluator_id")}
    attrs |= {"evaluator_names": names, "evaluator_ids": ids}
    return replace(first, evaluator_id=None, metric_id=None, attrs=attrs, row_ids=rows)


def lines(connection: DuckDBPyConnection, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the columns that problems and insights share; the keys of the rows' cases join the attributes."""
    keys = _case_keys(connection, {row for found in findings for row in found.row_ids[:MOST_ROWS]})
    out = []
    for found in findings:
        rows = [int(row) for row in found.row_ids[:MOST_ROWS]]
        cases = list(dict.fromkeys(keys[row] for row in rows))[:MOST_KEYS]
        attrs = {**found.attrs, "test_case_keys": cases} if cases else dict(found.attrs)
        out.append(
            {
                "type": found.type,
                "evaluator_id": found.evaluator_id,
                "metric_id": found.metric_id,
                "model_id": found.model_id,
                "description": found.description,
                "actions": found.actions,
                "attrs": json.dumps(attrs, ensure_ascii=False, allow_nan=False),
                "row_ids": rows,
            }
        )
    return out


def _case_keys(connection: DuckDBPyConnection, rows: Set[int]) -> dict[int, str]:
    if not rows:
        return {}
    statement = """
        SELECT row_id, case_key FROM rows JOIN cases USING (case_id) WHERE row_id IN (SELECT unnest(?::UINTEGER[]))
    """
    return dict(connection.execute(statement, [sorted(rows)]).fetchall())


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
            yield f"{_row_name(line, question=told)}{f': {reason}' if reason else ''}."


def _row_name(line: Mapping[str, Any], *, question: bool = True) -> str:
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
    return quoted(str(text), most=_MOST_REASON)[1:-1].rstrip(".")
