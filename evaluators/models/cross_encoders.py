"""Pairs of texts to similarities: one model reads both texts at once.

The score is the sigmoid of the model's one output, in [0, 1], as https://arxiv.org/abs/2108.06130 uses it for answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from evaluators.errors import LeadlineError, ModelUnavailable
from evaluators.models.checkpoints import budget_for, by_length, load_of
from evaluators.models.refs import ModelRef
from evaluators.models.runtime import (
    device_for,
    dtype_for,
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
_BYTES_PER_TOKEN: Final = 4
"""About as many make a token; how long a pair is only has to be guessed to put pairs of like length together."""

_busy: Final = threading.Lock()


class Compared(NamedTuple):
    """What a cross-encoder says of pairs.

    Attributes:
        values: Similarities, float32 of shape ``(pairs,)`` in [0, 1].
        overlong: For each pair its tokens and the model's limit where it has more than the model reads, else ``None``.
    """

    values: npt.NDArray[np.float32]
    overlong: list[tuple[int, int] | None]


def read(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> Compared:
    """Return the similarity of each pair, and which pairs are too long; equal pairs are read once.

    What a pair has beyond the model's limit is cut off, from the longer text first.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a similarity model.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    import numpy as np

    if not pairs:
        return Compared(np.zeros(0, dtype=np.float32), [])
    distinct = sorted(set(pairs))
    with _busy:
        found, overlong = _loaded(ref, settings).read(distinct)
    if not np.isfinite(found).all():
        raise LeadlineError(
            f"{ref} gave a score that is not a number.",
            hint="Choose another precision (float32, or bfloat16 on a GPU).",
        )
    place = {pair: row for row, pair in enumerate(distinct)}
    values = np.clip(found[[place[pair] for pair in pairs]], 0.0, 1.0).astype(np.float32)
    return Compared(values, [overlong.get(pair) for pair in pairs])


def unload() -> None:
    """Drop the loaded model."""
    _load.cache_clear()


class PairReader:
    """A loaded cross-encoder.

    Attributes:
        model: The sentence-transformers model.
        limit: Tokens that it reads at once, special ones included.
    """

    def __init__(self, model: CrossEncoder, device: str) -> None:
        self.model = model
        self._budget = budget_for(model, device)
        self.limit = token_limit(model)

    def read(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[npt.NDArray[np.float64], dict[tuple[str, str], tuple[int, int]]]:
        """Return the scores of distinct pairs, and tokens and limit of those that do not fit.

        They are read in batches of about equal length, the longest first.
        """
        found = by_length(
            lambda numbers: self.forward([pairs[number] for number in numbers]),
            [self._load(pair) for pair in pairs],
            self._budget,
        )
        full = [pair for pair, tokens in zip(pairs, found[:, 1], strict=True) if tokens == self.limit]
        return found[:, 0], self._overlong(full)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return for each pair of one batch its score and the tokens that were read, of shape ``(pairs, 2)``."""
        import torch
        from sentence_transformers.util import batch_to_device

        batch = [(without_surrogates(first), without_surrogates(second)) for first, second in pairs]
        with torch.inference_mode():
            features: Any = batch_to_device(self.model.preprocess(batch), self.model.device)
            tokens = features["attention_mask"].sum(dim=1)
            scores = torch.sigmoid(self.model(features)["scores"].float().reshape(len(pairs)))
        out: npt.NDArray[np.float64] = torch.stack([scores, tokens.float()], dim=1).cpu().double().numpy()
        return out

    def _load(self, pair: tuple[str, str]) -> int:
        """Return what a pair weighs in a batch."""
        tokens = sum(len(text.encode("utf-8", "surrogatepass")) for text in pair) // _BYTES_PER_TOKEN + _SPARE_TOKENS
        return load_of(tokens if self.limit is None else min(tokens, self.limit))

    def _overlong(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
        """Return tokens and limit of those pairs, all of which fill the model, that are longer than it reads."""
        out: dict[tuple[str, str], tuple[int, int]] = {}
        if self.limit is None:
            return out
        tokenizer: Any = self.model.tokenizer
        for start in range(0, len(pairs), _TOKENIZED_AT_ONCE):
            some = pairs[start : start + _TOKENIZED_AT_ONCE]
            encoded = tokenizer(
                [without_surrogates(first) for first, _ in some],
                [without_surrogates(second) for _, second in some],
                truncation=False,
                padding=False,
                return_attention_mask=False,
                verbose=False,
            )
            lengths = zip(some, map(len, encoded["input_ids"]), strict=True)
            out.update({pair: (length, self.limit) for pair, length in lengths if length > self.limit})
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
        return PairReader(model, device)
