"""Running local models: device, quiet loading without a network, batches that fit the memory, and one copy of each.

Beside the embedders a run may need a handful of classifiers and language models. Each is loaded when it is first
asked for and stays, so that a worker that scores many chunks loads it once. When a new one would make the weights in
memory exceed a quarter of the device's memory, the models that have not been used for longest go first; so a model
that fills the device is the only resident one.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cachetools import LRUCache

from leadline.evaluators.ground import (
    ErrorCode,
    ModelRef,
    ModelUnavailable,
    OutOfMemory,
    UsageError,
    missing_packages,
)
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.weights import ONNX_PACKAGES, content_of, locate, runs_without_torch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

T = TypeVar("T")
Number = TypeVar("Number", bound="np.floating[Any]")

log = logging.getLogger("leadline.models")

FILLING: Final = 0.2
"""Share of a batch that filling up its shorter texts may take, besides what another run of the model would cost."""

BATCH_CPU: Final = 32
BATCH_ACCELERATOR: Final = 256

SHARE: Final = 0.25
"""Part of the device's memory that weights may take before older models have to go."""

_UNKNOWN_MEMORY: Final = 8 * 2**30

busy: Final = threading.RLock()
"""Held while a model runs: one thread computes at a time."""

_models: Final[LRUCache[tuple[ModelRef, str, Settings, str], tuple[Any, int]]] = LRUCache(
    math.inf, getsizeof=lambda entry: entry[1]
)


def device_for(settings: Settings) -> str:
    """Return the torch device of a run: the one asked for, or with ``auto`` CUDA, Apple's MPS or the CPU.

    Raises:
        ModelUnavailable: torch is not installed, or does not see the device that was asked for.
    """
    # Read when torch is loaded. Threads that spin while they wait make a model several times slower next to other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with libraries():
        import torch
    asked = settings.device
    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, index = asked.partition(":")
    found = {
        "cpu": not index,
        "mps": not index and torch.backends.mps.is_available(),
        "cuda": torch.cuda.is_available()
        and (not index or (index.isdigit() and int(index) < torch.cuda.device_count())),
    }
    if not found.get(kind, False):
        raise ModelUnavailable(
            f"There is no device {asked!r} on this machine.",
            hint="Choose auto, cpu, cuda, cuda:N or mps.",
            code=ErrorCode.MODEL_DEVICE,
        )
    return asked


def require_device(settings: Settings) -> None:
    """Refuse a device that this machine lacks, where each evaluator would leave its rows unscored for it.

    Raises:
        UsageError: The run asked for a device that is not here.
    """
    if settings.device in ("auto", "cpu"):
        return
    try:
        device_for(settings)
    except ModelUnavailable as error:
        what = f"--device {settings.device}: {error.message}"
        raise UsageError(what, hint=error.hint, code=ErrorCode.MODEL_DEVICE) from error


def device_in_use(settings: Settings) -> str:
    """Return the device on which this process runs models, ``""`` if it has run none with torch."""
    return device_for(settings) if "torch" in sys.modules else ""


def model_settings(settings: Settings) -> Settings:
    """Return only those choices of a run that a loaded model depends on, for use as the key of a cache of models."""
    return type(settings)(
        device=settings.device,
        precision=settings.precision,
        backend=settings.backend,
        allow_download=settings.allow_download,
        allow_pickle=settings.allow_pickle,
    )


def batch_size_for(device: str) -> int:
    """Return how many texts go through a model at once, at most."""
    return BATCH_CPU if device == "cpu" else BATCH_ACCELERATOR


@contextmanager
def libraries() -> Iterator[None]:
    """Import model libraries, or modules that do, inside this block: where they lack, the error says what to install.

    Raises:
        ModelUnavailable: One is not installed.
    """
    try:
        yield
    except ImportError:
        raise ModelUnavailable(
            "The libraries that run models (torch, transformers, sentence-transformers) are not installed.",
            hint="Install the extra 'models'.",
            code=ErrorCode.MODEL_LIBRARY,
        ) from None


def require_onnx() -> None:
    """Check that ONNX Runtime is installed, and what prepares its inputs.

    Raises:
        ModelUnavailable: It is not.
    """
    if missing_packages(ONNX_PACKAGES):
        raise ModelUnavailable(
            "ONNX Runtime is not installed.",
            hint="Install it with: pip install 'leadline[onnx]', or choose models.backend=torch.",
            code=ErrorCode.MODEL_LIBRARY,
        )


def require_cpu(ref: ModelRef, settings: Settings) -> None:
    """Check that a run asks for nothing that ONNX Runtime does not do here.

    Args:
        settings: The run's choices.

    Raises:
        ModelUnavailable: It asks for another device than the CPU, or for another number format than float32.
    """
    if settings.device not in ("auto", "cpu") or settings.precision not in ("auto", "float32"):
        raise ModelUnavailable(
            f"{ref} runs on the CPU and in float32 with the ONNX backend.",
            hint="Leave out --device and models.precision, or models.backend=onnx.",
            code=ErrorCode.MODEL_NOT_LOADED,
        )


def sentence_device(ref: ModelRef, settings: Settings) -> str:
    """Return where a model of Sentence Transformers runs: with ONNX Runtime on the CPU.

    Raises:
        ModelUnavailable: The run asks for what is not here, or for what ONNX Runtime does not do.
    """
    if runs_without_torch(ref, settings):
        return "cpu"
    if settings.backend != "onnx":
        return device_for(settings)
    require_cpu(ref, settings)
    return "cpu"


@contextmanager
def loading(ref: ModelRef) -> Iterator[None]:
    """Load a model inside this block: silently, with the network shut, every failure as :class:`ModelUnavailable`.

    The weights are a folder on this machine by then; libraries that ask the hub about them all the same
    (about adapters, for example) get the hub's own offline error, which they handle.
    """
    with libraries():
        from huggingface_hub import constants
        from transformers.utils import logging as transformers_logging
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    online, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        with failing_as_unavailable(ref):
            yield
    finally:
        constants.HF_HUB_OFFLINE = online


@contextmanager
def failing_as_unavailable(ref: ModelRef) -> Iterator[None]:
    """Load a model inside this block: every failure is raised as :class:`ModelUnavailable`."""
    try:
        yield
    except (ModelUnavailable, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0][:300]
        raise ModelUnavailable(
            f"{ref} cannot be loaded: {type(error).__name__}: {reason.rstrip('.')}.",
            hint="Check that it is a model of this kind, saved by a compatible version.",
            code=ErrorCode.MODEL_NOT_LOADED,
        ) from error


def in_batches(
    call: Callable[[Sequence[T]], npt.NDArray[Number]],
    items: Sequence[T],
    size: int,
    load: Callable[[T], int] | None = None,
    run_cost: float = math.inf,
) -> npt.NDArray[Number]:
    """Run a model over items, longest first, in batches that are halved whenever memory runs out.

    Args:
        call: The model: one row of output per item.
        items: What to run it on, at least one; those that need most memory first.
        size: The largest batch to try.
        load: How many places of the largest batch an item takes up (1 without it), so that a batch of large items
            is smaller.
        run_cost: What a further run of the model costs, in places; a batch ends before its filling costs clearly more.

    Raises:
        OutOfMemory: An item does not fit even alone.
    """
    import numpy as np  # a plan imports this module, and no NumPy

    out = []
    start = 0
    while start < len(items):
        count = size if load is None else _alike(items[start : start + size], size, load, run_cost)
        try:
            out.append(call(items[start : start + count]))
            start += count
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if count == 1 or start == len(items) - 1:
                raise OutOfMemory(
                    "A text does not fit into the memory of the device, even alone.",
                    hint="Use a smaller model, a 16-bit precision or a device with more memory.",
                ) from error
        else:
            continue
        # Outside the handler, so that the failed batch's tensors are gone before the next attempt.
        count = min(count, len(items) - start)
        size = max(1, count * (1 if load is None else load(items[start])) // 2)
        log.warning("Out of memory: going on with batches of %d.", size)
        release_memory()
    return np.concatenate(out)


def _alike(items: Sequence[T], size: int, load: Callable[[T], int], run_cost: float) -> int:
    """Return how many of some items, the largest first, go into a batch, where each takes up as much as the largest."""
    largest = load(items[0])
    filling = 0
    for count in range(1, min(len(items), max(1, size // largest))):
        filling += largest - load(items[count])
        if filling > run_cost + FILLING * count * largest:
            return count
    return max(1, min(len(items), size // largest))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or on the host."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # the latter is torch's
        return True
    return isinstance(error, RuntimeError) and any(
        phrase in str(error).lower() for phrase in ("out of memory", "can't allocate memory", "not enough memory")
    )


def release_memory() -> None:
    """Give memory that torch keeps in reserve back to the device."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def resident(ref: ModelRef, settings: Settings, load: Callable[[ModelRef, str, Settings], T]) -> T:
    """Return a loaded model; it is loaded when it is not there yet. The caller must have :data:`busy`.

    Args:
        settings: The run's choices.
        load: Makes the model for a device; the result has an attribute ``model``, a torch module.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded.
    """
    device = device_for(settings)
    key = (ref, device, model_settings(settings), content_of(ref))
    if key not in _models:
        _make_room(weight_files.size(locate(ref, settings)), device)
        with libraries():
            loaded: Any = load(ref, device, key[2])
        _models[key] = (loaded, _bytes(loaded.model))
    model: T = _models[key][0]
    return model


def loaded() -> tuple[ModelRef, ...]:
    """Return the weights that are in memory, the one loaded first coming first."""
    return tuple(ref for ref, *_ in _models)


def unload() -> None:
    """Drop all loaded models."""
    with busy:
        _models.clear()
        release_memory()


def _make_room(needed: int, device: str) -> None:
    limit = SHARE * _memory(device)
    dropped = False
    while _models and _models.currsize + needed > limit:
        _models.popitem()
        dropped = True
    if dropped:
        release_memory()


def _memory(device: str) -> int:
    import torch

    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _UNKNOWN_MEMORY


def _bytes(model: Any) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def sentence_limit(model: Any) -> int | None:
    """Return how many tokens, special ones included, a sentence-transformers model reads; ``None`` for any number.

    It is the tokenizer's limit, and sets it where the tokenizer has none: to the length of the position table, less
    the two places that RoBERTa-like models reserve in it.
    """
    tokens = getattr(model, "max_seq_length", None)
    if isinstance(tokens, int) and 0 < tokens < 1_000_000:
        return tokens
    positions = getattr(getattr(model[0], "config", None), "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 2:
        model.max_seq_length = positions - 2
        return positions - 2
    return None
