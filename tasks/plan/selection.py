"""Selecting a run's evaluators and embedder: by name, suite, dataset, and what is on this machine.

An evaluator named by id, or by a parameter, always runs. One that came with a suite runs only where the dataset is of
its kind: questions and answers, or data items with annotations. A suite of a purpose, and a run that names nothing,
take less: what suits the data (see :mod:`leadline.tasks.plan.dataset_profile`), what can run here, and of evaluators
that look alike the preferred one.

It is decided once, where the run is planned, and never silently: plan, run and report say which it is and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Evaluator, all_evaluators, get
from leadline.evaluators.core.suites import DEFAULT, PURPOSES, folded, look_alikes, suite
from leadline.evaluators.core.user_evaluators import load_evaluator_file
from leadline.evaluators.ground import (
    FILE,
    INSTALL_CHECKS,
    OFFLINE,
    ErrorCode,
    ModelRef,
    UsageError,
    listing,
    missing_packages,
    need_packages,
    nouns,
    settings_table,
)
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.evaluators.models.catalogue import ALL_MINILM_L6_V2
from leadline.evaluators.models.weights import (
    BGE_SMALL_EN,
    BGE_SMALL_EN_V15,
    INSTALL_OFFLINE,
    is_here,
    runs_offline,
    status,
)
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.dataset_profile import profile, why_not

NOT_HERE: Final = "not on this machine"
"""Ends the reason for leaving out an evaluator whose weights could be fetched."""

NO_JUDGE: Final = "it asks a judge, and none is named (--judge MODEL)"
BY_NAME: Final = "it runs where it is named (-e ID)"
_DEFAULTS: Final = (BGE_SMALL_EN, BGE_SMALL_EN_V15, ALL_MINILM_L6_V2)
"""The embedders that evaluators use where nothing else is named."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The evaluators of a request.

    Attributes:
        evaluators: Those that run, configured, sorted by id.
        left_out: Why each other evaluator that nobody excluded does not run, by id.
        unnamed: Ids of the evaluators that were not named by id: they run only on datasets of their kind.
        by_data: Whether the unnamed ones run only where they suit the data, and of look-alikes only one.
    """

    evaluators: tuple[Evaluator, ...]
    left_out: Mapping[str, str]
    unnamed: frozenset[str] = frozenset()
    by_data: bool = False


def choose(
    suite_name: str | None,
    ids: Sequence[str],
    params: Mapping[str, Mapping[str, Any]],
    settings: Settings,
    standing: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Choice:
    """Return the evaluators of a request, before its dataset is known.

    Named evaluators run, by id or by suite; rows stay unscored where the weights are absent. If none is named, or a
    suite of a purpose, those run whose weights are on this machine, and those that ask a judge if there is one.

    Args:
        ids: Further evaluators.
        standing: Parameters that evaluators have besides, whether they are named or not.

    Raises:
        UsageError: The suite, an evaluator or a parameter is unknown, parameters are given for an evaluator that does
            not run, a named evaluator asks a judge and there is none, or it needs a package that is not installed.
    """
    load_own_evaluators(settings)
    if suite_name is None and not ids:
        suite_name = DEFAULT
    by_data = suite_name == DEFAULT or suite_name in PURPOSES
    wanted = {*ids, *(suite(suite_name) if suite_name else ()), *(params if suite_name == DEFAULT else ())}
    for unused in sorted(set(params) - wanted):
        get(unused)
        raise UsageError(
            f"Parameters were given for {unused}, which does not run.",
            hint=f"Add: -e {unused}",
            code=ErrorCode.PLAN_UNUSED_PARAMETERS,
        )
    for id_ in () if settings.judges else (*ids, *(params if by_data else ())):
        if get(id_).spec.judge:
            raise UsageError(
                f"{id_} asks a judge, and none is named.",
                hint="Add: --judge MODEL (or LEADLINE_JUDGE).",
                code=ErrorCode.PLAN_NEEDS_JUDGE,
            )
    named = set(ids) | set(params)
    ctx = EvalContext(settings)
    evaluators, left_out = [], {}
    for kind in (get(id_) for id_ in sorted(wanted)):
        given = params.get(kind.spec.id, {}) if kind.spec.id in named else kind.unnamed
        given = {**standing.get(kind.spec.id, {}), **given}
        evaluator = kind(kind.parameters.build(kind.spec.id, given))
        if kind.spec.id in named:
            need_packages(kind.spec.id, kind.spec.packages)
            problem = ""
        else:
            problem = _lacks(kind.spec.packages) or (_cannot_run(evaluator, ctx) if by_data else "")
        if problem:
            left_out[kind.spec.id] = problem
        else:
            evaluators.append(evaluator)
    if suite_name == DEFAULT:
        left_out |= dict.fromkeys(all_evaluators().keys() - wanted, BY_NAME)
    return Choice(tuple(evaluators), left_out, frozenset(wanted - named), by_data)


def _lacks(packages: Sequence[str]) -> str:
    missing = missing_packages(packages)
    return f"{listing(missing)} {nouns(len(missing), 'is', 'are')} not installed ({INSTALL_CHECKS})" if missing else ""


def _cannot_run(evaluator: Evaluator, ctx: EvalContext) -> str:
    if evaluator.spec.judge and not ctx.settings.judges:
        return NO_JUDGE
    return "" if ctx.settings.allow_download else missing_weights(evaluator, ctx)[0]


def load_own_evaluators(settings: Settings) -> None:
    """Register the evaluators that the user wrote in Python or as YAML files, in this process too.

    Raises:
        UsageError: A file or the folder cannot be read, or a file is not a valid evaluator.
    """
    for file in settings.evaluator_files:
        load_evaluator_file(file)
    if settings.evaluators_dir:
        from leadline.evaluators.judge.file_evaluators import load_folder  # few runs have such files

        load_folder(settings.evaluators_dir)


def missing_weights(evaluator: Evaluator, ctx: EvalContext) -> tuple[str, tuple[ModelRef, ...]]:
    """Return why an evaluator's weights cannot be loaded (``""`` if they can), and those that are not here.

    Weights that are here but damaged, or pickled where that is not allowed, are a reason but not among the latter.
    """
    found = [status(ref, allow_pickle=ctx.settings.allow_pickle) for ref in evaluator.models(ctx)]
    absent = tuple(each.ref for each in found if each.path is None)
    problems = [f"{each.ref}: {each.problem}" for each in found if each.path and not each.present]
    if absent:
        problems.append(f"{' and '.join(map(str, absent))} {nouns(len(absent), 'is', 'are')} {NOT_HERE}")
    return "; ".join(problems), absent


def named_models(evaluators: Sequence[Evaluator]) -> list[str]:
    """Return the models that parameters of evaluators name, as the one that others are compared with."""
    judges = (evaluator for evaluator in evaluators if isinstance(evaluator, JudgeEvaluator))
    return [pairs.baseline for judge in judges if (pairs := judge.pairs_to_ask()) is not None and pairs.baseline]


def applicable_to(choice: Choice, dataset: Path) -> Choice:
    """Drop the unnamed evaluators that a dataset is not for; if none would remain, keep all."""
    if not choice.unnamed and not choice.left_out:
        return choice
    facts = profile(dataset)
    built = {evaluator.spec.id: evaluator for evaluator in choice.evaluators}
    unsuitable = {
        id_: why_not(built.get(id_) or get(id_)(), facts, by_kind=choice.by_data)
        for id_ in (*choice.unnamed, *choice.left_out)
    }
    left_out = dict(choice.left_out) | {id_: why for id_, why in unsuitable.items() if why}
    if choice.by_data:
        left_out |= _like_those_that_run(built.keys() & choice.unnamed - left_out.keys(), left_out)
    kept = tuple(evaluator for id_, evaluator in built.items() if id_ not in left_out)
    return replace(choice, evaluators=kept, left_out=dict(sorted(left_out.items()))) if kept else choice


def _like_those_that_run(running: Set[str], left_out: Mapping[str, str]) -> dict[str, str]:
    """Return which evaluators look like a preferred one that runs: of those that would run, and that run on request."""
    alike = folded(running)
    best = running - alike.keys()
    asked = [id_ for id_, why in left_out.items() if why == BY_NAME]
    alike |= {id_: like for id_ in asked if (like := next((o for o in look_alikes(id_) if o in best), ""))}
    return {id_: f"it looks like {like}, which runs" for id_, like in alike.items()}


def standing_params() -> dict[str, dict[str, Any]]:
    """Return the parameters by evaluator id.

    Raises:
        UsageError: The file cannot be read, or the table holds something else.
    """
    allow = settings_table("privacy", ["allow"]).get("allow", [])
    if not isinstance(allow, list) or not all(isinstance(text, str) for text in allow):
        raise UsageError(
            f"{FILE}: [privacy] allow is a list of texts.",
            hint='Write: allow = ["support@acme.com", "@acme.com", "+1 212 736 5000"]',
            code=ErrorCode.CONFIG_CONTENT,
        )
    if not allow:
        return {}
    return {
        id_: {"allow": tuple(allow)}
        for id_, kind in all_evaluators().items()
        if kind.spec.family == "privacy" and "allow" in kind.parameters.model_fields
    }


def with_default_embedder(settings: Settings) -> Settings:
    """Return settings that use the offline embedder in place of default ones that are not on this machine.

    Settings that name an embedder or let weights be fetched stay as they are, also where the offline one is not
    installed.
    """
    if settings.embedder or settings.allow_download or not runs_offline(settings):
        return settings
    return replace(settings, offline_for=tuple(ref.source for ref in _DEFAULTS if not is_here(ref)))


def embedder_in_words(choice: Choice, settings: Settings) -> str:
    """Say which embedder the evaluators of a run use, and why; ``""`` where none would use one."""
    asked = {ref.source for evaluator in choice.evaluators for ref in _embedders(evaluator, settings)}
    if not asked:
        absent = [get(id_)() for id_, why in choice.left_out.items() if why.endswith(NOT_HERE)]
        lost = {ref.source for evaluator in absent for ref in _embedders(evaluator, settings)}
        if not lost or settings.embedder:
            return ""
        return f"none, since {_not_here(lost)} and the offline one is not installed ({INSTALL_OFFLINE})"
    if settings.embedder and len(asked) == 1:
        return f"{next(iter(asked))}, named by --embedder or leadline.toml"
    replaced = asked.intersection(settings.offline_for)
    own = f"{listing(sorted(asked - replaced))}, as the evaluators name them" if asked - replaced else ""
    offline = f"{OFFLINE} (all-MiniLM-L6-v2), since {_not_here(replaced)}" if replaced else ""
    return "; ".join(filter(None, (own, offline)))


def _embedders(evaluator: Evaluator, settings: Settings) -> list[ModelRef]:
    """Return the embedders that an evaluator asks for, before the offline one takes their place."""
    ctx = EvalContext(replace(settings, offline_for=()))
    return [ref for ref in evaluator.models(ctx) if ref.kind == "embedder"]


def _not_here(sources: set[str]) -> str:
    return f"{listing(sorted(sources))} {nouns(len(sources), 'is', 'are')} not on this machine"
