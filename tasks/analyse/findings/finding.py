"""Findings, problems and insights before they become lines of their tables, and the run that they speak of.

Rows are named as their owner knows them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import Evaluator, Spec, find
from leadline.evaluators.data import RowField, Severity
from leadline.evaluators.ground import UsageError, plain, quoted
from leadline.tasks.db import Fault, records, sql
from leadline.tasks.policy.policy import Policy, Role, Rule

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.models.vectors import VectorStore


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
    keys = case_keys(connection, {row for found in findings for row in found.row_ids[:MOST_ROWS]})
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


def case_keys(connection: DuckDBPyConnection, rows: Collection[int]) -> dict[int, str]:
    """Return the keys of the cases of rows, by row."""
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


AVID: Final = {
    "S0400": "Model bypass",
    "S0500": "Exfiltration",
    "E0100": "Bias/discrimination",
    "E0300": "Toxicity",
    "E0400": "Misinformation",
    "P0100": "Data issues",
    "P0200": "Model issues",
    "P0300": "Privacy",
    "P0400": "Safety",
}
"""Codes of the AI Vulnerability Database (avidml.org) that problems carry."""


def row_noun(connection: DuckDBPyConnection) -> str:
    """Return what a row of a run is called: a conversation where some have several turns, else an answer."""
    (talks,) = connection.execute("SELECT EXISTS (FROM turn_scores)").fetchall()[0]
    return "conversation" if talks else "answer"


@dataclass(frozen=True)
class RunView:
    """A run's database with the names and aggregates that findings need, read once.

    Attributes:
        policy: The gate's policy.
        vectors: The store's embeddings, if there is one.
        judges: How the enrolled judges that the run asked stood, by key.
    """

    connection: DuckDBPyConnection
    policy: Policy
    vectors: VectorStore | None = None
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def noun(self) -> str:
        """The name of what a row is."""
        return row_noun(self.connection)

    @cached_property
    def evaluators(self) -> dict[int, dict[str, Any]]:
        """Lines of the table ``evaluators``, with their JSON parsed."""
        lines = records(self.connection, "SELECT * FROM evaluators ORDER BY evaluator_id")
        parsed = ("params", "identity")
        return {line["evaluator_id"]: {**line, **{name: json.loads(line[name]) for name in parsed}} for line in lines}

    @cached_property
    def metrics(self) -> dict[int, dict[str, Any]]:
        """Lines of the table ``metrics``."""
        lines = records(self.connection, "SELECT * FROM metrics ORDER BY metric_id")
        return {line["metric_id"]: line for line in lines}

    @cached_property
    def computed(self) -> dict[str, Any]:
        """Results that one check computed and others need, by name."""
        return {}

    @cached_property
    def rules(self) -> dict[int, dict[str, Any]]:
        """Lines of the table ``rules`` by metric: what the gate's policy asks of it."""
        return {line["metric_id"]: line for line in records(self.connection, "SELECT * FROM rules ORDER BY metric_id")}

    def role(self, metric_id: int) -> Role:
        """Return the role of a metric in the gate's decision."""
        return Role(self.rules[metric_id]["role"])

    def tolerated(self, metric_id: int, rows: int) -> int:
        """Return how many of a model's scored rows may fail a *must* metric."""
        rule = self.rules[metric_id]
        return Rule(tolerance_rows=rule["tolerance_rows"], tolerance_share=rule["tolerance_share"]).tolerated(rows)

    @cached_property
    def models(self) -> dict[int, dict[str, Any]]:
        """Lines of the view ``models``, of the models that took part."""
        statement = """
            SELECT * FROM models
            WHERE model_id IN (SELECT model_id FROM aggregates) OR NOT EXISTS (FROM aggregates)
            ORDER BY model_id
        """
        return {line["model_id"]: line for line in records(self.connection, statement)}

    @cached_property
    def aggregates(self) -> dict[tuple[int, int], dict[str, Any]]:
        """Lines of the table ``aggregates`` by metric and model."""
        lines = records(self.connection, "SELECT * FROM aggregates ORDER BY metric_id, model_id")
        return {(line["metric_id"], line["model_id"]): line for line in lines}

    def spec(self, evaluator_id: int) -> Spec | None:
        """Return what is known of an evaluator; ``None`` if it is not installed here."""
        kind = self._kind(evaluator_id)
        return kind.spec if kind else None

    def problem_type(self, evaluator_id: int) -> str:
        """Return the type of an evaluator's problems; that of most if it is not installed here."""
        spec = self.spec(evaluator_id)
        return spec.problem_type if spec else "accuracy"

    def required(self, evaluator_id: int) -> tuple[RowField, ...]:
        """Return the inputs that an evaluator needs under the run's parameters; none if it is not installed here."""
        return self._required.get(evaluator_id, ())

    def compares_models(self, evaluator_id: int) -> bool:
        """Return whether an evaluator compares the answers of models with each other."""
        kind = self._kind(evaluator_id)
        return kind is not None and bool(kind.strength_metric)

    @cached_property
    def _required(self) -> dict[int, tuple[RowField, ...]]:
        kinds = {evaluator_id: self._kind(evaluator_id) for evaluator_id in self.evaluators}
        return {id_: _needs(kind, self.evaluators[id_]["params"]) for id_, kind in kinds.items() if kind}

    def _kind(self, evaluator_id: int) -> type[Evaluator] | None:
        return find(self.evaluators[evaluator_id]["evaluator"].partition("#")[0])

    def metrics_of(self, evaluator_id: int) -> list[dict[str, Any]]:
        """Return an evaluator's metrics, the primary one first."""
        own = [metric for metric in self.metrics.values() if metric["evaluator_id"] == evaluator_id]
        return sorted(own, key=lambda metric: (not metric["is_primary"], metric["metric_id"]))

    def primary(self, evaluator_id: int) -> dict[str, Any] | None:
        """Return an evaluator's primary metric; the first where none is marked."""
        own = self.metrics_of(evaluator_id)
        return own[0] if own else None

    def checks_contexts(self, evaluator_id: int) -> bool:
        """Return whether an evaluator is a pass/fail check of answers and of their retrieved contexts."""
        own = [metric["metric"] for metric in self.metrics_of(evaluator_id)]
        is_board = self.evaluators[evaluator_id]["leaderboard"] == "bool"
        return is_board and all(any(side in name for name in own) for side in ("retrieval", "generation"))

    def model_name(self, model_id: int) -> str:
        """Return a model's name, with its key where two models share the name."""
        name = str(self.models[model_id]["name"])
        same = sum(line["name"] == name for line in self.models.values())
        return name if same == 1 else f"{name} ({self.models[model_id]['model_key']})"

    def evaluator_name(self, evaluator_id: int) -> str:
        """Return an evaluator's name without the word "Evaluator"."""
        return str(self.evaluators[evaluator_id]["name"]).removesuffix(" Evaluator")

    def several(self, evaluator_ids: Sequence[int]) -> dict[str, Any]:
        """Return the attributes that name several evaluators."""
        return {
            "evaluator_names": [self.evaluators[number]["name"] for number in evaluator_ids],
            "evaluator_ids": [self.evaluators[number]["evaluator"] for number in evaluator_ids],
        }

    def finding(
        self,
        *,
        type: str,  # noqa: A002 - the name of a finding's column
        description: str,
        actions: str,
        severity: Severity | None = None,
        fault: Fault = "model",
        question: str = "",
        kind: str = "",
        harm: float = 0.0,
        evaluator_id: int | None = None,
        metric: Mapping[str, Any] | None = None,
        model_id: int | None = None,
        row_ids: Sequence[int] = (),
        **attrs: Any,
    ) -> Finding:
        """Return a finding whose attributes begin with the names of what it concerns, as :meth:`attrs` has them.

        Args:
            evaluator_id: The evaluator concerned, where it is no single metric of it.
        """
        evaluator_id = evaluator_id if metric is None else metric["evaluator_id"]
        return Finding(
            type=type,
            description=description,
            actions=actions,
            severity=severity,
            fault=fault,
            question=question,
            kind=kind,
            harm=harm,
            evaluator_id=evaluator_id,
            metric_id=None if metric is None else metric["metric_id"],
            model_id=model_id,
            attrs=self.attrs(evaluator_id=evaluator_id, metric=metric, model_id=model_id, **attrs),
            row_ids=row_ids,
        )

    def attrs(
        self,
        *,
        evaluator_id: int | None = None,
        metric: Mapping[str, Any] | None = None,
        model_id: int | None = None,
        avid: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the usual attributes of a finding; those not given are left out."""
        out: dict[str, Any] = {}
        if model_id is not None:
            out["model_name"] = self.model_name(model_id)
            out["model_key"] = self.models[model_id]["model_key"]
        if evaluator_id is not None:
            out["evaluator_name"] = self.evaluators[evaluator_id]["name"]
            out["evaluator_id"] = self.evaluators[evaluator_id]["evaluator"]
        if metric is not None:
            out["metric_id"] = metric["metric"]
            out["metric_name"] = metric["name"]
            out["metric_threshold"] = plain(metric["threshold"])
            if model_id is not None and (metric["metric_id"], model_id) in self.aggregates:
                out["metric_score"] = plain(self.aggregates[metric["metric_id"], model_id]["value"])
        if avid is not None:
            out["avid_problem_code"] = avid
            out["avid_problem_code_description"] = AVID[avid]
        return out | {name: plain(value) for name, value in more.items()}


def _needs(kind: type[Evaluator], params: dict[str, Any]) -> tuple[RowField, ...]:
    """Return what an evaluator needs under parameters, or usually needs if they are those of another version of it."""
    try:
        return kind(kind.parameters.build(kind.spec.id, params)).required
    except UsageError:
        return kind.spec.required
