"""Examinations of ``leadline doctor``: the machine, the installation, the setup; a finding is a line with what to do.

Each imports what it needs by itself: a package that is broken is a finding of what needs it, and of nothing else.
"""

from __future__ import annotations

import difflib
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    LeadlineError,
    UsageError,
    count,
    extensions,
    listing,
    masked,
    settings_document,
    settings_table,
)
from leadline.tasks.ground.files import locked
from leadline.tasks.store.store import FORMAT, Store, format_of

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from leadline.evaluators.settings import JudgeConfig


class State(StrEnum):
    """The state of a thing."""

    OK = "ok"
    MISSING = "missing"
    """Something optional is not here: what needs it cannot run, the rest can."""
    BROKEN = "broken"
    """A command will fail, or its results cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of one thing.

    Attributes:
        part: The thing.
        found: What was found, in a sentence without its point; never a key.
        advice: What to do, ``""`` where nothing is.
    """

    part: str
    state: State
    found: str
    advice: str = ""


Examination: TypeAlias = Callable[[], Iterable[Diagnosis]]


def diagnose(examinations: Sequence[tuple[str, Examination]]) -> Iterator[Diagnosis]:
    """Yield what examinations find, in their order; one that fails is a finding itself.

    Args:
        examinations: Each with the name of its part, which says where it failed.
    """
    for part, examine in examinations:
        try:
            yield from examine()
        except LeadlineError as error:
            yield Diagnosis(part, State.BROKEN, masked(str(error)))
        except (OSError, ValueError, ImportError) as error:
            yield Diagnosis(part, State.BROKEN, masked(f"{type(error).__name__}: {error}"))


LEAST_FREE_GB: Final = 1.0
"""Free space below which a run of middling size may not end."""

LEAST_FILES: Final = 1024
"""Open files below which many processes, judge calls and segments at once may fail."""

MOST_SKEW_S: Final = 5.0
"""Difference between the clocks of this machine and of the store's file system from which on signs of life mislead."""

_SENSIBLE_SINCE: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OLDEST: Final = (3, 11)
_NOT_FOR_USERS: Final = frozenset({"dev", "docs", "test"})


def examine_disk(store: Path) -> Iterator[Diagnosis]:
    """Yield the free space of the store and of temporary files.

    Args:
        store: The store's folder, or that of its working copy; it need not be there.
    """
    for name, folder in (("store", _existing(store)), ("temporary files", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free / 1e9
        found = f"{free:,.1f} GB free for {name} ({folder})"
        if free < LEAST_FREE_GB:
            advice = (
                "Make room: leadline store gc --dry-run says what could go" if name == "store" else "Make room there"
            )
            yield Diagnosis("disk", State.BROKEN, found, advice)
        else:
            yield Diagnosis("disk", State.OK, found)


def examine_clock(store: Path) -> Iterator[Diagnosis]:
    """Yield whether this machine's clock agrees with that of the store's file system.

    Args:
        store: The store's folder; it need not be there.
    """
    now = datetime.now(UTC)
    if now < _SENSIBLE_SINCE:
        yield Diagnosis("clock", State.BROKEN, f"it is {now:%Y-%m-%d %H:%M} here", "Set the clock, for instance by NTP")
        return
    folder = _existing(store)
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.gettempdir())
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        skew = Path(file.name).stat().st_mtime - time.time()
    found = f"{now:%Y-%m-%d %H:%M} UTC, {abs(skew):.1f} s from the clock of the store's file system"
    if abs(skew) > MOST_SKEW_S:
        yield Diagnosis("clock", State.BROKEN, found, "Set both clocks by NTP: hosts that share a store go by them")
    else:
        yield Diagnosis("clock", State.OK, found)


def examine_limits() -> Iterator[Diagnosis]:
    """Yield whether the system lets a process open enough files and make locks and memory as it needs."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        yield Diagnosis("limits", State.OK, "none on this system")
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < LEAST_FILES:
        most = "no limit" if hard == unlimited else f"{hard:,}"
        yield Diagnosis(
            "limits", State.BROKEN, f"{soft:,} open files (ulimit -n)", f"ulimit -n {LEAST_FILES}; at most {most} here"
        )
    else:
        files = "any number of" if soft == unlimited else f"{soft:,}"
        room = "any" if memory == unlimited else f"{memory / 1e9:,.1f} GB of"
        yield Diagnosis("limits", State.OK, f"{files} open files, {room} address space")


def _existing(folder: Path) -> Path:
    """Return the nearest folder above that exists."""
    absolute = folder.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.is_dir())


def examine_python() -> Iterator[Diagnosis]:
    """Yield the state of Python and of Leadline's own package."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, leadline {version('leadline')}"
    if sys.version_info >= _OLDEST:
        yield Diagnosis("python", State.OK, found)
    else:
        yield Diagnosis("python", State.BROKEN, found, f"Install Python {'.'.join(map(str, _OLDEST))} or newer")


def examine_extras() -> Iterator[Diagnosis]:
    """Yield which optional packages are here, an extra a line."""
    for extra, packages in sorted(_extras().items()):
        absent = [name for name, fits in packages.items() if not fits]
        if absent:
            yield Diagnosis(
                f"extra {extra}", State.MISSING, f"without {listing(absent)}", f"pip install 'leadline[{extra}]'"
            )
        else:
            yield Diagnosis(f"extra {extra}", State.OK, listing(packages))


def _extras() -> dict[str, dict[str, bool]]:
    """Return the packages of each extra, and whether a version that it takes is installed."""
    from packaging.requirements import Requirement

    own = distribution("leadline")
    requirements = [Requirement(text) for text in own.requires or ()]
    found: dict[str, dict[str, bool]] = {}
    for extra in own.metadata.get_all("Provides-Extra") or ():
        if extra not in _NOT_FOR_USERS:
            its = [each for each in requirements if each.marker and each.marker.evaluate({"extra": extra})]
            plain = {each.name for each in requirements if each.marker is None}
            found[extra] = {each.name: _fits(each.name, each.specifier) for each in its if each.name not in plain}
    return {extra: packages for extra, packages in found.items() if packages}


def _fits(package: str, specifier: SpecifierSet) -> bool:
    try:
        return specifier.contains(version(package), prereleases=True)
    except PackageNotFoundError:
        return False


def examine_weights() -> Iterator[Diagnosis]:
    """Yield which weights evaluators need by default and lack."""
    from leadline.evaluators.core import EvalContext, all_evaluators
    from leadline.evaluators.core.model_evaluator import required_weights
    from leadline.evaluators.models.weights import status

    needed = required_weights([kind() for kind in all_evaluators().values()], EvalContext())
    states = {ref: status(ref) for ref in needed}
    here = sum(found.present for found in states.values())
    absent = [ref for ref, found in states.items() if found.path is None]
    for ref, found in states.items():
        if found.path is not None and not found.present:
            advice = "leadline evaluators models says more"
            yield Diagnosis("weights", State.BROKEN, f"{ref}: {found.problem}", advice)
    if absent:
        users = sorted({user for ref in absent for user in needed[ref]})
        found_ = f"{here} of {count(len(states), 'set')} of weights here; without the others: {listing(users)}"
        advice = "leadline evaluators models pull fetches them; rules, and what takes the offline embedder, do without"
        yield Diagnosis("weights", State.MISSING, found_, advice)
    else:
        yield Diagnosis("weights", State.OK, f"all {count(len(states), 'set')} that evaluators need by default")


_KEYS: Final = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
}
"""Variables with the keys of providers, by the beginning of a model's name."""

QUESTION: Final = "Reply with the word: ready"
REPLY_TOKENS: Final = 16
LONGEST_WAIT_S: Final = 15.0


def examine_server() -> Iterator[Diagnosis]:
    """Yield which Prefect server a run would use, and whether it answers."""
    from leadline.flows.prefect.server import ServerUse, answers, chosen_server, configured_api, running

    api = configured_api()
    if chosen_server() is ServerUse.NONE:
        yield Diagnosis("server", State.OK, "none, as was chosen: runs leave no history in Prefect")
    elif api:
        if answers(api):
            yield Diagnosis("server", State.OK, "the one of PREFECT_API_URL answers")
        else:
            advice = "Start it, or unset PREFECT_API_URL to use one of this machine"
            yield Diagnosis("server", State.BROKEN, "the one of PREFECT_API_URL does not answer", advice)
    elif kept := running():
        if problem := kept.problem():
            yield Diagnosis("server", State.BROKEN, problem, "leadline service server stop, then start")
        else:
            yield Diagnosis("server", State.OK, f"kept at {kept.url}")
    else:
        yield Diagnosis(
            "server", State.OK, "none: runs leave no history in Prefect", "leadline service server start keeps one"
        )


def examine_judges(*, ask: bool = False) -> Iterator[Diagnosis]:
    """Yield which judges are configured, whether their keys are set, and on request whether the default one replies.

    Args:
        ask: Ask the default judge one short question, which may cost a fraction of a cent.
    """
    from leadline.evaluators.judge_client.choice import find_judges
    from leadline.evaluators.settings import JuryConfig, members_of

    judges = find_judges(None, None, None, os.environ)
    if not judges:
        advice = "--judge MODEL, or [judges.NAME] in leadline.toml; evaluators that ask none run without"
        yield Diagnosis("judge", State.MISSING, "none is configured", advice)
    for judge in judges:
        if isinstance(judge, JuryConfig):
            yield Diagnosis(f"judge {judge.key}", State.OK, f"a jury: {judge.model}")
        else:
            yield from _configured(judge)
    for judge in members_of(judges[0]) if ask and judges else ():
        yield _asked(judge)


def _configured(judge: JudgeConfig) -> Iterator[Diagnosis]:
    from leadline.evaluators.judge_client.budget import price

    part, state, advice = f"judge {judge.key}", State.OK, ""
    found = [judge.model]
    variable = _variable(judge)
    if variable is None:
        found.append("runs here" if judge.kind == "local" else "needs no key that is known of")
    elif os.environ.get(variable):
        found.append(f"key in {variable}")
    else:
        state, advice = State.MISSING, f"export {variable}=…"
        found.append(f"no key: {variable} is not set")
    if price(judge) is None:
        found.append("price unknown, so --max-cost refuses it")
        advice = advice or f"Write input_cost_per_token and output_cost_per_token into [judges.{judge.key}]"
    yield Diagnosis(part, state, ", ".join(found), advice)


def _variable(judge: JudgeConfig) -> str | None:
    """Return the variable that should hold a judge's key, ``None`` where it needs none or that is not known."""
    if judge.kind == "local":
        return None
    if judge.api_key_env or judge.api_base:
        return judge.api_key_env
    provider, slash, _ = judge.model.partition("/")
    return _KEYS.get(provider if slash else "openai")


def _asked(judge: JudgeConfig) -> Diagnosis:
    """Ask a judge one question in one attempt, outside of any run and its ledger."""
    from leadline.evaluators.judge_client.calls import JudgeError
    from leadline.evaluators.judge_client.event_loop import run
    from leadline.evaluators.judge_client.providers import remote_transport
    from leadline.evaluators.judge_client.transport import AttemptError

    part = f"judge {judge.key}"
    if judge.kind == "local":
        return Diagnosis(part, State.OK, "was not asked: leadline evaluators models says whether its weights are here")
    hasty = judge.model_copy(update={"timeout_s": min(judge.timeout_s, LONGEST_WAIT_S)})
    question = [{"role": "user", "content": QUESTION}]
    try:
        reply = run(remote_transport(hasty).send(hasty, question, None, REPLY_TOKENS))
    except (JudgeError, AttemptError) as error:
        return Diagnosis(part, State.BROKEN, f"does not reply: {error}", "Look at its address, its key and its log")
    return Diagnosis(part, State.OK, f"replied in {reply.seconds:.1f} s")


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
    from leadline.flows.prefect.server import chosen_server
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
    from leadline.tasks.ledger.ledger import LEDGER_VARIABLE, ledger_place, read_ledger, require_ledger

    place = ledger_place(store)
    if isinstance(place, str):
        require_ledger()
        yield Diagnosis("ledger", State.OK, f"the PostgreSQL database of {LEDGER_VARIABLE} answers")
    elif not place.exists():
        yield Diagnosis("ledger", State.OK, f"{place.name} is made with the first call")
    else:
        read_ledger(store).teams("2026-01")
        yield Diagnosis("ledger", State.OK, f"{place.name} can be read")
