"""An evaluator in one configuration, as it is planned, sent to workers, and found again in the store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Evaluator, Lane, planned
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef, UsageError
from leadline.evaluators.judge_client.budget import Limits, TeamBudget
from leadline.evaluators.models.weights import absolute, is_directory
from leadline.evaluators.settings import Settings, judge_from
from leadline.tasks.ground.files import digest, write_json
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.store.store import Run, Store

ALL_ROWS: Final = "all"
"""Every row gets all trials."""

QUARANTINED: Final = "quarantined.json"
"""File of a plan with the judges that rows are not put to."""


@dataclass(frozen=True, slots=True)
class EvaluatorJob:
    """One evaluator with its parameters.

    Attributes:
        evaluator_id: Its number within the run.
        evaluator: Its id.
        params: All its parameters.
        identity: Everything that its scores depend on, apart from the row and the trial.
        config: Digest of the identity; names the folder of its segments.
        lane: Where it runs.
        error: Why it cannot run at all, or ``""``.
        trials: How often each row is scored.
        trial_rows: Which rows get more than the first trial, see
            :mod:`leadline.tasks.plan.further_trials`; ``"all"`` for every row.
    """

    evaluator_id: int
    evaluator: str
    params: Mapping[str, Any]
    identity: Mapping[str, Any]
    config: str
    lane: Lane
    error: str = ""
    trials: int = 1
    trial_rows: str = ALL_ROWS

    def build(self) -> Evaluator:
        """Return the evaluator itself.

        Raises:
            UsageError: It comes from a file that has changed since the run was planned.
        """
        source = str(self.identity.get("source", ""))
        kind = planned(self.evaluator, source)
        if source and source != kind.source_digest:
            raise UsageError(
                f"The file of {self.evaluator} has changed since the run was planned.",
                hint="Start the run again.",
                code=ErrorCode.PLAN_FILE_CHANGED,
            )
        return kind(kind.parameters.build(self.evaluator, dict(self.params)))

    @property
    def samples(self) -> bool:
        """True where further trials are for a sample of the rows, and count for nothing but the judge's noise."""
        return self.trial_rows != ALL_ROWS

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that its scores depend on."""
        return self.build().reads


def make_jobs(
    evaluators: Sequence[Evaluator], settings: Settings, *, trials: int = 1, trial_rows: str = ALL_ROWS
) -> tuple[EvaluatorJob, ...]:
    """Number the evaluators and fix the identity of their scores.

    An evaluator whose identity cannot be determined gets a job with an error, so that the others go on.

    Args:
        evaluators: The evaluators of the run.
        settings: The run's settings.
        trials: Repetitions per row of evaluators that ask a judge; the others are deterministic.
        trial_rows: The rows that are repeated: ``all``, ``auto``, a number or a share of them.
    """
    ctx = EvalContext(settings)
    return tuple(_make_job(number, evaluator, ctx, trials, trial_rows) for number, evaluator in enumerate(evaluators))


def _make_job(number: int, evaluator: Evaluator, ctx: EvalContext, trials: int, trial_rows: str) -> EvaluatorJob:
    error = ""
    params = evaluator.params.model_dump(mode="json")
    try:
        identity = evaluator.identity(ctx)
        params = _portable(params, evaluator.models(ctx))
    except LeadlineError:
        raise
    except Exception as failure:
        identity, error = {"evaluator": evaluator.spec.id}, f"{type(failure).__name__}: {failure}"
    return EvaluatorJob(
        evaluator_id=number,
        evaluator=evaluator.spec.id,
        params=params,
        identity=identity,
        config=digest(identity),
        lane=evaluator.lane,
        error=error,
        trials=trials if evaluator.spec.judge else 1,
        trial_rows=trial_rows if evaluator.spec.judge and trials > 1 else ALL_ROWS,
    )


def _portable(params: Mapping[str, Any], models: Sequence[ModelRef]) -> dict[str, Any]:
    """Return parameters that mean the same in any working directory: folders of weights as absolute paths."""
    folders = {ref.source for ref in models if is_directory(ref)}
    paths = {name: absolute(value) for name, value in params.items() if folders and isinstance(value, str) and value}
    return dict(params) | {name: path for name, path in paths.items() if str(Path(path).resolve()) in folders}


def keep_identity(store: Store, job: EvaluatorJob) -> None:
    """Write beside the segments of a configuration what it consists of; the file's time says when it was last used."""
    path = store.scores(job.evaluator, job.config) / "config.json"
    if path.exists():
        with suppress(OSError):  # another user's
            os.utime(path)
    elif not job.error:
        write_json(path, job.identity)
        store.push([path])


def write_jobs(
    path: Path, jobs: Sequence[EvaluatorJob], settings: Settings, limits: Limits | None = None, canaries: str = ""
) -> None:
    """Write the file from which workers know a run's jobs, settings, budget for judges and canaries.

    API keys are not in it: a worker takes them from its own environment.

    Args:
        jobs: The evaluators of the run.
        settings: The run's settings.
        limits: The budget for judge calls.
        canaries: Digest of the canaries' dataset, ``""`` if there are none.
    """
    document = {
        "settings": settings_record(settings),
        "limits": asdict(limits or Limits()),
        "canaries": canaries,
        "jobs": [asdict(job) for job in jobs],
    }
    write_json(path, document)


def read_jobs(path: Path) -> tuple[Settings, tuple[EvaluatorJob, ...]]:
    """Read the settings and the jobs from the file of :func:`write_jobs`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    values = document["settings"]
    judges = tuple(judge_from(judge) for judge in values.get("judges", ()))
    lists = {name: tuple(values.get(name, ())) for name in ("evaluator_files", "offline_for")}
    settings = Settings(**values | lists | {"judges": judges})
    load_own_evaluators(settings)
    return settings, tuple(EvaluatorJob(**job) for job in document["jobs"])


def read_limits(path: Path) -> Limits:
    """Read the budget for judge calls from the file of :func:`write_jobs`."""
    limits = json.loads(path.read_text(encoding="utf-8")).get("limits", {})
    team = limits.pop("team", None)
    return Limits(**limits, team=TeamBudget(**team) if team else None)


def read_canary_dataset(path: Path) -> str:
    """Return the digest of the dataset of a run's canaries, ``""`` if it has none."""
    return str(json.loads(path.read_text(encoding="utf-8")).get("canaries", ""))


def settings_record(settings: Settings) -> dict[str, Any]:
    """Return a run's settings as JSON."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return values | {"judges": [judge.model_dump(mode="json") for judge in settings.judges]}


def quarantined_judges(run: Run) -> Mapping[str, str]:
    """Return the judges that rows of a run are not put to, each with the reason, by key.

    Args:
        run: The run, whose plan is here.
    """
    try:
        return dict(json.loads((run.plan / QUARANTINED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
