"""Loaded models: one copy of each in a process, kept from call to call for as long as memory allows.

Beside the embedders a run may need a handful of classifiers and language models. Each is loaded when it is first
asked for and stays, so that a worker that scores many chunks loads it once. When a new one would make the weights in
memory exceed a quarter of the device's memory, the models that have not been used for longest go first; so a model
that fills the device is the only resident one.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cachetools import LRUCache

from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.runtime import device_for, model_settings, release_memory
from leadline.evaluators.models.weights import content_of, locate

if TYPE_CHECKING:
    from leadline.evaluators.settings import Settings

T = TypeVar("T")

SHARE: Final = 0.25
"""Part of the device's memory that weights may take before older models have to go."""

_UNKNOWN_MEMORY: Final = 8 * 2**30

busy: Final = threading.RLock()
"""Held while a model runs: one thread computes at a time."""

_models: Final[LRUCache[tuple[ModelRef, str, Settings, str], tuple[Any, int]]] = LRUCache(
    math.inf, getsizeof=lambda entry: entry[1]
)


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
