"""How large a tiny checkpoint is."""

from __future__ import annotations

from dataclasses import dataclass

POSITIONS = 40
"""Places in the classifiers' position tables, so that windows are needed soon."""

CONTEXT = 256
"""Tokens that the causal models read at once; an instruction and short texts fit."""


@dataclass(frozen=True)
class Size:
    """How large a checkpoint is.

    Attributes:
        width: Length of the hidden vectors.
        layers: Layers, of each half where there are two.
        heads: Heads of attention.
        vocabulary: Rows of the table of tokens, at least as many as there are tokens.
        positions: Places in a classifier's position table; tokens that an embedder or a model of pairs reads at once.
        context: Tokens that a causal model reads at once.
        words: Words that are tokens of their own, besides a few that always are.
    """

    width: int = 32
    layers: int = 2
    heads: int = 2
    vocabulary: int = 0
    positions: int = POSITIONS
    context: int = CONTEXT
    words: tuple[str, ...] = ()
