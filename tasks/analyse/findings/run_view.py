"""The run that findings speak of: its names and aggregates, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import Evaluator, Spec, find
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import UsageError, plain
from leadline.tasks.db import records
from leadline.tasks.policy.policy import Policy, Role, Rule

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.evaluators.models.vectors import VectorStore

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
        """Return how many of a model's scored rows may fail a *must* metric.

        Args:
            rows: Number of scored rows.
        """
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

    def attrs(
        self,
        *,
        evaluator_id: int | None = None,
        metric: Mapping[str, Any] | None = None,
        model_id: int | None = None,
        avid: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the usual attributes of a finding; those not given are left out.

        Args:
            metric: Line of the table ``metrics``.
            avid: Code of :data:`AVID`.
            **more: Further attributes.
        """
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
