"""Examinations of ``leadline doctor``: the machine and the installation; each finding is a line with what to do."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from leadline.evaluators.ground import LeadlineError, listing, masked

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


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
