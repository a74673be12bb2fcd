"""Two small runs to compare: the same cases, models and evaluators, other scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.evaluators.core import Metric
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.db import open_run
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Basis, Given, Toy, answer, make_run

SCORE = Metric("value", "Value", higher_is_better=True, threshold=0.5, primary=True)
LOWER = Metric("harm", "Harm", higher_is_better=False, threshold=0.5, primary=True)
SHARE = Metric("passes", "Passes", higher_is_better=True, threshold=0.5, primary=True, share=True)
OPEN = Metric("perplexity", "Perplexity", higher_is_better=False, range=(1, float("inf")), threshold=None, primary=True)


def cases(n: int, models: Sequence[str] = ("m",), **fields: Any) -> list[dict[str, Any]]:
    """Return rows of ``n`` cases."""
    return [answer(f"c{number:03d}", model, **fields) for number in range(n) for model in models]


def completed(
    root: Path,
    values: Mapping[str, Sequence[float | str]] | Iterable[Given],
    *,
    metric: Metric = SCORE,
    rows: list[dict[str, Any]] | None = None,
    evaluators: Sequence[Toy] = (),
    evidence: Iterable[Basis] = (),
    identity: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    record: Mapping[str, Any] | None = None,
) -> Run:
    """Make a completed run.

    Args:
        root: Where the store is.
        values: Values by model in the order of the cases, ``""`` for not applicable, other texts for unscored; or the
            scores themselves.
        metric: What they are values of.
        rows: The dataset's rows; by default as many cases as there are values.
        evaluators: Instead of one with ``metric``.
        evidence: Payloads and the like.
        identity: What the first evaluator's scores depend on.
        versions: Versions of models.
        record: Further entries of the run's record.
    """
    if isinstance(values, Mapping):
        keys = list(dict.fromkeys(row["case"] for row in rows)) if rows else []
        scores = [
            Given(keys[number] if keys else f"c{number:03d}", model, value, metric.key)
            for model, line in values.items()
            for number, value in enumerate(line)
        ]
        rows = rows or cases(len(next(iter(values.values()))), list(values))
    else:
        scores = list(values)
    assert rows is not None
    used = evaluators or (Toy(metrics=(metric,)),)
    store, run = make_run(root, rows=rows, evaluators=used, scores=scores, evidence=evidence)
    with open_run(store, run) as connection:
        if identity is not None:
            text = json.dumps(identity)
            connection.execute(
                "UPDATE evaluators SET identity = ?, config = md5(?) WHERE evaluator_id = 0", [text, text]
            )
        aggregate(connection)
    if versions:
        _set_versions(store, run, versions)
    started = f"2026-01-01T10:00:{len(store.runs()):02d}+00:00"
    known = {"status": "completed", "name": "nightly", "started": started, "dataset_name": "suite"}
    run.update(known | dict(record or {}))
    return run


def _set_versions(store: Store, run: Run, versions: Mapping[str, str]) -> None:
    """Give the run a dataset of its own whose models have versions."""
    import shutil

    import duckdb

    dataset = str(run.read()["dataset"])
    own = f"{dataset}-{'-'.join(versions.values())}"
    if not store.dataset(own).exists():
        shutil.copytree(store.dataset(dataset), store.dataset(own))
        file = store.dataset(own) / "models.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE models AS FROM '{file}'")
            for key, version in versions.items():
                connection.execute("UPDATE models SET version = ? WHERE model_key = ?", [version, key])
            connection.execute(f"COPY models TO '{file}' (FORMAT parquet)")
    run.update({"dataset": own})
