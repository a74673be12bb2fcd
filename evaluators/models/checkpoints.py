"""Checkpoints in Transformers' layout: loading models, TensorFlow's weights too, and how tokens become batches.

Transformers saved TensorFlow models as ``tf_model.h5``: HDF5 with a group per layer and one data set per variable,
named like ``distilbert/tf_distil_bert_for_sequence_classification/distilbert/transformer/layer_._0/ffn/lin1/kernel:0``.
The names and the transposed matrices are translated by the rules that its own conversion had until version 4
(``transformers/modeling_tf_pytorch_utils.py``). HDF5 contains numbers only; reading it runs no code.

This module imports torch and Transformers: it is imported where a model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import torch
import transformers

from leadline.evaluators.ground import ErrorCode, ModelUnavailable
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.results import finite
from leadline.evaluators.models.runtime import in_batches
from leadline.evaluators.models.tokens import EncodedPair, frame, token_limit, windows
from leadline.evaluators.models.weights import precision

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.ground import ModelRef
    from leadline.evaluators.settings import Settings

T = TypeVar("T")

TOKENS_CPU: Final = 1024
TOKENS_ACCELERATOR: Final = 256 * 512
"""Tokens that go through a model at once, padding included, while texts are no longer than ``_SQUARE_FROM``."""

_RUN_COST: Final = 30_000_000
_RUN_COST_ACCELERATOR: Final = 10_000

_SQUARE_FROM: Final = 512

_LAST: Final = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "beta": "bias"}


def dtype_for(settings: Settings) -> torch.dtype:
    """Return the torch number format of a run."""
    return {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[precision(settings)]


def model_from(auto: str, folder: Path, device: str, settings: Settings) -> torch.nn.Module:
    """Load a model for inference with one of Transformers' automatic classes, from safetensors if there are any.

    Args:
        auto: Name of the automatic class, ``AutoModelForSequenceClassification`` for example.
        folder: Where the checkpoint is.
        device: Where to put it.
        settings: The run's choices.
    """
    factory: Any = getattr(transformers, auto)
    safe = any((folder / name).is_file() for name in (weight_files.WEIGHTS, weight_files.SHARDED))
    if not safe and (folder / weight_files.TENSORFLOW).is_file():
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        model: torch.nn.Module = factory.from_config(config, trust_remote_code=False)
        _fill(model, folder / weight_files.TENSORFLOW)
        model = model.to(dtype_for(settings))
    else:
        model = factory.from_pretrained(
            str(folder),
            dtype=dtype_for(settings),
            use_safetensors=None if settings.allow_pickle else True,
            local_files_only=True,
            trust_remote_code=False,
        )
    return model.to(device).eval()


def align_positions(model: torch.nn.Module) -> None:
    """Let T5's relative positions lie in memory as attention reads them; every layer copies them otherwise."""
    for module in model.modules():
        table = getattr(module, "relative_attention_bias", None)
        if table is not None:
            # Transformers moves the last dimension, the heads, to the front.
            table.register_forward_hook(lambda _, __, out: out.permute(2, 0, 1).contiguous().permute(1, 2, 0))


class LoadedModel:
    """A model in memory that reads tokens.

    Attributes:
        model: The Transformers model.
        device: Where it runs.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        self.ref = ref
        self.model = model
        self.device = device
        self._tokenizer = tokenizer

    def _read(
        self, forward: Callable[[Sequence[T]], npt.NDArray[np.float64]], inputs: Sequence[T], tokens: Sequence[int]
    ) -> npt.NDArray[np.float64]:
        """Return a row of numbers for each input, which go through the model in batches, the longest first.

        Args:
            forward: The model: one row of output for each input of a batch.
            inputs: What it reads.
            tokens: How many tokens each input has.

        Raises:
            OutOfMemory: An input does not fit into memory even alone.
            LeadlineError: A number is none.
        """
        found = by_length(
            lambda numbers: forward([inputs[number] for number in numbers]),
            [load_of(length) for length in tokens],
            budget_for(self.model, self.device),
        )
        return finite(found, self.ref)


class WindowReader(LoadedModel):
    """A loaded model that reads texts in windows, each framed by the special tokens of a text of its own.

    Attributes:
        limit: Tokens that it reads at once, special ones included; ``None`` when it reads any number.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        self.limit = token_limit(tokenizer, model)
        self._before, self._after = frame(tokenizer)

    def cut(self, texts: Sequence[Sequence[int]]) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
        """Return the windows of each text, and what the model reads of each window.

        Args:
            texts: The token ids of each text, without special ones.
        """
        room = None if self.limit is None else max(1, self.limit - len(self._before) - len(self._after))
        cuts = [windows(len(ids), room or max(1, len(ids))) for ids in texts]
        inputs = [
            [*self._before, *ids[start:end], *self._after]
            for ids, pieces in zip(texts, cuts, strict=True)
            for start, end in pieces
        ]
        return cuts, inputs


def padded(
    rows: Sequence[Sequence[int]], padding: int, device: str, *, left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids as a matrix, filled up on the right (or left), and the mask that is 1 where a token is real.

    Args:
        rows: Token ids of each text.
        padding: The id to fill up with.
        device: Where the tensors go, such as ``cpu`` or ``cuda``.
        left: Fill up on the left.
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    mask = mask[:, ::-1] if left else mask
    ids = np.full(mask.shape, padding, dtype=np.int64)
    ids[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)


def additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a mask as attention adds it, of shape ``(texts, 1, 1, tokens)``; ``None`` when every token is real.

    Transformers' own mask is made of truth values, which relative positions (T5) turn into numbers in every layer.

    Args:
        mask: 1 for real tokens and 0 for padding, of shape ``(texts, tokens)``.
        dtype: The model's number format.
    """
    if bool(mask.all()):
        return None
    return ((1 - mask[:, None, None, :]) * torch.finfo(dtype).min).to(dtype)


class BatchBudget(NamedTuple):
    """The size of batches.

    Attributes:
        at_once: Weight of the largest batch, in tokens.
        run_cost: What a run of the model costs besides its tokens, in tokens.
    """

    at_once: int
    run_cost: float


def budget_for(model: torch.nn.Module, device: str) -> BatchBudget:
    """Return how large batches of a model are.

    On a CPU a run costs about as much as ``_RUN_COST`` multiplications, which is many tokens of a small model and few
    of a large one: there, filling up short texts to the length of long ones costs more than it saves.

    Args:
        model: The loaded model.
        device: Where it runs.
    """
    if device != "cpu":
        return BatchBudget(TOKENS_ACCELERATOR, _RUN_COST_ACCELERATOR)
    tables = {id(each.weight) for each in model.modules() if isinstance(each, torch.nn.Embedding)}
    weights = sum(each.numel() for each in model.parameters() if id(each) not in tables)
    return BatchBudget(TOKENS_CPU, _RUN_COST / max(1, weights))


def load_of(tokens: int) -> int:
    """Return what a sequence weighs in a batch: its tokens, and more when attention's square outgrows them."""
    return max(1, tokens, tokens * tokens // _SQUARE_FROM)


def by_length(
    call: Callable[[Sequence[int]], npt.NDArray[np.float64]], loads: Sequence[int], budget: BatchBudget
) -> npt.NDArray[np.float64]:
    """Run a model over items given by number, the longest first, and return its rows in the items' own order.

    Args:
        call: The model: one row of output per number.
        loads: What each item weighs in a batch.
        budget: How large batches are.

    Raises:
        OutOfMemory: An item does not fit even alone.
    """
    if not loads:
        return np.zeros(0)
    order = sorted(range(len(loads)), key=lambda number: -loads[number])
    found = in_batches(call, order, budget.at_once, lambda number: loads[number], budget.run_cost)
    out = np.empty_like(found)
    out[order] = found
    return out


def padded_pairs(pairs: Sequence[EncodedPair], tokenizer: Any, device: str) -> dict[str, torch.Tensor]:
    """Return what a model is called with to read a batch of pairs.

    Args:
        pairs: The pairs of the batch.
        tokenizer: The tokenizer that encoded them.
        device: Where the tensors go, such as ``cpu`` or ``cuda``.
    """
    ids, mask = padded([pair.ids for pair in pairs], tokenizer.pad_token_id or 0, device)
    features = {"input_ids": ids, "attention_mask": mask}
    types = [pair.types for pair in pairs if pair.types is not None]
    if types:
        features["token_type_ids"] = padded(types, 0, device)[0]
    return features


def _fill(model: torch.nn.Module, path: Path) -> None:
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
