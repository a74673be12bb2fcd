"""Pairs of texts to similarities: one model reads both texts at once.

The score is the sigmoid of the model's one output, in [0, 1], as https://arxiv.org/abs/2108.06130 uses it for answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from evaluators.errors import LeadlineError, ModelUnavailable
from evaluators.models.refs import ModelRef
from evaluators.models.runtime import (
    batch_size_for,
    device_for,
    dtype_for,
    in_batches,
    libraries_missing,
    loading,
    model_settings,
    token_limit,
)
from evaluators.models.weights import locate
from evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sentence_transformers import CrossEncoder

    from evaluators.toolbox import Settings

_TOKENIZED_AT_ONCE: Final = 256
_SPARE_TOKENS: Final = 8
_busy: Final = threading.Lock()


def compare(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> npt.NDArray[np.float32]:
    """Return the similarity of each pair, float32 of shape ``(len(pairs),)`` in [0, 1]; equal pairs are read once.

    What a pair has beyond the model's limit is cut off, from the longer text first; :func:`overlong` tells which
    pairs that concerns.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a similarity model.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    import numpy as np

    if not pairs:
        return np.zeros(0, dtype=np.float32)
    distinct = sorted(set(pairs), key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
    with _busy:
        loaded = _loaded(ref, settings)
        scores = in_batches(loaded.forward, distinct, loaded.batch_size)
    if not np.isfinite(scores).all():
        raise LeadlineError(
            f"{ref} gave a score that is not a number.",
            hint="Choose another precision (float32, or bfloat16 on a GPU).",
        )
    place = {pair: row for row, pair in enumerate(distinct)}
    return np.clip(scores[[place[pair] for pair in pairs]], 0.0, 1.0)


def overlong(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> list[tuple[int, int] | None]:
    """Return for each pair its tokens and the model's limit where it has more than the model reads, else ``None``."""
    with _busy:
        return _loaded(ref, settings).overlong(pairs)


def unload() -> None:
    """Drop the loaded model."""
    _load.cache_clear()


class PairReader:
    """A loaded cross-encoder.

    Attributes:
        model: The sentence-transformers model.
        batch_size: The largest batch to try.
        limit: Tokens that it reads at once, special ones included.
    """

    def __init__(self, model: CrossEncoder, batch_size: int) -> None:
        self.model = model
        self.batch_size = batch_size
        self.limit = token_limit(model)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Return the scores of one batch."""
        import torch

        scores = self.model.predict(
            [(without_surrogates(first), without_surrogates(second)) for first, second in pairs],
            batch_size=len(pairs),
            show_progress_bar=False,
            activation_fn=torch.nn.Sigmoid(),
            convert_to_tensor=True,
        )
        out: npt.NDArray[np.float32] = scores.float().cpu().numpy()
        return out

    def overlong(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int] | None]:
        """Return tokens and limit of the pairs that do not fit."""
        out: list[tuple[int, int] | None] = [None] * len(pairs)
        limit = self.limit
        if limit is None:
            return out
        tokenizer: Any = self.model.tokenizer
        most = limit - _SPARE_TOKENS
        maybe = [at for at, (a, b) in enumerate(pairs) if not (a.isascii() and b.isascii() and len(a) + len(b) <= most)]
        for start in range(0, len(maybe), _TOKENIZED_AT_ONCE):
            places = maybe[start : start + _TOKENIZED_AT_ONCE]
            encoded = tokenizer(
                [without_surrogates(pairs[at][0]) for at in places],
                [without_surrogates(pairs[at][1]) for at in places],
                truncation=False,
                padding=False,
                return_attention_mask=False,
                verbose=False,
            )
            for at, ids in zip(places, encoded["input_ids"], strict=True):
                if len(ids) > limit:
                    out[at] = (len(ids), limit)
        return out


def _loaded(ref: ModelRef, settings: Settings) -> PairReader:
    return _load(ref, device_for(settings), model_settings(settings))


@lru_cache(maxsize=1)
def _load(ref: ModelRef, device: str, settings: Settings) -> PairReader:
    folder = locate(ref, settings)
    with loading(ref):
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise libraries_missing() from None
        model = CrossEncoder(
            str(folder),
            device=device,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"dtype": dtype_for(settings), "use_safetensors": None if settings.allow_pickle else True},
        )
        if model.num_labels != 1:
            raise ModelUnavailable(
                f"{ref} classifies pairs into {model.num_labels} classes; it does not score their similarity.",
                hint="Choose a cross-encoder with one output, such as cross-encoder/stsb-roberta-base.",
            )
        model.eval()
        return PairReader(model, batch_size_for(device))
