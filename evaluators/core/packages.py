"""Optional packages of evaluators: imported when they are used, and one line that says how to install them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.core.text import listing, nouns

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
