"""Checking the request of an evaluation, and previewing its plan, without scoring anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from leadline.evaluators.core import EvalContext, Evaluator
from leadline.evaluators.core.model_evaluator import pull_command
from leadline.evaluators.ground import from_home
from leadline.evaluators.judge_client.choice import evaluator_files_of
from leadline.evaluators.models.runtime import require_onnx
from leadline.evaluators.models.weights import absolute
from leadline.evaluators.settings import Settings
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.job import reading
from leadline.flows.shared.judge_access import canaries_of, judges_of, limits_of
from leadline.tasks.db import attach_dataset, connect, lines_shown, sql
from leadline.tasks.ground.timeline import in_part
from leadline.tasks.judges.drift.epochs import with_epochs
from leadline.tasks.judges.labels.label_files import unknown_names
from leadline.tasks.judges.labels.label_sets import find_label_set
from leadline.tasks.load.dataset import LoadedDataset, kept_dataset, load_dataset
from leadline.tasks.plan.cost import Estimate, estimate, require_prices, with_canaries
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.planner import Need, expect_further_trials, plan
from leadline.tasks.plan.selection import (
    Choice,
    applicable_to,
    choose,
    embedder_in_words,
    missing_weights,
    named_models,
    standing_params,
    with_default_embedder,
)
from leadline.tasks.plan.third_rows import check_attributable, expect_third_rows
from leadline.tasks.policy.policy import Policy, load_policy
from leadline.tasks.runs.baseline import NONE, check_against
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.score.canaries import load_canaries
from leadline.tasks.stopping.waves import check_stoppable
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """Plan for one evaluator; counts are row scores.

    ``later`` is about how many more are judged once the first trial is scored, again or to tell whose a flip is; calls
    and cost hold them.
    """

    evaluator: str
    lane: str
    applicable: int
    not_applicable: int
    host_errors: int
    reused: int
    to_compute: int
    models: tuple[str, ...]
    missing: str
    judge_calls: int | None = None
    cost_usd: float | None = None
    later: int = 0
    judge_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """Plan of an evaluation."""

    dataset: str
    format: str
    rows: int
    cases: int
    models: tuple[str, ...]
    columns: Mapping[str, str]
    metadata_columns: tuple[str, ...]
    warnings: tuple[str, ...]
    splitter: str
    embedder: str
    left_out: Mapping[str, str]
    entries: tuple[PlanEntry, ...]
    turns: int = 0
    tool_calls: int = 0


def settings_of(config: EvaluateConfig) -> Settings:
    """Return the choices that evaluators see, with an embedder that is here in place of default ones that are not."""
    if config.models.backend == "onnx":
        require_onnx()
    own = from_home(config.evaluators_dir).absolute() if config.evaluators_dir else None
    paths = {
        "embedder": absolute(config.models.embedder) if config.models.embedder else None,
        "evaluators_dir": str(own) if own else None,
        "evaluator_files": evaluator_files_of(config.evaluator_files, config.judges.config),
    }
    return with_default_embedder(Settings(**config.models.model_dump() | paths, judges=judges_of(config.judges)))


@dataclass(frozen=True, slots=True)
class Prepared:
    """An evaluation whose settings, evaluators, dataset and models were checked.

    Attributes:
        shown: What the run's record calls the dataset, where that is not its path.
        rescored: Id of the earlier run whose answers are scored again, or "".
    """

    settings: Settings
    store: Store
    choice: Choice
    loaded: LoadedDataset
    policy: Policy
    shown: str = ""
    rescored: str = ""

    def applicable(self) -> Choice:
        """Return the evaluators that apply to the dataset."""
        return applicable_to(self.choice, self.loaded.path)


def chosen(config: EvaluateConfig, *, check_key: bool = False) -> tuple[Settings, Choice]:
    """Return the settings and the evaluators of a request.

    Args:
        check_key: Refuse a default judge whose API key is missing. Only where judges are asked by this process or its
            children: workers have keys of their own.

    Raises:
        UsageError: There is no such evaluator, parameter or judge, a key is missing, or a cost is limited that is
            unknown.
    """
    settings = settings_of(config)
    for judge in settings.judges[:1] if check_key else ():
        judge.api_key()
    limits = limits_of(config.judges)
    choice = choose(config.suite, config.evaluators, config.params, settings, standing_params())
    require_prices(choice.evaluators, settings, limits)
    return settings, choice


def prepare(
    config: EvaluateConfig, *, check_key: bool = False, load: Callable[..., LoadedDataset] | None = None
) -> Prepared:
    """Check a request and load its dataset; a dataset that is in the store is not read again.

    Args:
        check_key: See :func:`chosen`.
        load: Loads the dataset. By default as :func:`load_dataset` does, but that other hosts do not get it: a run
            may not follow.

    Raises:
        UsageError: There is no such evaluator, parameter, judge, model, policy, baseline, set of labels or column.
        DatasetError: The dataset was refused.
    """
    settings, choice = chosen(config, check_key=check_key)
    policy = load_policy(config.policy).asking(config.ask)
    store = Store.open(config.store)
    settings = with_epochs(store, settings)
    how = reading(config.map, format=config.format, model_name=config.model_name, corpus=config.corpus)
    with in_part("load"):
        loaded = (load or partial(load_dataset, shared=False))(store, config.dataset, **how)
    loaded.require_models([*config.model_keys, *named_models(choice.evaluators)])
    if loaded.labels:
        loaded = loaded.with_warnings(unknown_names(loaded.labels, choice.evaluators))
    check_against(store, config.against)
    if config.labels:
        find_label_set(store, config.labels)
    if config.slices:
        from leadline.tasks.analyse.slices import require_columns  # a plan imports no NumPy

        with connect() as connection:
            attach_dataset(connection, loaded.path)
            require_columns(connection, config.slices)
    prepared = Prepared(settings, store, choice, loaded, policy)
    if config.stop_when == "decided":
        evaluators = prepared.applicable().evaluators
        compared = config.against not in (None, NONE)
        check_stoppable(evaluators, policy, fail_on=config.fail_on.value, compared=compared, gate_on=config.gate_on)
    if config.attribute_flips:
        with connect() as connection:
            attach_dataset(connection, loaded.path)
            check_attributable(connection, prepared.applicable().evaluators)
    return prepared


def preview(
    config: EvaluateConfig, prepared: Prepared | None = None, planned: dict[str, set[tuple[bytes, int]]] | None = None
) -> PlanPreview:
    """Return what the store contains and what is left to compute.

    Args:
        prepared: What it comes to; by default it is prepared here.
        planned: Keys and trials, by configuration, that evaluations before this one compute: they count as reused, and
            those of this one join them.
    """
    prepared = prepared or prepare(config)
    settings, store, loaded, choice = prepared.settings, prepared.store, prepared.loaded, prepared.applicable()
    with connect() as connection:
        attach_dataset(connection, loaded.path)
        judges = config.judges
        jobs = make_jobs(
            choice.evaluators, settings, trials=judges.trials, trial_rows=judges.trial_rows, turns=judges.turns
        )
        needs = plan(connection, store, jobs, config.model_keys)
        if planned is not None:
            needs = tuple(_not_planned(connection, need, planned) for need in needs)
        later = Counter(expect_further_trials(connection, store, jobs))
        if config.attribute_flips:
            later.update(expect_third_rows(connection, store, jobs))
        estimates = {job.evaluator: estimate(connection, job, settings) for job in jobs}
        ((turns, calls),) = connection.execute(sql("plan/talks")).fetchall()
        file = canaries_of(config.judges)
        if file:
            _, canaries = load_canaries(store, file, jobs)
            estimates = with_canaries(connection, jobs, estimates, [each.expected for each in canaries], settings)
    ctx = EvalContext(settings)
    return PlanPreview(
        dataset=config.dataset,
        format=loaded.format,
        rows=loaded.rows,
        cases=loaded.cases,
        models=loaded.models,
        columns=loaded.columns,
        metadata_columns=loaded.metadata_columns,
        warnings=loaded.warnings,
        splitter=ctx.splitter.identity,
        embedder=embedder_in_words(choice, settings),
        left_out=choice.left_out,
        entries=tuple(
            _entry(need, ctx, estimates[need.job.evaluator], later.get(need.job.evaluator, 0)) for need in needs
        ),
        turns=turns,
        tool_calls=calls,
    )


def _not_planned(connection: DuckDBPyConnection, need: Need, planned: dict[str, set[tuple[bytes, int]]]) -> Need:
    """Take from a plan what is planned elsewhere, and add the rest to that."""
    job = need.job
    lacking = connection.execute("SELECT key, trial FROM to_compute WHERE evaluator_id = ?", [job.evaluator_id])
    wanted, known = set(lacking.fetchall()), planned.setdefault(job.config, set())
    if common := list(wanted & known):
        with lines_shown(connection, "planned", {"key": [key for key, _ in common], "trial": [at for _, at in common]}):
            connection.execute(
                "DELETE FROM to_compute WHERE evaluator_id = ? AND (key, trial) IN (SELECT key, trial FROM planned)",
                [job.evaluator_id],
            )
    known |= wanted
    return replace(need, reused=need.reused + len(common), to_compute=need.to_compute - len(common))


def _entry(need: Need, ctx: EvalContext, judged: Estimate | None, later: int) -> PlanEntry:
    evaluator = need.job.build()
    refs = evaluator.models(ctx)
    return PlanEntry(
        evaluator=need.job.evaluator,
        lane=need.job.lane,
        applicable=need.applicable,
        not_applicable=need.not_applicable,
        host_errors=need.host_errors,
        reused=need.reused,
        to_compute=need.to_compute,
        models=tuple(str(ref) for ref in refs),
        missing=_missing(evaluator, ctx) or need.job.error,
        judge_calls=judged.calls if judged else None,
        cost_usd=judged.cost_usd if judged else None,
        later=later,
        judge_tokens=judged.tokens if judged else None,
    )


def _missing(evaluator: Evaluator, ctx: EvalContext) -> str:
    """Return which weights cannot be loaded, with the one command that fetches those not here; ``""`` if all can."""
    missing, absent = missing_weights(evaluator, ctx)
    return f"{missing}: {pull_command(evaluator, ctx, absent)}" if absent else missing


def prepared_again(config: EvaluateConfig, line: RunLine, *, check_key: bool = False) -> Prepared:
    """Return a request that was checked with the dataset that a run had.

    Raises:
        UsageError: The request makes no sense, or the dataset is gone.
    """

    def kept(store: Store, source: str, **_: object) -> LoadedDataset:
        return kept_dataset(store, line.dataset_digest, source)

    return replace(prepare(config, check_key=check_key, load=kept), rescored=line.id)
