"""A result of Leadline as a run of MLflow: metrics, parameters, tags, and the report as an artifact."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from leadline.bridges.mlflow_scorer import missing_mlflow
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from leadline.api.result import Result

FILES: Final = ("report.html", "report.md", "report.json", "problems.csv", "aggregates.csv", "junit.xml")
"""Files of results that are logged as artifacts, as far as a run has them."""

MOST_VALUE: Final = 6_000
"""Characters of a parameter that MLflow takes."""

_REFUSED: Final = re.compile(r"[^\w\-. :/]")
_COUNTS: Final = ("rows", "cases", "scored", "unscored", "not_applicable", "seconds")


def log(
    result: Result | str, *, store: Any = None, experiment: str = "", prefix: str = "", artifacts: bool = True
) -> str:
    """Log a result as a run of MLflow, in the active run if there is one.

    Metrics are the means of every evaluator and model, as ``EVALUATOR.METRIC`` where there is one model and
    ``MODEL/EVALUATOR.METRIC`` where there are several, each with ``.ci_low``, ``.ci_high`` and ``.coverage``; problems
    by severity; counts and seconds. The gate is the tag ``leadline.gate``, with its reason beside it.

    Args:
        result: What :func:`leadline.evaluate` returned, or a run by its name.
        store: The store of a run that is named. Default: ``$LEADLINE_STORE`` or ``./.leadline``.
        experiment: MLflow's experiment; the active one by default.
        prefix: Stands before the name of each metric.
        artifacts: Whether to log the report and the tables, below ``leadline/``.

    Returns:
        The id of MLflow's run.

    Raises:
        UsageError: MLflow is not installed, or there is no such run.
    """
    try:
        import mlflow
    except ImportError:
        raise missing_mlflow() from None
    place, run = _found(result, store)
    found = overview(place, run)
    if experiment:
        mlflow.set_experiment(experiment)
    active = mlflow.active_run()
    name = str(found["name"] or found["dataset_name"] or run.id)
    with nullcontext(active) if active else mlflow.start_run(run_name=name) as logged:
        mlflow.log_metrics({f"{prefix}{key}": value for key, value in metrics_of(found).items()})
        mlflow.log_params(params_of(found))
        mlflow.set_tags(tags_of(found))
        for file in FILES if artifacts else ():
            path = run.results / file
            if path.is_file():
                mlflow.log_artifact(str(path), "leadline")
        return str(logged.info.run_id)


def _found(result: Result | str, store: Any) -> tuple[Store, Run]:
    if not isinstance(result, str):
        return result.store, result.store.run(result.run)
    place = store if isinstance(store, Store) else Store.open(store)
    return place, find_run(place, result)


def metrics_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Return a run's numbers by the names that MLflow gets."""
    several = len({line["model"] for line in found["board"]}) > 1
    numbers: dict[str, float | None] = {}
    for line in found["board"]:
        key = f"{line['evaluator']}.{line['metric']}"
        name = f"{line['model']}/{key}" if several else key
        measured = line["n_scored"] + line["n_unscored"]
        numbers[name] = line["value"]
        numbers[f"{name}.ci_low"], numbers[f"{name}.ci_high"] = line["ci_low"], line["ci_high"]
        numbers[f"{name}.coverage"] = line["n_scored"] / measured if measured else None
    numbers |= {f"leadline.{name}": found[name] for name in _COUNTS}
    by_fault = found["record"].get("problems_by_fault") or {}
    for whose, counts in by_fault.items():
        numbers |= {f"leadline.problems.{whose}.{severity}": number for severity, number in counts.items()}
    return {_name(key): float(value) for key, value in numbers.items() if value is not None and math.isfinite(value)}


def params_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run was asked for, as MLflow's parameters."""
    requested = found["record"].get("config") or {}
    judges = requested.get("judges") or {}
    known = {
        "dataset": found["dataset_name"],
        "dataset_digest": found["dataset"],
        "models": ", ".join(found["record"].get("models") or ()),
        "evaluators": ", ".join(sorted({line["evaluator"] for line in found["board"]})),
        "policy": requested.get("policy"),
        "judge": judges.get("model"),
    }
    return {f"leadline.{name}": str(value)[:MOST_VALUE] for name, value in known.items() if value}


def tags_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's verdict and where it is, as MLflow's tags."""
    known = {"run": found["run"], "gate": found["gate"], "gate_reason": found["gate_reason"], "report": found["report"]}
    return {f"leadline.{name}": str(value)[:MOST_VALUE] for name, value in known.items() if value}


def _name(key: str) -> str:
    return _REFUSED.sub("_", key)[:250]
