"""The store and ``leadline.toml``: every fault, as all that read them find it."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State
from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    LeadlineError,
    UsageError,
    extensions,
    settings_document,
    settings_table,
)
from leadline.tasks.ground.files import locked
from leadline.tasks.ledger.ledger import LEDGER_VARIABLE, ledger_place, require_ledger
from leadline.tasks.store.store import FORMAT, Store, format_of

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
    from leadline.evaluators.core.user_evaluators import load_evaluator_file
    from leadline.evaluators.judge_client.budget import team_budgets
    from leadline.evaluators.judge_client.choice import find_canaries, find_evaluator_files, find_judges
    from leadline.flows.command.options import fill_in
    from leadline.flows.evaluate.config import EvaluateConfig
    from leadline.flows.prefect.outside_requests import allowed
    from leadline.flows.prefect.resolve import chosen_server
    from leadline.flows.shared.projects import projects
    from leadline.pytest_plugin.sessions import session_settings
    from leadline.tasks.db.csv_files import is_guarded
    from leadline.tasks.judges.labels.labelling_tasks import guides
    from leadline.tasks.load.columns import ColumnNames, map_columns, project_map
    from leadline.tasks.plan.selection import standing_params
    from leadline.tasks.policy.policy import load_policy

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


def examine_store(location: str | None) -> Iterator[Diagnosis]:
    """Yield the state of the store; one that is not there is not made.

    Args:
        location: The store, as ``--store`` names it.
    """
    named = location or os.environ.get("LEADLINE_STORE") or ".leadline"
    if "://" not in named and not Path(named).expanduser().exists():
        yield Diagnosis("store", State.OK, f"{named} is not there yet; the first run makes it")
        return
    store = Store.open(location)
    number = format_of(store.root)
    if number < FORMAT:
        advice = "leadline store migrate, when no run is at work"
        yield Diagnosis("store", State.MISSING, f"{named} has format {number}, today's is {FORMAT}", advice)
    else:
        yield Diagnosis("store", State.OK, f"{named}, format {number}")
    yield from _writable(store.root)
    if "://" not in named:
        yield from _permissions(store.root)
    yield from _ledger(store)


def _writable(root: Path) -> Iterator[Diagnosis]:
    probe = root / f".doctor-{os.getpid()}"
    try:
        with locked(probe):
            pass
    except OSError as error:
        if not os.access(root, os.W_OK):
            advice = f"Make {root} writable for this user, or name another store: --store DIR"
            yield Diagnosis("store", State.BROKEN, f"cannot be written: {error.strerror or error}", advice)
        else:
            advice = "Keep it on a file system with locks, or in a bucket"
            yield Diagnosis("store", State.BROKEN, f"its file system has no locks: {error.strerror or error}", advice)
    else:
        yield Diagnosis("store", State.OK, "can be written and locked")
    finally:
        probe.unlink(missing_ok=True)


def _permissions(root: Path) -> Iterator[Diagnosis]:
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & stat.S_IWOTH:
        advice = f"chmod o-w {root}"
        yield Diagnosis("store", State.BROKEN, f"every user of this machine may write it (mode {mode:o})", advice)
    else:
        others = "shared with others" if mode & 0o077 else "for its user alone"
        yield Diagnosis("store", State.OK, f"{others} (mode {mode:o})")


def _ledger(store: Store) -> Iterator[Diagnosis]:
    place = ledger_place(store)
    if isinstance(place, str):
        require_ledger()
        yield Diagnosis("ledger", State.OK, f"the PostgreSQL database of {LEDGER_VARIABLE} answers")
    elif not place.exists():
        yield Diagnosis("ledger", State.OK, f"{place.name} is made with the first call")
    else:
        from leadline.tasks.ledger.ledger import read_ledger

        read_ledger(store).teams("2026-01")
        yield Diagnosis("ledger", State.OK, f"{place.name} can be read")
