"""Running local models: device, number format, quiet loading without a network, batches that fit the memory."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leadline.evaluators.ground import ErrorCode, ModelUnavailable, OutOfMemory, UsageError
from leadline.evaluators.models.weights import precision

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from leadline.evaluators.ground import ModelRef
    from leadline.evaluators.settings import Settings

T = TypeVar("T")
Number = TypeVar("Number", bound="np.floating[Any]")

log = logging.getLogger("leadline.models")

FILLING: Final = 0.2
"""Share of a batch that filling up its shorter texts may take, besides what another run of the model would cost."""

BATCH_CPU: Final = 32
BATCH_ACCELERATOR: Final = 256


def device_for(settings: Settings) -> str:
    """Return the torch device of a run: the one asked for, or with ``auto`` CUDA, Apple's MPS or the CPU.

    Raises:
        ModelUnavailable: torch is not installed, or does not see the device that was asked for.
    """
    # Read when torch is loaded. Threads that spin while they wait make a model several times slower next to other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
    except ImportError:
        raise libraries_missing() from None
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


def dtype_for(settings: Settings) -> torch.dtype:
    """Return the torch number format of a run."""
    import torch

    return {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[precision(settings)]


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


def libraries_missing() -> ModelUnavailable:
    """Return the error for an installation without model libraries."""
    return ModelUnavailable(
        "The libraries that run models (torch, transformers, sentence-transformers) are not installed.",
        hint="Install the extra 'models'.",
        code=ErrorCode.MODEL_LIBRARY,
    )


@contextmanager
def loading(ref: ModelRef) -> Iterator[None]:
    """Load a model inside this block: silently, with the network shut, every failure as :class:`ModelUnavailable`.

    The weights are a folder on this machine by then; libraries that ask the hub about them all the same
    (about adapters, for example) get the hub's own offline error, which they handle.
    """
    try:
        from huggingface_hub import constants
        from transformers.utils import logging as transformers_logging
    except ImportError:
        raise libraries_missing() from None
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    online, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
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
    finally:
        constants.HF_HUB_OFFLINE = online


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
    import numpy as np

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
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        phrase in str(error).lower() for phrase in ("out of memory", "can't allocate memory", "not enough memory")
    )


def release_memory() -> None:
    """Give memory that torch keeps in reserve back to the device."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def token_limit(model: Any) -> int | None:
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
