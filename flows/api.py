"""Evaluating and comparing from Python: what the commands ``evaluate`` and ``compare`` do, as functions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.refusal import refusals_of
from leadline.flows.compare.config import CompareConfig
from leadline.flows.compare.prepare import run_comparison
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import chosen, prepare
from leadline.tasks.store.store import Store
from leadline.tasks.timeline import Timeline, timed_by

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison

C = TypeVar("C", bound=BaseModel)


def evaluate(
    dataset: str | os.PathLike[str] | None = None,
    *,
    config: EvaluateConfig | None = None,
    flow: bool = False,
    **settings: Any,
) -> EvaluateResult:
    """Score the answers in a dataset and write a report.

    The run happens in this process, without Prefect; notebooks and programs with an event loop of their own may call
    this too. As a flow its history is kept by the Prefect server that is configured or kept, or by a temporary one, as
    ``$LEADLINE_SERVER`` says, and workers can score. What it leaves in the store is the same.

    Args:
        dataset: File with the cases and the models' answers.
        config: All that is to be done, instead of a dataset and settings.
        flow: Run it as a Prefect flow.
        **settings: Fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`, for example ``suite="rules"``
            or ``judges={"model": "openai/gpt-4o-mini", "max_cost": 2}``.

    Returns:
        The run, where its report is, and what the gate says.

    Raises:
        UsageError: There is no such setting, evaluator or judge, or a value makes no sense.
        DatasetError: The dataset was refused.
    """
    if (config is None) == (dataset is None):
        raise UsageError("evaluate takes either a dataset or a config.", code=ErrorCode.CONFIG_OPTION)
    if config is None:
        config = _built(EvaluateConfig, settings | {"dataset": os.fspath(dataset or "")})
    elif settings:
        raise UsageError(
            f"evaluate takes either a config or settings such as {next(iter(settings))}.", code=ErrorCode.CONFIG_OPTION
        )
    from leadline.flows.evaluate.run import record_time

    with timed_by(Timeline()) as timeline:
        result = _recorded(config) if flow else _directly(config)
        return record_time(result, open_store(config.store), timeline)


def _directly(config: EvaluateConfig) -> EvaluateResult:
    """Run an evaluation in this process."""
    from leadline.flows.evaluate.run import run_evaluation
    from leadline.flows.evaluate.steps import DirectSteps

    chosen(config, check_key=True)
    return run_evaluation(config, DirectSteps())


def _recorded(config: EvaluateConfig) -> EvaluateResult:
    """Run an evaluation as a Prefect flow."""
    from leadline.flows.prefect_server.choice import Choice, ServerUse, chosen_server
    from leadline.flows.prefect_server.resolve import ensure_api

    choice = chosen_server()
    if not choice.stated and choice.use == ServerUse.NONE:
        choice = Choice(ServerUse.TEMPORARY)
    with ensure_api(choice=choice, first=lambda: prepare(config, check_key=True)) as api:
        if api is None:
            return _directly(config)
        from leadline.flows.evaluate.flow import evaluate as recorded

        result: EvaluateResult = recorded(config)
        return result


def compare(
    baseline: str | EvaluateResult = "", candidate: str | EvaluateResult = "latest", **options: Any
) -> Comparison:
    """Compare a candidate with a baseline, case by case, and decide whether it is worse.

    Args:
        baseline: What :func:`evaluate` returned, or a run: its id, the beginning of it, ``latest``, ``latest~1``,
            ``tag:NAME``, or one of its models as ``RUN:MODEL``. Left out where ``versions`` are named.
        candidate: What is new, named in the same way; ``:MODEL`` is a model of the baseline's run.
        **options: Fields of :class:`~leadline.flows.compare.config.CompareConfig`, for example ``margin=0.02``.

    Returns:
        The verdict, the reason, each metric with its interval, and where the report is.

    Raises:
        UsageError: There is no such run, model, metric or option.
    """
    sides = {
        name: side.run if isinstance(side, EvaluateResult) else side
        for name, side in (("baseline", baseline), ("candidate", candidate))
    }
    return run_comparison(_built(CompareConfig, options | sides))


def open_store(location: str | os.PathLike[str] | None = None) -> Store:
    """Open the store of scores, runs and reports.

    Args:
        location: A folder or an object store's URL; by default ``$LEADLINE_STORE`` or ``./.leadline``.
    """
    return Store.open(location)


def _built(model: type[C], values: dict[str, Any]) -> C:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{'; '.join(refusals_of(error, model))}.", code=ErrorCode.CONFIG_OPTION) from None
