"""A single file of a GitHub repository at one commit, for weights that no model hub has."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import ModelUnavailable
from leadline.evaluators.models import hub

SITE: Final = "https://github.com"
"""Where repositories are; files are served below ``/OWNER/NAME/raw/COMMIT``."""

_LARGEST: Final = 1024 * 1024
_SECONDS: Final = 30.0


def fetch(source: str, commit: str, name: str) -> Path:
    """Fetch a small file into a folder of the hub's cache, where weights are looked for; return the folder.

    Args:
        source: The repository as ``OWNER/NAME``.
        commit: All 40 hex digits of a commit.
        name: The file's name in the repository's root.

    Raises:
        ModelUnavailable: GitHub cannot be reached, has no such file, or the file is larger than 1 MiB.
    """
    folder = hub.snapshot(source, commit)
    target = folder / name
    if target.is_file():
        return folder
    url = f"{SITE}/{source}/raw/{commit}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as reply:  # noqa: S310 - the scheme is the constant's
            content = reply.read(_LARGEST + 1)
        if not 0 < len(content) <= _LARGEST:
            raise OSError(f"{len(content)} bytes is no plausible size")
        folder.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{name}.{os.getpid()}.part")
        partial.write_bytes(content)
        os.replace(partial, target)
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"{url} cannot be fetched: {error}.",
            hint=f"Check the network, or give a directory that holds {name}.",
            code=ErrorCode.MODEL_FETCH,
        ) from error
    return folder
