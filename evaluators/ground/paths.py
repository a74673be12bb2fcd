"""Paths as users write them."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError


def from_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with a leading ``~`` or ``~user`` replaced by the home folder.

    Raises:
        UsageError: There is no such user, or nobody knows the folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise UsageError(
            f"{os.fspath(path)!r}: the home folder of {user} is not known.",
            hint="Write it out.",
            code=ErrorCode.CONFIG_PATH,
        ) from None
