"""Selecting the evaluators of a run: by name or suite, by the weights on this machine, and by the dataset's kind.

An evaluator named by id always runs. One that was not named (it came by default or with a suite) runs only where the
dataset is of its kind: questions and answers, or data items with annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.evaluator_files import load_evaluator_file
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import RowField
from leadline.evaluators.core.settings import Settings
from leadline.evaluators.core.suites import suite
from leadline.evaluators.core.text import nouns
from leadline.evaluators.models.refs import ModelRef
from leadline.evaluators.models.weights import status
from leadline.tasks.db.connection import attach_dataset, connect
from leadline.tasks.db.statements import sql

NOT_HERE: Final = "not on this machine"
"""Ends the reason for leaving out an evaluator whose weights could be fetched."""

_OF_ITEMS: Final = frozenset({RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS})


@dataclass(frozen=True, slots=True)
class Choice:
    """The evaluators of a request.

    Attributes:
        evaluators: Those that run, configured, sorted by id.
        left_out: Why each unnamed evaluator that could measure nothing here does not run, by id.
        unnamed: Ids of the evaluators that were not named by id: they run only on datasets of their kind.
    """

    evaluators: tuple[Evaluator, ...]
    left_out: Mapping[str, str]
    unnamed: frozenset[str] = frozenset()


def choose(
    suite_name: str | None, ids: Sequence[str], params: Mapping[str, Mapping[str, Any]], settings: Settings
) -> Choice:
    """Return the evaluators of a request.

    Named evaluators run, by id or by suite; rows stay unscored where the weights are absent. If none is named, every
    evaluator runs whose weights are on this machine, including those that ask a judge if there is one. Evaluators for
    a benchmark's own cases run only on request.

    Args:
        suite_name: A suite, or ``None``.
        ids: Further evaluators.
        params: Parameters by evaluator id.
        settings: The run's settings.

    Raises:
        UsageError: The suite, an evaluator or a parameter is unknown, parameters are given for an evaluator that does
            not run, or a named evaluator asks a judge and there is none.
    """
    load_own_evaluators(settings)
    for id_ in () if settings.judges else ids:
        if get(id_).spec.judge:
            raise UsageError(
                f"{id_} asks a judge, and none is named.",
                hint="Add: --judge MODEL (or LEADLINE_JUDGE).",
                code=ErrorCode.PLAN_NEEDS_JUDGE,
            )
    named = bool(suite_name or ids)
    default = "all" if settings.judges else "no-judge"
    wanted = {*ids, *suite(suite_name or default)} if suite_name or not ids else set(ids)
    if not named:
        wanted = {id_ for id_ in wanted if id_ in params or not get(id_).spec.on_request}
    for unused in sorted(set(params) - wanted):
        get(unused)
        raise UsageError(
            f"Parameters were given for {unused}, which does not run.",
            hint=f"Add: -e {unused}",
            code=ErrorCode.PLAN_UNUSED_PARAMETERS,
        )
    ctx = EvalContext(settings)
    evaluators, left_out = [], {}
    for kind in (get(id_) for id_ in sorted(wanted)):
        evaluator = kind(kind.parameters.build(kind.spec.id, dict(params.get(kind.spec.id, {}))))
        required = named or kind.spec.id in params or settings.allow_download
        problem = "" if required else missing_weights(evaluator, ctx)[0]
        if problem:
            left_out[kind.spec.id] = problem
        else:
            evaluators.append(evaluator)
    return Choice(tuple(evaluators), left_out, frozenset(wanted - set(ids) - set(params)))


def load_own_evaluators(settings: Settings) -> None:
    """Register the evaluators that the user wrote in Python or as YAML files, in this process too.

    Raises:
        UsageError: A file or the folder cannot be read, or a file is not a valid evaluator.
    """
    for file in settings.evaluator_files:
        load_evaluator_file(file)
    if settings.evaluators_dir:
        from leadline.evaluators.judge.yaml_evaluators import load_folder

        load_folder(settings.evaluators_dir)


def missing_weights(evaluator: Evaluator, ctx: EvalContext) -> tuple[str, tuple[ModelRef, ...]]:
    """Return why an evaluator's weights cannot be loaded (``""`` if they can), and those that are not here.

    Weights that are here but damaged, or pickled where that is not allowed, are a reason but not among the latter.

    Args:
        evaluator: The evaluator.
        ctx: Gives the models that its settings name.
    """
    found = [status(ref, allow_pickle=ctx.settings.allow_pickle) for ref in evaluator.models(ctx)]
    absent = tuple(each.ref for each in found if each.path is None)
    problems = [f"{each.ref}: {each.problem}" for each in found if each.path and not each.present]
    if absent:
        problems.append(f"{' and '.join(map(str, absent))} {nouns(len(absent), 'is', 'are')} {NOT_HERE}")
    return "; ".join(problems), absent


def applicable_to(choice: Choice, dataset: Path) -> Choice:
    """Drop the unnamed evaluators that do not apply to a dataset; if none would remain, keep all.

    Args:
        choice: The evaluators of the request.
        dataset: Folder of the loaded dataset.
    """
    with connect() as connection:
        attach_dataset(connection, dataset)
        texts, *geometries, instances = connection.execute(sql("plan/dataset_kind")).fetchall()[0]
    present = {name for name, there in zip(("whole", "box", "polygon", "raster"), geometries, strict=True) if there}
    if present and not instances:
        present = {"region"}
    kept = tuple(
        evaluator
        for evaluator in choice.evaluators
        if evaluator.spec.id not in choice.unnamed or _applies(evaluator, present, texts=texts)
    )
    left_out = {name: why for name, why in choice.left_out.items() if _applies(get(name)(), present, texts=texts)}
    return replace(choice, evaluators=kept, left_out=left_out) if kept else choice


def _applies(evaluator: Evaluator, present: set[str], *, texts: bool) -> bool:
    if _OF_ITEMS.isdisjoint(evaluator.required):
        return texts
    return bool(present.intersection(evaluator.spec.annotations or present))
