"""Weights that were saved by TensorFlow, read into a PyTorch model without TensorFlow.

Transformers saved TensorFlow models as ``tf_model.h5``: HDF5 with a group per layer and one data set per variable,
named like ``distilbert/tf_distil_bert_for_sequence_classification/distilbert/transformer/layer_._0/ffn/lin1/kernel:0``.
The names and the transposed matrices are translated by the rules that its own conversion had until version 4
(``transformers/modeling_tf_pytorch_utils.py``). HDF5 contains numbers only; reading it runs no code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, ModelUnavailable

if TYPE_CHECKING:
    import torch

_LAST: Final = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "beta": "bias"}


def load_into(model: torch.nn.Module, path: Path) -> None:
    """Fill a model with the weights of a file.

    Args:
        model: A PyTorch model of the right architecture.
        path: The weights in HDF5, as TensorFlow wrote them.

    Raises:
        ModelUnavailable: ``h5py`` is not installed, the file is damaged, or its weights are not this model's.
    """
    try:
        import h5py
    except ImportError:
        raise ModelUnavailable(
            f"{path.name} holds weights in HDF5, and the library that reads it (h5py) is not installed.",
            hint="Install the extra 'models'.",
            code=ErrorCode.MODEL_LIBRARY,
        ) from None
    expected = model.state_dict()
    found: dict[str, torch.Tensor] = {}
    try:
        with h5py.File(path, "r") as file:
            file.visititems(lambda name, item: _take(name, item, expected, found))
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelUnavailable(
            f"{path.name} cannot be read into this model: {str(error)[:200]}.", code=ErrorCode.MODEL_NOT_LOADED
        ) from error
    missing = sorted(expected.keys() - found.keys() - _derived(model))
    if missing:
        raise ModelUnavailable(
            f"{path.name} has no weights for {missing[0]} (and {len(missing) - 1} more).",
            code=ErrorCode.MODEL_NOT_LOADED,
        )
    model.load_state_dict(found, strict=False)


def _take(name: str, item: Any, expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> None:
    import h5py
    import torch

    if not isinstance(item, h5py.Dataset):
        return
    ours, transposed = _translated(name, expected)
    if ours is None:
        raise ValueError(f"the model has no place for {name}")
    array = np.asarray(item, dtype=np.float32)
    array = array.T if transposed else array
    if array.shape != tuple(expected[ours].shape):
        raise ValueError(f"{name} has the shape {array.shape}, not {tuple(expected[ours].shape)}")
    found[ours] = torch.from_numpy(np.array(array, order="C"))


def _translated(name: str, expected: dict[str, torch.Tensor]) -> tuple[str | None, bool]:
    """Return PyTorch's name of a variable, and whether its matrix is transposed."""
    parts = name.split(":")[0].replace("_._", ".").split("/")
    last = parts[-1]
    parts[-1] = _LAST.get(last, last)
    for start in range(len(parts)):  # the names of the group and of the class come first
        ours = ".".join(parts[start:])
        if ours in expected:
            return ours, last == "kernel"
    return None, False


def _derived(model: torch.nn.Module) -> set[str]:
    """Return what a model's state contains besides its parameters, such as position numbers."""
    parameters = {name for name, _ in model.named_parameters()}
    return set(model.state_dict()) - parameters
