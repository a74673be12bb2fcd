"""Evaluating from Python: what the command ``evaluate`` does, as a function, on files and on data in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import DatasetError, UsageError
from leadline.evaluators.core.registry import lent
from leadline.flows.api.checked_config import checked
from leadline.flows.api.inputs import Data, Staged, stage
from leadline.flows.api.metric_choice import Chosen, Metrics, chosen_metrics
from leadline.flows.api.result import Result
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import Prepared, chosen, prepare
from leadline.flows.evaluate.steps import DirectSteps
from leadline.flows.shared.settings import Dispatch, JudgeAccess
from leadline.tasks.load import LoadedDataset
from leadline.tasks.store.scratch import scratch_folder
from leadline.tasks.store.store import Store
from leadline.tasks.timeline import Timeline, timed_by


def evaluate(
    data: Data = None,
    *,
    metrics: Metrics | Iterable[Metrics] = (),
    judge: str | Mapping[str, Any] | JudgeAccess | None = None,
    policy: str | os.PathLike[str] | None = None,
    against: str | Result | None = None,
    name: str = "",
    store: str | os.PathLike[str] | Store | None = None,
    config: EvaluateConfig | None = None,
    flow: bool = False,
    **settings: Any,
) -> Result:
    """Score answers and write a report.

    The run happens in this process, without Prefect; notebooks and programs with an event loop of their own may call
    this too, and :func:`aevaluate` leaves their loop free meanwhile. As a flow its history is kept by the Prefect
    server that is configured or kept, or by a temporary one, as ``$LEADLINE_SERVER`` says, and workers can score. What
    it leaves in the store is the same.

    Args:
        data: The cases with the models' answers: a path, a DataFrame (pandas, polars), an Arrow table, a list of
            dicts, lists by column, or a dataset of Hugging Face, ragas or deepeval. Columns have the names that files
            may have, or are named with ``map``.
        metrics: What to measure: ids of evaluators, ``leadline.metrics.bleu(…)``, classes, and functions of a row.
            Default: what suits the data.
        judge: The judge: its name, or settings such as ``{"model": "openai/gpt-4o-mini", "max_cost": 2}``.
        policy: The gate's policy: its name or a TOML file.
        against: An earlier run to compare with, so that the report says what is newly broken and fixed.
        name: A name for the run, and for a dataset that has none.
        store: Where scores, runs and reports are kept. Default: ``$LEADLINE_STORE`` or ``./.leadline``.
        config: All that is to be done, instead of data and settings.
        flow: Run it as a Prefect flow.
        **settings: Further fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`, for example
            ``suite="rules"`` or ``fail_on="high"``.

    Returns:
        The scores, means and problems as DataFrames, what the gate says, and where the report is.

    Raises:
        UsageError: There is no such setting, evaluator or judge, or a value makes no sense.
        DatasetError: The data was refused; rows are counted from 1.
    """
    if (config is None) == (data is None):
        raise UsageError("evaluate takes either a dataset or a config.", code=ErrorCode.CONFIG_OPTION)
    picked = chosen_metrics(metrics)
    given = {"judge": judge, "policy": policy, "against": against, "name": name, "store": store, "metrics": picked.ids}
    named = [*settings, *(key for key, value in given.items() if value)]
    if config is not None:
        if named:
            raise UsageError(
                f"evaluate takes either a config or settings such as {named[0]}.", code=ErrorCode.CONFIG_OPTION
            )
        return _evaluated(config, None, (), flow=flow)
    with _requested(data, picked, given, settings) as (config, staged):
        return _evaluated(config, staged, picked.own, flow=flow)


class Request(NamedTuple):
    """An evaluation that could begin: its configuration, and its dataset, evaluators and policy.

    Attributes:
        config: The configuration.
        prepared: What it comes to.
    """

    config: EvaluateConfig
    prepared: Prepared


@contextmanager
def requested(data: Data, **settings: Any) -> Iterator[Request]:
    """Check a request for :func:`evaluate` and load its dataset, without scoring anything.

    Args:
        data: The data.
        **settings: Arguments of :func:`evaluate`.

    Raises:
        UsageError: There is no such setting, evaluator, judge or policy.
        DatasetError: The data was refused.
    """
    given = {name: settings.pop(name, None) for name in ("judge", "policy", "against", "name", "store")}
    picked = chosen_metrics(settings.pop("metrics", ()))
    with _requested(data, picked, given, settings) as (config, staged), lent(picked.own), _naming(staged):
        yield Request(config, prepare(config))


@contextmanager
def _requested(
    data: Data, picked: Chosen, given: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[tuple[EvaluateConfig, Staged]]:
    """Make the configuration of a request, with a file of its data while the block lasts."""
    store, policy, against = given["store"], given["policy"], given["against"]
    place = store.location if isinstance(store, Store) else None if store is None else os.fspath(store)
    values = requested_values(settings, picked, given["judge"]) | {
        "policy": None if policy is None else os.fspath(policy),
        "against": against.run if isinstance(against, Result) else against,
        "name": given["name"] or "",
        "store": place,
    }
    checked(EvaluateConfig, values | {"dataset": "-"})  # before anything is written
    with scratch_folder(Store.open(place), "inputs") as folder:
        staged = stage(data, folder, values["name"])
        yield checked(EvaluateConfig, values | {"dataset": staged.path}), staged


async def aevaluate(data: Data = None, **settings: Any) -> Result:
    """Do what :func:`evaluate` does in a thread, so that the event loop of the caller goes on meanwhile.

    Args:
        data: As for :func:`evaluate`.
        **settings: As for :func:`evaluate`.
    """
    return await asyncio.to_thread(partial(evaluate, data, **settings))


def requested_values(settings: Mapping[str, Any], picked: Chosen, judge: Any) -> dict[str, Any]:
    """Return the fields of the configuration that metrics, judge and further settings come to.

    Args:
        settings: Further settings.
        picked: The metrics.
        judge: The judge, as :func:`evaluate` takes it.
    """
    values = dict(settings)
    if picked.ids:
        values["evaluators"] = (*values.get("evaluators", ()), *picked.ids)
        values["params"] = {**values.get("params", {}), **picked.params}
    if judge is not None:
        access = {"model": judge} if isinstance(judge, str) else judge
        more = access.model_dump(exclude_unset=True) if isinstance(access, JudgeAccess) else dict(access)
        values["judges"] = {**dict(values.get("judges", {})), **more}
    if picked.own:  # only this process knows them
        values |= {"processes": 1, "dispatch": Dispatch.INLINE}
    return values


def _evaluated(config: EvaluateConfig, staged: Staged | None, own: Any, *, flow: bool) -> Result:
    from leadline.flows.evaluate.run import record_time

    store = Store.open(config.store)
    with timed_by(Timeline()) as timeline, lent(own), _naming(staged):
        outcome = _recorded(config) if flow else _directly(config, staged)
        return Result(record_time(outcome, store, timeline), store)


@contextmanager
def _naming(staged: Staged | None) -> Iterator[None]:
    """Have refusals of data name it as the user knows it."""
    try:
        yield
    except DatasetError as error:
        if staged is None or not staged.is_own:
            raise
        raise staged.refusal(error) from None


P = ParamSpec("P")
R = TypeVar("R")


class _Steps(DirectSteps):
    """Runs the steps in this process; data that was handed over is recorded as what it is.

    Args:
        staged: The data.
    """

    def __init__(self, staged: Staged | None) -> None:
        self._shown = staged.shown if staged is not None and staged.is_own else ""

    def step(self, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self._shown and "config" in kwargs:
            kwargs["config"] = {**kwargs["config"], "dataset": self._shown}
        done = super().step(name, function, *args, **kwargs)
        return replace(done, source=self._shown) if self._shown and isinstance(done, LoadedDataset) else done


def _directly(config: EvaluateConfig, staged: Staged | None) -> EvaluateResult:
    """Run an evaluation in this process."""
    from leadline.flows.evaluate.run import run_evaluation

    chosen(config, check_key=True)
    return run_evaluation(config, _Steps(staged))


def _recorded(config: EvaluateConfig) -> EvaluateResult:
    """Run an evaluation as a Prefect flow."""
    from leadline.flows.prefect_server.choice import Choice, ServerUse, chosen_server
    from leadline.flows.prefect_server.resolve import ensure_api

    choice = chosen_server()
    if not choice.stated and choice.use == ServerUse.NONE:
        choice = Choice(ServerUse.TEMPORARY)
    with ensure_api(choice=choice, first=lambda: prepare(config, check_key=True)) as api:
        if api is None:
            return _directly(config, None)
        from leadline.flows.evaluate.flow import evaluate as recorded

        result: EvaluateResult = recorded(config)
        return result
