"""An evaluator in one configuration: what is planned, sent to workers, and found again in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core.base import Evaluator, Lane
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.errors import LeadlineError, UsageError
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import RowField
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.core.suites import suite
from leadline.evaluators.core.text import nouns
from leadline.evaluators.judge.engine.budget import Limits
from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.evaluators.models.refs import ModelRef
from leadline.evaluators.models.weights import absolute, is_directory, status
from leadline.tasks.store.files import digest, write_json

NOT_HERE: Final = "not on this machine"
"""How the reason ends why an evaluator is left out, where its weights could be fetched."""


@dataclass(frozen=True, slots=True)
class EvaluatorJob:
    """One evaluator with its parameters.

    Attributes:
        evaluator_id: Its number within the run.
        evaluator: Its id.
        params: All its parameters.
        identity: All that its scores depend on, apart from the row and the trial.
        config: Digest of the identity; names the folder of its segments.
        lane: Where it runs.
        error: Why it cannot run at all, or ``""``.
        trials: How often each row is scored.
    """

    evaluator_id: int
    evaluator: str
    params: Mapping[str, Any]
    identity: Mapping[str, Any]
    config: str
    lane: Lane
    error: str = ""
    trials: int = 1

    def build(self) -> Evaluator:
        """Return the evaluator itself."""
        kind = get(self.evaluator)
        return kind(kind.parameters.build(self.evaluator, dict(self.params)))

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that its scores depend on."""
        return self.build().reads


@dataclass(frozen=True, slots=True)
class Choice:
    """The evaluators of a request.

    Attributes:
        evaluators: Those that run, configured, sorted by id.
        left_out: Those that nobody named and that could measure nothing here, by id, each with why.
        unnamed: Ids of those that nobody named by id: they run only where the dataset has what they are about.
    """

    evaluators: tuple[Evaluator, ...]
    left_out: Mapping[str, str]
    unnamed: frozenset[str] = frozenset()


def choose(
    suite_name: str | None, ids: Sequence[str], params: Mapping[str, Mapping[str, Any]], settings: Settings
) -> Choice:
    """Return the evaluators of a request.

    What is named, by id or by suite, runs, and leaves its rows unscored where its weights are absent. Where nothing is
    named, every evaluator runs that can: those whose weights are on this machine, and with a judge those that ask it.
    Evaluators for a benchmark's own cases run only on request.

    Args:
        suite_name: A suite, or ``None``.
        ids: Further evaluators.
        params: Parameters by evaluator id.
        settings: The run's choices.

    Raises:
        UsageError: An unknown suite, evaluator or parameter, parameters for an evaluator that does not run, or an
            evaluator that was named but asks a judge, and there is none.
    """
    load_own_evaluators(settings)
    for id_ in () if settings.judges else ids:
        if get(id_).spec.judge:
            raise UsageError(f"{id_} asks a judge, and none is named.", hint="Add: --judge MODEL (or LEADLINE_JUDGE).")
    named = bool(suite_name or ids)
    default = "all" if settings.judges else "no-judge"
    wanted = {*ids, *suite(suite_name or default)} if suite_name or not ids else set(ids)
    if not named:
        wanted = {id_ for id_ in wanted if id_ in params or not get(id_).spec.on_request}
    for unused in sorted(set(params) - wanted):
        get(unused)
        raise UsageError(f"Parameters were given for {unused}, which does not run.", hint=f"Add: -e {unused}")
    ctx = EvalContext(settings)
    evaluators, left_out = [], {}
    for kind in (get(id_) for id_ in sorted(wanted)):
        evaluator = kind(kind.parameters.build(kind.spec.id, dict(params.get(kind.spec.id, {}))))
        missing = "" if named or kind.spec.id in params else _missing_weights(evaluator, ctx)
        if missing:
            left_out[kind.spec.id] = missing
        else:
            evaluators.append(evaluator)
    return Choice(tuple(evaluators), left_out, frozenset(wanted - set(ids) - set(params)))


def load_own_evaluators(settings: Settings) -> None:
    """Register the evaluators that the user wrote as YAML files, in this process too.

    Raises:
        UsageError: The folder or a file in it makes no sense.
    """
    if settings.evaluators_dir:
        from leadline.evaluators.judge.yaml_evaluators import load_folder

        load_folder(settings.evaluators_dir)


def _missing_weights(evaluator: Evaluator, ctx: EvalContext) -> str:
    return "" if ctx.settings.allow_download else lacking(evaluator, ctx)[0]


def lacking(evaluator: Evaluator, ctx: EvalContext) -> tuple[str, tuple[ModelRef, ...]]:
    """Return what keeps an evaluator's weights from being loaded, ``""`` if nothing does, and which are not here.

    Weights that are here but damaged, or pickled where that is not allowed, are none that are not here.
    """
    found = [status(ref, allow_pickle=ctx.settings.allow_pickle) for ref in evaluator.models(ctx)]
    absent = tuple(each.ref for each in found if each.path is None)
    said = [f"{each.ref}: {each.problem}" for each in found if each.path and not each.present]
    if absent:
        said.append(f"{' and '.join(map(str, absent))} {nouns(len(absent), 'is', 'are')} {NOT_HERE}")
    return "; ".join(said), absent


def make_jobs(evaluators: Sequence[Evaluator], settings: Settings, *, trials: int = 1) -> tuple[EvaluatorJob, ...]:
    """Number the evaluators and fix what their scores depend on.

    An evaluator whose identity cannot be found gets a job with an error, so that the others go on.

    Args:
        evaluators: The evaluators of the run.
        settings: The run's choices.
        trials: How often those that ask a judge score each row; the others always say the same.
    """
    ctx = EvalContext(settings)
    return tuple(_make_job(number, evaluator, ctx, trials) for number, evaluator in enumerate(evaluators))


def _make_job(number: int, evaluator: Evaluator, ctx: EvalContext, trials: int) -> EvaluatorJob:
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
        lane=evaluator.spec.lane,
        error=error,
        trials=trials if evaluator.spec.judge else 1,
    )


def _portable(params: Mapping[str, Any], models: Sequence[ModelRef]) -> dict[str, Any]:
    """Return parameters that mean the same in any working directory: folders of weights with their whole path."""
    folders = {ref.source for ref in models if is_directory(ref)}
    whole = {name: absolute(value) for name, value in params.items() if folders and isinstance(value, str) and value}
    return dict(params) | {name: path for name, path in whole.items() if str(Path(path).resolve()) in folders}


def write_jobs(
    path: Path, jobs: Sequence[EvaluatorJob], settings: Settings, limits: Limits | None = None, canaries: str = ""
) -> None:
    """Write what a worker needs to know of a run: its jobs, its choices, what it may spend on judges, its canaries.

    API keys are no part of it: a worker takes them from its own environment.
    """
    document = {
        "settings": settings_record(settings),
        "limits": asdict(limits or Limits()),
        "canaries": canaries,
        "jobs": [asdict(job) for job in jobs],
    }
    write_json(path, document)


def read_jobs(path: Path) -> tuple[Settings, tuple[EvaluatorJob, ...]]:
    """Read what :func:`write_jobs` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    values = document["settings"]
    judges = tuple(JudgeConfig(**judge) for judge in values.pop("judges", ()))
    settings = Settings(**values, judges=judges)
    load_own_evaluators(settings)
    return settings, tuple(EvaluatorJob(**job) for job in document["jobs"])


def read_limits(path: Path) -> Limits:
    """Read what a run may spend on judges."""
    return Limits(**json.loads(path.read_text(encoding="utf-8")).get("limits", {}))


def read_canary_dataset(path: Path) -> str:
    """Return the digest of the dataset of a run's canaries, ``""`` where it has none."""
    return str(json.loads(path.read_text(encoding="utf-8")).get("canaries", ""))


def settings_record(settings: Settings) -> dict[str, Any]:
    """Return a run's choices as JSON."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return values | {"judges": [judge.model_dump(mode="json") for judge in settings.judges]}
