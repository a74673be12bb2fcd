"""Every fault of ``leadline.toml``, as all that take settings from it read it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.evaluators.ground.extensions import extensions
from leadline.evaluators.ground.settings_file import FILE, settings_document, settings_table

PART: Final = str(FILE)
GROUP: Final = "leadline.settings"
"""Group of entry points: a function that reads a plug-in's table, and refuses what it cannot understand."""


def examine_settings() -> Iterator[Diagnosis]:
    """Yield the faults of the file, each table read as its mechanism reads it."""
    if not FILE.exists():
        yield Diagnosis(PART, State.OK, "none here; leadline init FILE writes one")
        return
    try:
        document = settings_document()
    except LeadlineError as error:
        yield Diagnosis(PART, State.BROKEN, str(error))
        return
    readers, faults = _readers(), 0
    for name in document:
        if name not in readers:
            faults += 1
            near = difflib.get_close_matches(name, readers, n=1)
            advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(readers))}"
            yield Diagnosis(PART, State.BROKEN, f"nothing reads [{name[:40]}]", advice)
            continue
        try:
            readers[name]()
        except LeadlineError as error:
            faults += 1
            yield Diagnosis(PART, State.BROKEN, str(error))
    if not faults:
        yield Diagnosis(PART, State.OK, f"{', '.join(document) or 'empty'}: no fault")


def _readers() -> Mapping[str, Callable[[], Any]]:
    """Return for each name at the top of the file what reads it."""
    import os

    from leadline.evaluators.core.evaluator_files import load_evaluator_file
    from leadline.evaluators.judge_client.choice import find_canaries, find_evaluator_files, find_judges
    from leadline.evaluators.judge_client.team_budgets import team_budgets
    from leadline.flows.command.options import fill_in
    from leadline.flows.evaluate.config import EvaluateConfig
    from leadline.flows.prefect.outside_requests import allowed
    from leadline.flows.prefect.resolve import chosen_server
    from leadline.flows.shared.projects import projects
    from leadline.pytest_plugin.session_settings import session_settings
    from leadline.tasks.db.csv_files import is_guarded
    from leadline.tasks.judges.labels.criterion import guides
    from leadline.tasks.load.column_map import ColumnNames, map_columns, project_map
    from leadline.tasks.plan.standing_params import standing_params
    from leadline.tasks.policy.policy_file import load_policy

    def evaluators() -> None:
        for file in find_evaluator_files(None):
            load_evaluator_file(file)

    def canaries() -> None:
        named = find_canaries(None)
        if named and not Path(named).is_file():
            raise UsageError(f"{FILE}: there is no file {named}, which canaries names.", code=ErrorCode.JUDGE_CANARIES)

    core: dict[str, Callable[[], Any]] = {
        "budgets": lambda: team_budgets(None),
        "canaries": canaries,
        "csv": is_guarded,
        "dataset": lambda: map_columns(ColumnNames(), project_map()),
        "evaluate": lambda: fill_in(EvaluateConfig, "evaluate", {"dataset": "-"}, settings_table("evaluate")),
        "evaluators": evaluators,
        "judges": lambda: find_judges(None, None, None, os.environ),
        "labels": guides,
        "policy": load_policy,
        "privacy": standing_params,
        "projects": projects,
        "pytest": session_settings,
        "server": chosen_server,
        "service": allowed,
    }
    return {entry.name: partial(_read_by, entry) for entry in extensions(GROUP)} | core


def _read_by(entry: EntryPoint) -> Any:
    return entry.load()()
