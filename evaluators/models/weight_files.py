"""The files of weights: where a machine keeps them, how they get here, whether they are complete, safe and intact.

The hub's cache is read without its library or a network; its layout is documented at
https://huggingface.co/docs/huggingface_hub/guides/manage-cache: a folder per repository, ``refs/<branch>`` files that
name commits, and a folder per commit below ``snapshots``. Nothing here imports a model library before something is
fetched, so that a plan stays fast.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, ModelUnavailable

WEIGHTS: Final = "model.safetensors"
SHARDED: Final = "model.safetensors.index.json"
PICKLES: Final = ("pytorch_model.bin", "pytorch_model.bin.index.json")
PICKLED_SHARDS: Final = "pytorch_model-*.bin"
TENSORFLOW: Final = "tf_model.h5"
"""Weights in HDF5, a plain data format; read only for a model that has no safetensors."""
SUMMAC_CONV: Final = "summac_conv_vitc_sent_perc_e.bin"
"""The published weights of SummaC Conv: 32 numbers in PyTorch's archive format, read without unpickling."""

TOKENIZERS: Final = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
LOADED: Final = ("*.json", "*.txt", "*.model", "*.safetensors")
"""Names of the files that loading reads, as patterns; also what is fetched from a hub."""

TOKENIZER_FILES: Final = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "*.model",
    "*.txt",
)
"""Names of the files that a tokenizer is loaded from, as patterns."""

OTHER_FORMATS: Final = ("onnx", "openvino", "original", "coreml")
"""Folders with the same weights in formats that are not used here."""

_HEADER_LIMIT: Final = 100 * 1024 * 1024

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED: Final = re.compile(r"[0-9a-f]{7,39}")

GITHUB: Final = "https://github.com"
"""The site of repositories; files are served below ``/OWNER/NAME/raw/COMMIT``."""

_LARGEST: Final = 1024 * 1024
_GITHUB_SECONDS: Final = 30.0


def defect(
    folder: Path,
    *,
    allow_pickle: bool = False,
    tokenizer: bool = True,
    weights: bool = True,
    tensorflow: bool = False,
    summac: bool = False,
) -> str:
    """Return what keeps a folder from being loaded as a model, or ``""``.

    A folder is loadable when it has a configuration, a tokenizer and complete, well-formed safetensors; pickled
    weights count only with ``allow_pickle``, since loading one can run any code.

    Args:
        folder: Where the model should be.
        allow_pickle: Whether pickled weights are good enough.
        tokenizer: Whether a tokenizer is needed; some models use another's.
        weights: Whether weights are needed; a tokenizer has none.
        tensorflow: Whether TensorFlow's HDF5 is good enough where there are no safetensors.
        summac: Whether the weights of SummaC Conv are meant: a single file, with nothing beside it.
    """
    if not folder.is_dir():
        return "there is no such directory"
    if summac:
        return _summac_defect(folder, allow_pickle=allow_pickle)
    modules = _modules(folder)
    if modules is None:
        return "modules.json is not valid"
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        return "it has no config.json"
    if tokenizer and not any((module / name).is_file() for module in modules for name in TOKENIZERS):
        return "it has no tokenizer"
    weighty = not weights
    for module in modules if weights else ():
        keras = tensorflow and (module / TENSORFLOW).is_file()
        fault = _weights_defect(module, allow_pickle=allow_pickle or keras)
        if fault:
            return fault
        weighty = weighty or keras or any((module / name).is_file() for name in (WEIGHTS, SHARDED, *PICKLES))
    return "" if weighty else f"it has no weights ({WEIGHTS})"


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold weights, sorted."""
    return sorted(path for path in _loaded(folder) if path.suffix == ".safetensors")


def size(folder: Path) -> int:
    """Return the size in bytes of all files that loading reads."""
    return sum(path.stat().st_size for path in _loaded(folder))


def content_digest(folder: Path) -> str:
    """Return 64 hex digits over the names and contents of all files that loading reads.

    Takes some 0.2 s per 100 MB once per process; remembered while sizes and times of the files stay the same.
    """
    total = hashlib.sha256()
    for path in _loaded(folder):
        total.update(f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\n".encode())
    return total.hexdigest()


def sha256(path: Path) -> str:
    """Return a file's sha256 as hex digits; remembered while its size and time stay the same."""
    stat = path.stat()
    return _sha256(str(path.resolve()), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256(path: str, length: int, modified: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def corrupted(folder: Path) -> list[Path]:
    """Return the weight files whose content is not what their hub recorded.

    The hub's cache names a large file by its sha256; a file without such a name can only be checked for its form.
    """
    bad = []
    for path in weight_files(folder):
        recorded = path.resolve().name
        is_hash = len(recorded) == 64 and all(digit in "0123456789abcdef" for digit in recorded)
        if _malformed(path) or (is_hash and sha256(path) != recorded):
            bad.append(path)
    return bad


def _summac_defect(folder: Path, *, allow_pickle: bool) -> str:
    if (folder / WEIGHTS).is_file():
        return f"{WEIGHTS} is truncated or corrupted" if _malformed(folder / WEIGHTS) else ""
    if not (folder / SUMMAC_CONV).is_file():
        return f"it has no weights ({WEIGHTS} or {SUMMAC_CONV})"
    if zipfile.is_zipfile(folder / SUMMAC_CONV) or allow_pickle:
        return ""
    return f"its weights are pickled ({SUMMAC_CONV}), which could run any code when loaded"


def _modules(folder: Path) -> list[Path] | None:
    listing = folder / "modules.json"
    if not listing.is_file():
        return [folder]
    try:
        entries = json.loads(listing.read_text(encoding="utf-8"))
        return [folder, *(folder / entry["path"] for entry in entries if entry["path"])]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _weights_defect(module: Path, *, allow_pickle: bool) -> str:
    index = module / SHARDED
    if (module / WEIGHTS).is_file():
        shards = [module / WEIGHTS]
    elif index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return f"{SHARDED} is not valid"
        shards = [module / str(name) for name in sorted(names)]
    else:
        pickled = [name for name in PICKLES if (module / name).is_file()]
        if pickled and not allow_pickle:
            return f"its weights are pickled ({pickled[0]}), which could run any code when loaded"
        return ""
    for shard in shards:
        if not shard.is_file():
            return f"{shard.name} is missing"
        if _malformed(shard):
            return f"{shard.name} is truncated or corrupted"
    return ""


def _malformed(path: Path) -> bool:
    """Return whether a safetensors file contradicts its own header (https://github.com/huggingface/safetensors)."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _HEADER_LIMIT:
                return True
            header: dict[str, Any] = json.loads(file.read(length))
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
        return path.stat().st_size != 8 + int(length) + max(ends, default=0)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error):
        return True


def _loaded(folder: Path) -> Iterator[Path]:
    found = []
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if parts[0] in OTHER_FORMATS or any(part.startswith(".") for part in parts) or not path.is_file():
            continue
        if path.name in (*PICKLES, SUMMAC_CONV) or any(
            path.match(pattern) for pattern in (*LOADED, PICKLED_SHARDS, TENSORFLOW)
        ):
            found.append(path)
    yield from sorted(found)


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
