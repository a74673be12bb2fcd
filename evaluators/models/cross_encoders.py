"""Pairs of texts to similarities: one model reads both texts at once.

The score is the sigmoid of the model's one output, in [0, 1], as https://arxiv.org/abs/2108.06130 uses it for answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef, ModelUnavailable
from leadline.evaluators.models.checkpoints import budget_for, by_length, encode_pairs, load_of, padded_pairs
from leadline.evaluators.models.onnx_backend import require_cpu, run_by_onnx
from leadline.evaluators.models.runtime import (
    device_for,
    dtype_for,
    libraries_missing,
    loading,
    model_settings,
    token_limit,
)
from leadline.evaluators.models.weights import content_of, locate
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import numpy.typing as npt
    from sentence_transformers import CrossEncoder

    from leadline.evaluators.settings import Settings

_TOKENIZED_AT_ONCE: Final = 256
_SPARE_TOKENS: Final = 8
_BYTES_PER_TOKEN: Final = 4
"""About as many make a token; how long a pair is only has to be guessed to put pairs of like length together."""

_PROBE_WORDS: Final = 1_000

_busy: Final = threading.Lock()


class ComparedPair(NamedTuple):
    """The output of a cross-encoder for pairs.

    Attributes:
        values: Similarities, float32 of shape ``(pairs,)`` in [0, 1].
        overlong: For each pair its tokens and the model's limit where it has more than the model reads, else ``None``.
    """

    values: npt.NDArray[np.float32]
    overlong: list[tuple[int, int] | None]


def read(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> ComparedPair:
    """Return the similarity of each pair, and which pairs are too long; equal pairs are read once.

    What a pair has beyond the model's limit is cut off, from the longer text first.

    Args:
        pairs: Pairs of texts.
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a similarity model.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    if not pairs:
        return ComparedPair(np.zeros(0, dtype=np.float32), [])
    distinct = sorted(set(pairs))
    with _busy:
        found, overlong = _loaded(ref, settings).read(distinct)
    if not np.isfinite(found).all():
        raise LeadlineError(
            f"{ref} gave a score that is not a number.",
            hint="Choose another precision (float32, or bfloat16 on a GPU).",
            code=ErrorCode.MODEL_NOT_A_NUMBER,
        )
    place = {pair: row for row, pair in enumerate(distinct)}
    values = np.clip(found[[place[pair] for pair in pairs]], 0.0, 1.0).astype(np.float32)
    return ComparedPair(values, [overlong.get(pair) for pair in pairs])


def unload() -> None:
    """Drop the loaded model."""
    _load.cache_clear()


class PairReader:
    """A loaded cross-encoder.

    Attributes:
        model: The sentence-transformers model.
        limit: Tokens that it reads at once, special ones included.
        plain: Whether it reads what its tokenizer makes of two texts and nothing else, such as prompts or a template.
    """

    def __init__(self, model: CrossEncoder, device: str) -> None:
        self.model = model
        self.limit = token_limit(model)
        self._budget = budget_for(model, device)
        self._tokenizer: Any = model.tokenizer
        self.plain = self._is_plain()

    def read(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[npt.NDArray[np.float64], dict[tuple[str, str], tuple[int, int]]]:
        """Return the scores of distinct pairs, and tokens and limit of those that do not fit.

        They are read in batches of about equal length, the longest first.
        """
        found = self._read_plain(pairs) if self.plain else self._read_by_library(pairs)
        full = [pair for pair, tokens in zip(pairs, found[:, 1], strict=True) if tokens == self.limit]
        return found[:, 0], self._overlong(full)

    def _read_plain(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return for each pair its score and the tokens that were read.

        The pairs are tokenized all at once and without the library, which spends more time on the lists of a small
        batch than its tokenizer does on the texts.
        """
        inputs = encode_pairs(self._tokenizer, pairs, self.limit)

        def forward(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
            batch = [inputs[number] for number in numbers]
            return self.forward(padded_pairs(batch, self._tokenizer, str(self.model.device)))

        return by_length(forward, [load_of(len(pair.ids)) for pair in inputs], self._budget)

    def _read_by_library(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return for each pair its score and the tokens that were read, which the library puts together."""

        def forward(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
            return self.forward(self._prepared([pairs[number] for number in numbers]))

        return by_length(forward, [self._guessed_load(pair) for pair in pairs], self._budget)

    def forward(self, features: dict[str, Any]) -> npt.NDArray[np.float64]:
        """Return for each pair of one batch its score and the tokens that were read, of shape ``(pairs, 2)``."""
        import torch

        with torch.inference_mode():
            tokens = features["attention_mask"].sum(dim=1)
            scores = torch.sigmoid(self.model(features)["scores"].float().reshape(len(tokens)))
        out: npt.NDArray[np.float64] = torch.stack([scores, tokens.float()], dim=1).cpu().double().numpy()
        return out

    def _prepared(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        from sentence_transformers.util import batch_to_device

        known = [(without_surrogates(first), without_surrogates(second)) for first, second in pairs]
        features: dict[str, Any] = batch_to_device(self.model.preprocess(known), self.model.device)
        return features

    def _is_plain(self) -> bool:
        """Look whether the library makes the same of a short and an overlong pair as the tokenizer alone."""
        long = "some words " * min(self.limit or 8, _PROBE_WORDS)
        probe = [("a sentence", "another one"), (long, "A sentence, and one more.")]
        try:
            encoded = encode_pairs(self._tokenizer, probe, self.limit)
            mine = padded_pairs(encoded, self._tokenizer, str(self.model.device))
        except (TypeError, ValueError, LookupError, AttributeError):  # a processor that is more than a tokenizer
            return False
        theirs = {name: value for name, value in self._prepared(probe).items() if hasattr(value, "shape")}
        return mine.keys() == theirs.keys() and all(value.equal(theirs[name]) for name, value in mine.items())

    def _guessed_load(self, pair: tuple[str, str]) -> int:
        """Return about what a pair weighs in a batch."""
        tokens = sum(len(text.encode("utf-8", "surrogatepass")) for text in pair) // _BYTES_PER_TOKEN + _SPARE_TOKENS
        return load_of(tokens if self.limit is None else min(tokens, self.limit))

    def _overlong(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
        """Return tokens and limit of those pairs, all of which fill the model, that are longer than it reads."""
        out: dict[tuple[str, str], tuple[int, int]] = {}
        if self.limit is None:
            return out
        for start in range(0, len(pairs), _TOKENIZED_AT_ONCE):
            some = pairs[start : start + _TOKENIZED_AT_ONCE]
            encoded = self._tokenizer(
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
    if settings.backend == "onnx":
        require_cpu(ref, settings)
        return _load(ref, "cpu", model_settings(settings), content_of(ref))
    return _load(ref, device_for(settings), model_settings(settings), content_of(ref))


@lru_cache(maxsize=1)
def _load(ref: ModelRef, device: str, settings: Settings, content: str) -> PairReader:
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
                code=ErrorCode.MODEL_WRONG_KIND,
            )
        model.eval()
        reader = PairReader(model, device)
        if settings.backend == "onnx":
            run_by_onnx(ref, model)
        return reader
