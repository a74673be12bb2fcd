"""Packages of evaluators: which are installed, in which version, and one line that says how to install more."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.text import listing, nouns

INSTALL_CHECKS = "pip install 'leadline[checks]'"
"""Installs what the evaluators of everyday checks need."""


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
