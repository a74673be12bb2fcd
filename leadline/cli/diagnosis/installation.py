"""The state of Python, the optional packages and the weights."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State
from leadline.evaluators.ground.text import count, listing

OLDEST: Final = (3, 11)

_NOT_FOR_USERS: Final = frozenset({"dev", "docs", "test"})


def examine_python() -> Iterator[Diagnosis]:
    """Yield the state of Python and of Leadline's own package."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, leadline {version('leadline')}"
    if sys.version_info >= OLDEST:
        yield Diagnosis("python", State.OK, found)
    else:
        yield Diagnosis("python", State.BROKEN, found, f"Install Python {'.'.join(map(str, OLDEST))} or newer")


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
    from leadline.evaluators.core.context import EvalContext
    from leadline.evaluators.core.registry import all_evaluators
    from leadline.evaluators.core.requirements import required_weights
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
