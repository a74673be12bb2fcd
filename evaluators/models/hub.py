"""The Hugging Face hub: its cache on this machine, read without its library or a network, and fetching into it.

The cache's layout is documented at https://huggingface.co/docs/huggingface_hub/guides/manage-cache: a folder per
repository, ``refs/<branch>`` files that name commits, and a folder per commit below ``snapshots``.
"""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import ErrorCode, ModelUnavailable
from leadline.evaluators.models.weight_files import OTHER_FORMATS

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED: Final = re.compile(r"[0-9a-f]{7,39}")

GITHUB: Final = "https://github.com"
"""The site of repositories; files are served below ``/OWNER/NAME/raw/COMMIT``."""

_LARGEST: Final = 1024 * 1024
_GITHUB_SECONDS: Final = 30.0


def is_commit(revision: str | None) -> bool:
    """Return whether a revision names one commit, and no branch that can move."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def cache_folder() -> Path:
    """Return the folder of the hub's cache, by the hub's own environment variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def snapshot(source: str, commit: str) -> Path:
    """Return where the cache keeps a repository at a commit, whether it is there or not.

    Args:
        source: The repository's id.
        commit: All 40 hex digits of a commit.
    """
    return _repository(source) / "snapshots" / commit


def known_commit(source: str, revision: str) -> str | None:
    """Return the commit that a branch, tag or abbreviated commit stands for, if the cache knows it.

    Args:
        source: The repository's id.
        revision: A branch, a tag, or the first 7 to 39 hex digits of a commit.
    """
    folder = _repository(source)
    try:
        commit = (folder / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        commit = ""
    if is_commit(commit):
        return commit
    if _ABBREVIATED.fullmatch(revision):
        matches = [path.name for path in folder.glob(f"snapshots/{revision}*")]
        if len(matches) == 1:
            return matches[0]
    return None


def fetch(source: str, revision: str | None, patterns: Sequence[str], *, progress: bool) -> Path:
    """Fetch the files of a repository that match the patterns; what is here stays, what was broken off is resumed.

    Args:
        source: The repository's id.
        revision: A branch, tag or commit; ``None`` for the default branch.
        patterns: Shell patterns of the wanted files' paths.
        progress: Show progress bars.

    Raises:
        ModelUnavailable: The hub's library is not installed, or the hub cannot be reached or refuses.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
    try:
        import httpx
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    except ImportError:
        raise ModelUnavailable(
            "The library that fetches models (huggingface_hub) is not installed.",
            hint="Install the extra 'models'.",
            code=ErrorCode.MODEL_LIBRARY,
        ) from None
    (enable_progress_bars if progress else disable_progress_bars)()
    try:
        return Path(
            snapshot_download(
                source,
                revision=revision,
                cache_dir=cache_folder(),
                endpoint=os.environ.get("HF_ENDPOINT"),
                allow_patterns=list(patterns),
                ignore_patterns=[f"{folder}/*" for folder in OTHER_FORMATS],
            )
        )
    except (HfHubHTTPError, HFValidationError, httpx.HTTPError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        name = f"{source}@{revision[:8]}" if revision else source
        raise ModelUnavailable(
            f"{name} cannot be fetched: {reason.rstrip(' .:')}.",
            hint="Check the name and the network, or give a directory that holds the weights.",
            code=ErrorCode.MODEL_FETCH,
        ) from error


def fetch_from_github(source: str, commit: str, name: str) -> Path:
    """Fetch a small file of a GitHub repository, for weights that no model hub has, and return its folder.

    The folder is in the hub's cache, where weights are looked for.

    Args:
        source: The repository as ``OWNER/NAME``.
        commit: All 40 hex digits of a commit.
        name: The file's name in the repository's root.

    Raises:
        ModelUnavailable: GitHub cannot be reached, has no such file, or the file is larger than 1 MiB.
    """
    folder = snapshot(source, commit)
    target = folder / name
    if target.is_file():
        return folder
    url = f"{GITHUB}/{source}/raw/{commit}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=_GITHUB_SECONDS) as reply:  # noqa: S310 - the scheme is the constant's
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


def _repository(source: str) -> Path:
    return cache_folder() / f"models--{source.replace('/', '--')}"
