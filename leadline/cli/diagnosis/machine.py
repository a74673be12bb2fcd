"""The machine and the installation: room, open files, a clock that agrees; Python, optional packages, weights."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State
from leadline.evaluators.ground import count, listing

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
    import shutil

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
            found[extra] = {each.name: _fits(each.name, str(each.specifier)) for each in its if each.name not in plain}
    return {extra: packages for extra, packages in found.items() if packages}


def _fits(package: str, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version(package), prereleases=True)
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
