"""Texts as the tokens of a model: its tokenizer, how many tokens it reads at once, and windows of longer texts.

Nothing here imports torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from leadline.evaluators.models.runtime import libraries
from leadline.evaluators.text.sentences import without_surrogates

UNLIMITED: Final = 1_000_000
"""A tokenizer's limit from here on means that it has none."""

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
    with libraries():
        from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


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


def encode_pairs(tokenizer: Any, pairs: Sequence[tuple[str, str]], limit: int | None) -> Iterator[EncodedPair]:
    """Yield pairs as token ids with special ones; what is beyond the limit is cut off, from the longer text first.

    Some hundred are in memory at a time, since pairs that are not cut off may be long.

    Args:
        tokenizer: A Transformers tokenizer.
        pairs: First and second texts.
        limit: Most tokens of a pair, special ones included; ``None`` to cut nothing off.
    """
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
        yield from map(EncodedPair, encoded["input_ids"], types)


def windows(length: int, most: int) -> list[tuple[int, int]]:
    """Cut a sequence of some length into the fewest windows of at most ``most``, all about equally long.

    Args:
        length: Length of the sequence.
        most: Greatest length of a window, at least 1.
    """
    count = max(1, -(-length // most))
    bounds = [length * number // count for number in range(count + 1)]
    return list(itertools.pairwise(bounds))


def places_of(cuts: Sequence[tuple[int, int]], tokens: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Return where windows stand in their text, in code points; together they cover all of it.

    Args:
        cuts: The first token of each window, and the one after its last.
        tokens: Where each token stands in the text.
    """
    starts = [0, *(tokens[start][0] for start, _ in cuts[1:])]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))
