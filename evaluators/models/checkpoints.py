"""Checkpoints in Transformers' layout: the tokenizer, the model, how much it reads, and how tokens become batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.runtime import dtype_for, libraries_missing
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from leadline.evaluators.ground import ModelRef
    from leadline.evaluators.settings import Settings

UNLIMITED: Final = 1_000_000
"""A tokenizer's limit from here on means that it has none."""

TOKENS_CPU: Final = 1024
TOKENS_ACCELERATOR: Final = 256 * 512
"""Tokens that go through a model at once, padding included, while texts are no longer than ``_SQUARE_FROM``."""

_RUN_COST: Final = 30_000_000
_RUN_COST_ACCELERATOR: Final = 10_000

_SQUARE_FROM: Final = 512
_TOKENIZED_AT_ONCE: Final = 256


class Encoded(NamedTuple):
    """A text as token ids, without special ones, and where each token stands in the text."""

    ids: list[int]
    places: list[tuple[int, int]]


class EncodedPair(NamedTuple):
    """Two texts as the token ids that a model reads, and token types where the model separates them by these."""

    ids: list[int]
    types: list[int] | None


def tokenizer_from(folder: Path) -> Any:
    """Load a tokenizer; one that needs code from its repository is refused."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise libraries_missing() from None
    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def model_from(auto: str, folder: Path, device: str, settings: Settings) -> torch.nn.Module:
    """Load a model for inference with one of Transformers' automatic classes, from safetensors if there are any.

    Args:
        auto: Name of the automatic class, ``AutoModelForSequenceClassification`` for example.
        folder: Where the checkpoint is.
        device: Where to put it.
        settings: The run's choices.
    """
    try:
        import transformers
    except ImportError:
        raise libraries_missing() from None
    factory: Any = getattr(transformers, auto)
    safe = any((folder / name).is_file() for name in (weight_files.WEIGHTS, weight_files.SHARDED))
    if not safe and (folder / weight_files.TENSORFLOW).is_file():
        from leadline.evaluators.models.tensorflow_weights import load_into

        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        model: torch.nn.Module = factory.from_config(config, trust_remote_code=False)
        load_into(model, folder / weight_files.TENSORFLOW)
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


def token_limit(tokenizer: Any, model: Any) -> int | None:
    """Return how many tokens, special ones included, a model reads at once; ``None`` when it has no limit.

    The lesser of the tokenizer's limit and the position table's length, less the places that RoBERTa-like models
    reserve in it.

    Args:
        tokenizer: A Transformers tokenizer.
        model: The Transformers model.
    """
    limits = []
    if isinstance(tokenizer.model_max_length, int) and 0 < tokenizer.model_max_length < UNLIMITED:
        limits.append(tokenizer.model_max_length)
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions - _reserved(model))
    return min(limits) if limits else None


def _reserved(model: Any) -> int:
    """Return how many places at the start of the position table no token stands at."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that a tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    framed = tokenizer("a")["input_ids"]
    for first in range(len(framed) - len(bare) + 1):
        if framed[first : first + len(bare)] == bare:
            return framed[:first], framed[first + len(bare) :]
    return [], []


def encode(tokenizer: Any, texts: Sequence[str]) -> list[Encoded]:
    """Return texts as token ids without special ones, with their places; nothing is cut off.

    Args:
        tokenizer: A fast Transformers tokenizer, which reports places.
    """
    return [
        Encoded(ids, places)
        for encoded in _encoded(tokenizer, texts, places=True)
        for ids, places in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    ]


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return texts as token ids without special ones; nothing is cut off. Faster than :func:`encode`.

    Args:
        tokenizer: A Transformers tokenizer.
    """
    return [ids for encoded in _encoded(tokenizer, texts, places=False) for ids in encoded["input_ids"]]


def _encoded(tokenizer: Any, texts: Sequence[str], *, places: bool) -> Iterator[Any]:
    for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
        yield tokenizer(
            [without_surrogates(text) for text in texts[start : start + _TOKENIZED_AT_ONCE]],
            add_special_tokens=False,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=places,
            verbose=False,
        )


def encode_pairs(tokenizer: Any, pairs: Sequence[tuple[str, str]], limit: int | None) -> list[EncodedPair]:
    """Return pairs as token ids with special ones; what is beyond the limit is cut off, from the longer text first.

    Args:
        tokenizer: A Transformers tokenizer.
        pairs: First and second texts.
        limit: Most tokens of a pair, special ones included; ``None`` to cut nothing off.
    """
    out: list[EncodedPair] = []
    for start in range(0, len(pairs), _TOKENIZED_AT_ONCE):
        some = pairs[start : start + _TOKENIZED_AT_ONCE]
        encoded = tokenizer(
            [without_surrogates(first) for first, _ in some],
            [without_surrogates(second) for _, second in some],
            truncation=limit is not None,
            max_length=limit,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
        types = encoded.get("token_type_ids") or [None] * len(some)
        out += map(EncodedPair, encoded["input_ids"], types)
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


def windows(length: int, most: int) -> list[tuple[int, int]]:
    """Cut a sequence of some length into the fewest windows of at most ``most``, all about equally long.

    Args:
        length: Length of the sequence.
        most: Greatest length of a window, at least 1.
    """
    count = max(1, -(-length // most))
    bounds = [length * number // count for number in range(count + 1)]
    return list(itertools.pairwise(bounds))


class WindowReader:
    """A loaded model that reads texts in windows, each framed by the special tokens of a text of its own.

    Attributes:
        model: The Transformers model.
        device: Where it runs.
        limit: Tokens that it reads at once, special ones included; ``None`` when it reads any number.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        self.ref = ref
        self.model = model
        self.device = device
        self.limit = token_limit(tokenizer, model)
        self._tokenizer = tokenizer
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
    import torch

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
    import torch

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
    import torch

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
    from leadline.evaluators.models.runtime import in_batches

    if not loads:
        return np.zeros(0)
    order = sorted(range(len(loads)), key=lambda number: -loads[number])
    found = in_batches(call, order, budget.at_once, lambda number: loads[number], budget.run_cost)
    out = np.empty_like(found)
    out[order] = found
    return out


def finite(values: npt.NDArray[np.float64], ref: ModelRef) -> npt.NDArray[np.float64]:
    """Return numbers that a model gave, or refuse them when one is not a number.

    Args:
        values: Numbers of any shape.
        ref: The model, for the error.

    Raises:
        LeadlineError: One is NaN or infinite.
    """
    if not np.isfinite(values).all():
        raise LeadlineError(
            f"{ref} gave a score that is not a number.",
            hint="Choose another precision (float32, or bfloat16 on a GPU).",
            code=ErrorCode.MODEL_NOT_A_NUMBER,
        )
    return values
