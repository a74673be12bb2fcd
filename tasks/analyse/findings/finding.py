"""A finding: a problem or an insight, before it becomes a line of its table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data.row import Severity
from leadline.tasks.db.run_tables import Fault

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RETRIEVAL: Final = "retrieval"
"""Type of what is found of retrieved contexts, and of evaluators' flags on them."""
MOST_ROWS: Final = 1000
"""Most rows that a finding names."""
MOST_KEYS: Final = 100
"""Most cases that a finding's attributes name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or insight before it is numbered.

    Attributes:
        type: Its kind, as ``docs/problems-and-insights.md`` lists them.
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
