"""The request for a comparison: its settings, and its two sides by the names that users give runs, models, versions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from leadline.evaluators.ground import ErrorCode, UsageError, listing
from leadline.tasks.compare.results import MetricInfo, ModelPair
from leadline.tasks.db import connect, literal, records
from leadline.tasks.policy.policy import Policy
from leadline.tasks.runs.lookup import find_run, status
from leadline.tasks.store.store import RESCORED, Run, Store

DEFAULT: Final = 0.05
"""Margin as a share of a metric's range: five points of a hundred."""

ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Margins:
    """The largest tolerated worsening of every metric.

    Attributes:
        general: Share of a metric's range, in [0, 1]; where the range has no end, share of the baseline's value.
        own: By ``evaluator.metric``, or ``evaluator`` for all its metrics, in the metric's own unit.
    """

    general: float = DEFAULT
    own: Mapping[str, float] = field(default_factory=dict)

    def of(self, metric: MetricInfo, baseline: float) -> float:
        """Return the margin of a metric, in its own unit, >= 0.

        Args:
            baseline: The baseline's value, for metrics whose range has no end.
        """
        own = self.own.get(metric.key, self.own.get(metric.evaluator))
        if own is not None:
            return own
        width = metric.high - metric.low
        if math.isfinite(width):
            return self.general * width
        return self.general * abs(baseline) if math.isfinite(baseline) else 0.0

    def check(self, metrics: Collection[MetricInfo]) -> None:
        """Refuse margins that are not shares or lengths, and margins of metrics that are not compared.

        Raises:
            UsageError: There is such a margin.
        """
        if not 0 <= self.general <= 1:
            raise UsageError(
                f"The margin {self.general} is not a share.",
                hint="Give a number from 0 to 1.",
                code=ErrorCode.COMPARE_MARGIN,
            )
        known = {metric.key for metric in metrics} | {metric.evaluator for metric in metrics}
        for name, value in self.own.items():
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(
                    f"The margin {value} of {name} is not valid.",
                    hint="Give a number that is 0 or more.",
                    code=ErrorCode.COMPARE_MARGIN,
                )
            if name not in known:
                raise UsageError(
                    f"A margin was given for {name}, which is not compared.",
                    hint=f"Compared: {', '.join(sorted(metric.key for metric in metrics)) or 'nothing'}.",
                    code=ErrorCode.COMPARE_MARGIN,
                )


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdict of a metric on which judging stopped early.

    Attributes:
        low: Lower end of an interval of the effect that holds whenever one stops.
    """

    verdict: Literal["pass", "fail", "inconclusive"]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a comparison.

    Attributes:
        alpha: The declared chance that any metric fails although nothing became worse, in (0, 0.5].
        metrics: The metrics: ``evaluator.metric``, or ``evaluator`` for all of it; all of them are tested. Empty: each
            evaluator's primary, and others that the policy names; what is information by the policy, or looks like
            another metric, is shown and not tested.
        policy: The policy that says which metrics are tested, and by which thresholds; ``None``: the candidate run's.
        information: Measure also the metrics that are shown and not tested.
        slices: Columns by whose values the tested metrics are compared too, for information.
        mapping: Keys of the baseline's models, each with the candidate's model that it is compared with.
        allow_different_configurations: Compare also metrics that were measured differently, such as by another judge.
        shown: Flips of each metric and direction that the report shows with their texts.
        confidence: Confidence of the intervals of an evaluator's metrics, by its id, where it is not 0.95.
        decided: Verdicts by metric and key of the candidate's model where judging stopped early.
    """

    margins: Margins = field(default_factory=Margins)
    alpha: float = ALPHA
    metrics: tuple[str, ...] = ()
    all_metrics: bool = False
    policy: Policy | None = None
    information: bool = True
    slices: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    allow_different_configurations: bool = False
    shown: int = 10
    output: Path | None = None
    confidence: Mapping[str, float] = field(default_factory=dict)
    decided: Mapping[tuple[str, str], Decided] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunReference:
    """A run, or one of its models."""

    run: Run
    model: str | None = None


def find(store: Store, text: str, *, beside: RunReference | None = None) -> RunReference:
    """Read ``RUN`` or ``RUN:MODEL``; RUN as :func:`leadline.tasks.runs.lookup.find_run` takes it.

    Args:
        text: What the user wrote. A model's key may itself contain colons.
        beside: The other side; ``:MODEL`` is a model of its run.

    Raises:
        UsageError: There is no such run.
    """
    prefix = "tag:" if text.startswith("tag:") else ""
    name, colon, model = text.removeprefix(prefix).partition(":")
    if not name and not prefix and beside is not None:
        return RunReference(beside.run, model or None)
    if colon and not model:
        raise UsageError(
            f"{text!r} names no model after the colon.", hint="Write: RUN:MODEL", code=ErrorCode.COMPARE_SIDES
        )
    return RunReference(find_run(store, prefix + name), model or None)


def find_versions(store: Store, model: str, versions: tuple[str, str]) -> tuple[RunReference, RunReference]:
    """Return the youngest completed runs of two versions of a model, found by the versions that the datasets name.

    The baseline's run is one of a dataset of the same name as the candidate's, if there is such a run.

    Args:
        model: Key or name of the model.
        versions: Version of the baseline, version of the candidate.

    Raises:
        UsageError: No completed run has such a version.
    """
    known: dict[str, list[dict[str, Any]]] = {}
    found: dict[str, list[tuple[RunReference, str]]] = {version: [] for version in versions}
    seen: set[str] = set()
    for run in reversed(store.runs()):
        record = run.read()
        if status(record) != "completed" or record.get(RESCORED):
            continue
        dataset = str(record.get("dataset"))
        if dataset not in known:
            known[dataset] = _models_in(store, dataset)
        for line in known[dataset]:
            if model in (line["model_key"], line["name"]):
                seen.add(str(line["version"]))
                if line["version"] in found:
                    reference = RunReference(run, line["model_key"])
                    found[line["version"]].append((reference, str(record.get("dataset_name"))))
    for version in versions:
        if not found[version]:
            hint = f"Versions of it: {listing(sorted(seen))}." if seen else "Look at: leadline store runs"
            raise UsageError(
                f"No completed run has version {version!r} of the model {model!r}.",
                hint=hint,
                code=ErrorCode.COMPARE_NO_MODEL,
            )
    candidate, dataset_name = found[versions[1]][0]
    before = found[versions[0]]
    baseline = next((reference for reference, name in before if name == dataset_name), before[0][0])
    return baseline, candidate


def _models_in(store: Store, dataset: str) -> list[dict[str, Any]]:
    """Return ``model_id, model_key, name, version`` of a dataset's models; none where it is no longer in the store."""
    file = store.dataset(dataset) / "models.parquet"
    if not file.exists():
        return []
    with connect(threads=1) as connection:
        return records(
            connection,
            f"SELECT model_id, model_key, name, version FROM read_parquet({literal(file)}) ORDER BY model_id",
        )


@dataclass(frozen=True, slots=True)
class Matched:
    """Models that are compared, and models without a counterpart."""

    pairs: tuple[ModelPair, ...]
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]


def match_models(
    baseline: Sequence[Mapping[str, Any]],
    candidate: Sequence[Mapping[str, Any]],
    *,
    chosen: tuple[str | None, str | None] = (None, None),
    mapping: Mapping[str, str] | None = None,
) -> Matched:
    """Match models: by the user's mapping, else by key, else by a name that only one on each side has.

    Where each side has one model and nothing else matched, these two are compared.

    Args:
        baseline: Models of the baseline: ``model_key`` and ``name``.
        chosen: The only model of either side to compare, if one was named.
        mapping: Keys of the baseline's models, each with that of the candidate's.

    Raises:
        UsageError: A named model is not there, or no two models match.
    """
    left, right = (_named(models, key) for models, key in zip((baseline, candidate), chosen, strict=True))
    pairs: dict[str, str] = {}
    for old, new in (mapping or {}).items():
        _named(left, old)
        _named(right, new)
        pairs[old] = new
    for attribute in ("model_key", "name"):
        ours, theirs = (_unique(models, attribute, taken) for models, taken in ((left, pairs), (right, pairs.values())))
        pairs |= {ours[value]: theirs[value] for value in ours if value in theirs}
    if not pairs and len(left) == len(right) == 1:
        pairs = {left[0]["model_key"]: right[0]["model_key"]}
    rest = tuple(line["model_key"] for line in left if line["model_key"] not in pairs)
    new_ones = tuple(line["model_key"] for line in right if line["model_key"] not in pairs.values())
    if not pairs:
        raise UsageError(
            f"No model of the baseline ({listing(rest) if rest else 'none'}) is one of the candidate "
            f"({listing(new_ones) if new_ones else 'none'}).",
            hint="Name them: RUN:MODEL RUN:MODEL, or --map OLD=NEW",
            code=ErrorCode.COMPARE_SIDES,
        )
    keys = (line["model_key"] for line in left)
    return Matched(tuple(ModelPair(key, pairs[key]) for key in keys if key in pairs), rest, new_ones)


def _named(models: Sequence[Mapping[str, Any]], key: str | None) -> list[Mapping[str, Any]]:
    if key is None:
        return list(models)
    found = [line for line in models if line["model_key"] == key]
    if not found:
        keys = listing(line["model_key"] for line in models) if models else "none"
        raise UsageError(
            f"There is no model {key!r} in that run.", hint=f"Its models: {keys}.", code=ErrorCode.COMPARE_NO_MODEL
        )
    return found


def _unique(models: Sequence[Mapping[str, Any]], attribute: str, taken: object) -> dict[str, str]:
    values = [line[attribute] for line in models]
    keys: Any = taken
    return {
        line[attribute]: line["model_key"]
        for line in models
        if line["model_key"] not in keys and values.count(line[attribute]) == 1
    }
