"""Packages with evaluators and other extensions: which are installed, what each brings, and how to install more."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.text import listing, nouns

INSTALL_CHECKS = "pip install 'leadline[checks]'"
"""Installs what the evaluators of everyday checks need."""

OWN: Final = "leadline.plugins."
_PLUGINS: Final = Path(__file__).parents[2] / "plugins"


def missing_packages(packages: Iterable[str]) -> tuple[str, ...]:
    """Return those of some packages that are not installed; nothing is imported."""
    return tuple(name for name in packages if importlib.util.find_spec(name) is None)


def need_packages(user: str, packages: Iterable[str]) -> None:
    """Refuse to go on without the packages that an evaluator needs.

    Args:
        user: Id of the evaluator.
        packages: Names of packages, as they are imported.

    Raises:
        UsageError: One is not installed.
    """
    missing = missing_packages(packages)
    if missing:
        raise UsageError(
            f"{user} needs the {nouns(len(missing), 'package')} {listing(missing)}.",
            hint=f"Install: {INSTALL_CHECKS}",
            code=ErrorCode.CONFIG_PACKAGE,
        )


@cache
def package_version(package: str) -> str:
    """Return the version of the distribution that a package belongs to, Python's for its own, ``""`` without one.

    Args:
        package: Name of the package, as it is imported.
    """
    if package in sys.stdlib_module_names:
        return sys.version
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    names = _distributions().get(package, ())  # a tenth of a second
    return " ".join(f"{name} {version(name)}" for name in names)


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@lru_cache(maxsize=1)
def _all(path: tuple[str, ...]) -> Any:
    """Return the entry points of all packages on Python's path; this reads the metadata of each."""
    return entry_points()


def extensions(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, without those of Leadline's own plug-ins that are not in this checkout.

    Ours come last: in a table by name no other package replaces them.

    Args:
        group: For example ``leadline.commands``.
    """
    found = _all(tuple(sys.path)).select(group=group)
    return tuple(sorted((each for each in found if not is_own(each) or _source_of(each).exists()), key=is_own))


def is_own(entry: EntryPoint) -> bool:
    """Return whether an entry point is of one of Leadline's own plug-ins."""
    return entry.value.startswith(OWN)


def own_source(entry: EntryPoint) -> str:
    """Return the source of the module that an entry point of an own plug-in names, without importing it."""
    return _source_of(entry).read_text(encoding="utf-8")


def loaded(group: str, name: str) -> Any:
    """Return the object that an extension of a group brings, or ``None`` if there is none of that name.

    Args:
        name: Name of the entry point.
    """
    entry = {each.name: each for each in extensions(group)}.get(name)
    return entry.load() if entry else None


def _source_of(entry: EntryPoint) -> Path:
    path = _PLUGINS.joinpath(*entry.module.removeprefix(OWN).split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
