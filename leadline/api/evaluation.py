"""Evaluating from Python: what the command ``evaluate`` does, as a function, on files and on data in memory.

Where functions of the program are to answer, they are asked before their answers are evaluated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar, Unpack

from pydantic import ValidationError

from leadline.api.displays import shown
from leadline.api.metric_choice import Chosen, Metrics, chosen_metrics
from leadline.api.result import Evaluated, Result
from leadline.api.settings import AcceptedSettings, checked
from leadline.evaluators.core import lent
from leadline.evaluators.ground import DatasetError, ErrorCode, LeadlineError, UsageError, refusals_of
from leadline.evaluators.ground.code_digest import code_digest
from leadline.flows.collect import Collection, CollectResult
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import Prepared, chosen, prepare
from leadline.flows.prefect.kept_history import recorded
from leadline.flows.prefect.server import ensure_api
from leadline.flows.shared.job import JobSteps, reading
from leadline.flows.shared.judge_access import limits_for
from leadline.flows.shared.settings import Dispatch, JudgeAccess
from leadline.tasks.collect import Target
from leadline.tasks.collect.ask_target import held
from leadline.tasks.collect.cases import Case
from leadline.tasks.ground.files import scratch_folder
from leadline.tasks.ground.timeline import Timeline, in_part, timed_by
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store

TargetFunction: TypeAlias = Callable[[Case], Any]
"""A function that answers a case: a text, or a dict with ``answer``, ``context``, ``cost_usd`` …; sync or async."""

Targets: TypeAlias = "TargetFunction | Mapping[str, TargetFunction]"
"""One function, or several under the names that their models have."""

_NOT_OF_A_NAME: Final = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskedTarget:
    """Functions that are to answer.

    Attributes:
        functions: The functions by the key of their model.
        settings: Fields of :class:`~leadline.tasks.collect.targets.Target` for all of them, such as ``timeout_s``.
    """

    functions: Mapping[str, TargetFunction]
    settings: Mapping[str, Any]


def asked(target: Targets, settings: Mapping[str, Any], model_name: str = "") -> AskedTarget:
    """Return the functions that are to answer, after a look at what is known of them.

    Args:
        target: One function or several.
        settings: Settings of their calls.
        model_name: The model of one function; by default it is called after the function.

    Raises:
        UsageError: One is no function, or a setting makes no sense.
    """
    functions = dict(target) if isinstance(target, Mapping) else {model_name or _name_of(target): target}
    if not isinstance(settings, Mapping):
        raise UsageError(
            f"target_settings is a {type(settings).__name__}, not a mapping.",
            hint='Write it as {"timeout_s": 30}.',
            code=ErrorCode.COLLECT_TARGETS,
        )
    for key, function in functions.items():
        if not callable(function):
            raise UsageError(
                f"The target {key} is a {type(function).__name__}, not a function.",
                hint="Give one that takes a case and returns its answer.",
                code=ErrorCode.COLLECT_FUNCTION,
            )
        _target(key, "in_memory:function", settings)
    if not functions:
        raise UsageError("No target was given.", code=ErrorCode.COLLECT_FUNCTION)
    return AskedTarget(functions, settings)


def collect_answers(
    store: Store, asked: AskedTarget, suite: str, output: Path, reading: Mapping[str, Any], *, team: str | None = None
) -> CollectResult:
    """Put all cases to the functions, and write their answers as a dataset.

    A function that was asked before with the same code, or with the version that the settings state, is not asked
    again. What it fails at is an error of the host in place of an answer.

    Args:
        asked: The functions.
        suite: File with the cases.
        output: The file to write.
        reading: How the file is read.
        team: Team whose budget the calls count against.

    Raises:
        LeadlineError: No function answered anything.
        DatasetError: The cases were refused.
    """
    loaded = load_dataset(store, suite, cases_only=True, **{k: v for k, v in reading.items() if k != "model_name"})
    with ExitStack() as handed_over:
        targets = tuple(
            _target(key, handed_over.enter_context(held(function, _identifier(key, function, asked))), asked.settings)
            for key, function in asked.functions.items()
        )
        return Collection(store, loaded, targets, output, limits_for(None, None, team)).collected(JobSteps())


def _identifier(key: str, function: TargetFunction, asked: AskedTarget) -> str:
    """Return a name of a function that no other code has, unless the user states its version."""
    stated = asked.settings.get("version")
    source = hashlib.sha256(key.encode()).hexdigest() if stated else code_digest(function).digest
    return f"_{_NOT_OF_A_NAME.sub('_', _name_of(function))[:80]}_{source[:32]}"


def _name_of(function: Any) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", None) or type(inner).__name__).strip("<>")


def _target(key: str, path: str, settings: Mapping[str, Any]) -> Target:
    try:
        return Target.model_validate({**settings, "key": key, "function": path})
    except ValidationError as error:
        raise UsageError(
            f"target_settings: {'; '.join(refusals_of(error, Target))}.", code=ErrorCode.COLLECT_TARGETS
        ) from None


if TYPE_CHECKING:
    from leadline.api.inputs import Data, Staged

P = ParamSpec("P")
R = TypeVar("R")

_MAP: Final = re.compile(r"--map (?:'(?:[^']*)'|[^\s;,]*[^\s;,.])")
_MAPS: Final = re.compile(rf"{_MAP.pattern}(?: {_MAP.pattern})*")
_OPTION: Final = re.compile(r"--([a-z][a-z-]*) ([A-Z]{2,})\b")

_UNKNOWN: Final = "-"
"""Stands for the dataset in settings that are checked before it is written."""


def evaluate(
    data: Data = None,
    *,
    metrics: Metrics | Iterable[Metrics] = (),
    judge: str | Mapping[str, Any] | JudgeAccess | None = None,
    target: Targets | None = None,
    target_settings: Mapping[str, Any] | None = None,
    policy: str | os.PathLike[str] | None = None,
    against: str | Evaluated | None = None,
    name: str = "",
    store: str | os.PathLike[str] | Store | None = None,
    progress: bool | None = None,
    config: EvaluateConfig | None = None,
    flow: bool = False,
    **settings: Unpack[AcceptedSettings],
) -> Result:
    """Score answers and write a report.

    The run happens in this process, without Prefect; notebooks and programs with an event loop of their own may call
    this too, and :func:`aevaluate` leaves their loop free meanwhile. As a flow its history is kept by the Prefect
    server that is configured or that ``leadline service server start`` keeps, and workers can score; where there is
    none, that is said. What it leaves in the store is the same.

    Args:
        data: The cases with the models' answers: a path, a DataFrame (pandas, polars), an Arrow table, a list of
            dicts, lists by column, or a dataset of Hugging Face, ragas or deepeval. Columns have the names that files
            may have, or are named with ``map``. With a target the questions are enough, also as a list of texts.
        metrics: Metrics to measure: ids of evaluators, ``leadline.metrics.bleu(…)``, classes, and functions of a row.
            Default: what suits the data.
        judge: The judge: its name, or settings such as ``{"model": "openai/gpt-4o-mini", "max_cost": 2}``.
        target: A function that answers a case, sync or async, or several by the names of their models. Its answers
            are evaluated; what it raises is an error of the host. It is not asked again while its code is the same.
        target_settings: Settings of its calls: ``version`` (vouches for the code), ``timeout_s``, ``max_in_flight`` …
        policy: The gate's policy: its name or a TOML file.
        against: An earlier run to compare with, so that the report says what is newly broken and fixed.
        name: A name for the run, and for a dataset that has none.
        store: Where scores, runs and reports are kept. Default: ``$LEADLINE_STORE`` or ``./.leadline``.
        progress: Show how far the run is. Default: in notebooks and on terminals.
        config: All that is to be done, instead of data and settings.
        flow: Run it as a Prefect flow.
        **settings: Further fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`, for example
            ``suite="rules"`` or ``fail_on="high"``.

    Returns:
        The scores, means and problems as DataFrames, what the gate says, and where the report is.

    Raises:
        UsageError: There is no such setting, evaluator or judge, or a value makes no sense.
        DatasetError: The data was refused; rows are counted from 1.
        LeadlineError: The target answered nothing.
    """
    if (config is None) == (data is None):
        raise UsageError("evaluate takes either a dataset or a config.", code=ErrorCode.CONFIG_OPTION)
    picked = chosen_metrics(metrics)
    if config is not None:
        given = {"judge": judge, "target": target, "policy": policy, "against": against, "name": name, "store": store}
        named = [*settings, *(key for key, value in given.items() if value), *(("metrics",) if picked.ids else ())]
        if named:
            raise UsageError(
                f"evaluate takes either a config or settings such as {named[0]}.", code=ErrorCode.CONFIG_OPTION
            )
        return _evaluated(config, picked, flow=flow, progress=progress)
    asks = None if target is None else asked(target, target_settings or {}, str(settings.pop("model_name", "")))
    given = {"judge": judge, "policy": policy, "against": against, "name": name, "store": store}
    with _requested(data, picked, given, settings, questions=asks is not None) as (config, staged):
        return _evaluated(config, picked, staged, asks, flow=flow, progress=progress)


class Request(NamedTuple):
    """An evaluation that could begin: its configuration, and its dataset, evaluators and policy.

    Attributes:
        prepared: What it comes to; where functions are to answer, its dataset has the cases alone.
        targets: The functions that are to answer, by the keys of their models.
    """

    config: EvaluateConfig
    prepared: Prepared
    targets: Mapping[str, TargetFunction]


@contextmanager
def requested(data: Data, **settings: Any) -> Iterator[Request]:
    """Check a request for :func:`evaluate` and load its dataset, without scoring anything.

    Args:
        **settings: Arguments of :func:`evaluate`.

    Raises:
        UsageError: There is no such setting, evaluator, judge or policy.
        DatasetError: The data was refused.
    """
    given = {name: settings.pop(name, None) for name in ("judge", "policy", "against", "name", "store")}
    picked = chosen_metrics(settings.pop("metrics", ()))
    target, target_settings = settings.pop("target", None), settings.pop("target_settings", None)
    name = str(settings.pop("model_name", "")) if target is not None else ""
    functions = asked(target, target_settings or {}, name).functions if target is not None else {}
    load = partial(load_dataset, cases_only=True) if functions else None
    with (
        _requested(data, picked, given, settings, questions=bool(functions)) as (config, staged),
        lent(picked.own),
        _naming(staged),
    ):
        yield Request(config, prepare(config, load=load), functions)


@contextmanager
def _requested(
    data: Data, picked: Chosen, given: Mapping[str, Any], settings: Mapping[str, Any], *, questions: bool = False
) -> Iterator[tuple[EvaluateConfig, Staged]]:
    """Make the configuration of a request, with a file of its data while the block lasts."""
    store, policy, against = given["store"], given["policy"], given["against"]
    values = requested_values(settings, picked, given["judge"]) | {
        "policy": _location(policy),
        "against": getattr(against, "run", against),
        "name": given["name"] or "",
        "store": store.location if isinstance(store, Store) else _location(store),
    }
    config = checked(EvaluateConfig, values | {"dataset": _UNKNOWN})  # before anything is written
    from leadline.api.inputs import stage  # by PyArrow, which a check of one answer does without

    with scratch_folder(Store.open(config.store).root, "inputs") as folder:
        staged = stage(data, folder, config.name, questions=questions)
        yield config.model_copy(update={"dataset": staged.path}), staged


def _awaitable(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a function that does the same in a thread."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(function, *args, **kwargs)

    call.__name__ = call.__qualname__ = "aevaluate"
    call.__doc__ = (
        "Do what :func:`evaluate` does in a thread, so that the event loop of the caller goes on meanwhile.\n\n"
        "It takes the same arguments. A task that is cancelled stops waiting; the run goes on to its end."
    )
    return call


aevaluate = _awaitable(evaluate)


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
        values["judges"] = {**_judges(values.get("judges", {})), **_judges(judge)}
    if picked.own:
        _keep_here(values)
    return values


def _judges(judge: Any) -> dict[str, Any]:
    if isinstance(judge, JudgeAccess):
        return judge.model_dump(exclude_unset=True)
    return dict(judge) if isinstance(judge, Mapping) else {"model": judge}  # what is no name is refused as one


def _location(path: Any) -> Any:
    """Return a path as text; anything else as it is, for the settings to refuse."""
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _keep_here(values: dict[str, Any]) -> None:
    """Have metrics scored in this process that no other one knows."""
    if values.get("dispatch", Dispatch.AUTO) not in (Dispatch.AUTO, Dispatch.INLINE):
        raise UsageError(
            "Functions and classes of this program are scored in its process, not on workers.",
            hint="Put them into a file and name it with evaluator_files, or leave out dispatch.",
            code=ErrorCode.CONFIG_OPTION,
        )
    values |= {"dispatch": Dispatch.INLINE, "processes": 1}


def _evaluated(
    config: EvaluateConfig,
    picked: Chosen,
    staged: Staged | None = None,
    asks: AskedTarget | None = None,
    *,
    flow: bool,
    progress: bool | None,
) -> Result:
    """Collect answers where somebody is to be asked, and evaluate the dataset of a configuration."""
    from leadline.flows.evaluate.job import record_time

    store = Store.open(config.store)
    collected = None
    with timed_by(Timeline()) as timeline, lent(picked.own), shown(progress), _naming(staged):
        if staged is not None and asks is not None:
            chosen(config, check_key=True)  # a mistake is found before anybody is asked
            with scratch_folder(store.root, "answers") as folder:
                output = folder / f"{Path(staged.path).stem}.jsonl"
                how = reading(config.map, format=config.format)
                with in_part("collect"):
                    collected = collect_answers(store, asks, staged.path, output, how, team=config.judges.team)
                answered = config.model_copy(update={"dataset": str(output), "map": {}, "format": "auto"})
                outcome = _run(answered, replace(staged, path=str(output), is_own=True), flow=flow)
        else:
            outcome = _run(config, staged, flow=flow)
        return Result(record_time(outcome, store, timeline), store, collected)


def _run(config: EvaluateConfig, staged: Staged | None, *, flow: bool) -> EvaluateResult:
    """Check a request, and evaluate: as a Prefect flow where that is wanted and there is a server, else here."""
    from leadline.flows.evaluate.job import Evaluate  # it scores, which a check of one answer does not

    job = Evaluate(asks_here=True)
    checked = job.check(config)
    if staged is not None and staged.is_own:  # data that was handed over is recorded as what it is
        loaded = replace(checked.loaded, source=staged.shown)
        checked = replace(checked, loaded=loaded, shown=staged.shown)
    if flow:
        with ensure_api() as api:
            if api is not None:
                return recorded(api, job, config, checked)
    return job.carry_out(config, job.plain_steps(config), checked)


@contextmanager
def _naming(staged: Staged | None) -> Iterator[None]:
    """Have refusals name data as the user knows it, and say what to do as one does it here."""
    try:
        yield
    except LeadlineError as error:
        raised = staged.refusal(error) if staged is not None and isinstance(error, DatasetError) else error
        raised.message, raised.hint = _in_python(raised.message), _in_python(raised.hint)
        raised.args = (raised.message,)
        raise raised from error.__cause__


def _in_python(text: str) -> str:
    """Return what a text says of options as arguments: ``--map question=COLUMN`` is ``map={"question": "COLUMN"}``."""

    def argument(maps: re.Match[str]) -> str:
        pairs = (option.removeprefix("--map ").strip("'").split("=", 1) for option in _MAP.findall(maps[0]))
        return f"map={json.dumps({pair[0]: pair[-1] for pair in pairs}, ensure_ascii=False)}"

    text = _MAPS.sub(argument, text)
    return _OPTION.sub(lambda option: f'{option[1].replace("-", "_")}="{option[2]}"', text)
