"""The two sides of a comparison: runs, models and versions by the names that users give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.evaluators.ground import ErrorCode, UsageError, listing
from leadline.tasks.compare.results import ModelPair
from leadline.tasks.db import connect, literal, records
from leadline.tasks.runs.lookup import find_run, status
from leadline.tasks.store.store import Run, Store


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
        if status(record) != "completed":
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
        candidate: Models of the candidate.
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
