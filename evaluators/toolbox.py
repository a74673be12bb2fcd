"""What evaluators work with while they score: sentences, embeddings, and later judges.

A toolbox belongs to one worker process and one run's settings. It holds the caches and the loaded models, so
that evaluators can stay without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from evaluators.models.refs import ModelRef
from evaluators.text.sentences import Sentence, Splitter, splitter_for
from evaluators.types import Json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from evaluators.models.vectors import VectorStore

Device: TypeAlias = str
Precision: TypeAlias = Literal["auto", "float32", "float16", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices for a whole run that evaluators see.

    Attributes:
        language: Language of the texts, as an ISO 639-1 code.
        splitter: ``auto`` (punkt where its data is installed, else rules), ``punkt`` or ``rules``.
        embedder: Embedder for every evaluator instead of its own default: a Hugging Face id (optionally
            ``id@revision``), a directory, or ``offline``.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: Number format of models; ``auto`` is float32 on a CPU and bfloat16 or float16 on CUDA.
        allow_download: Whether weights may be fetched while scoring.
    """

    language: str = "en"
    splitter: Literal["auto", "punkt", "rules"] = "auto"
    embedder: str | None = None
    device: Device = "auto"
    precision: Precision = "auto"
    allow_download: bool = False


@dataclass
class Toolbox:
    """The tools of one worker process.

    Attributes:
        settings: The run's choices.
        vectors: Where embeddings outlive the process, or ``None`` to keep them in memory only.
    """

    settings: Settings = field(default_factory=Settings)
    vectors: VectorStore | None = None

    _sentences: dict[str, tuple[Sentence, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def splitter(self) -> Splitter:
        """The sentence splitter of this run."""
        return splitter_for(self.settings.language, self.settings.splitter)

    def sentences(self, text: str) -> tuple[Sentence, ...]:
        """Split a text into sentences, each with its place in the text; remembered until ``forget``."""
        found = self._sentences.get(text)
        if found is None:
            found = self._sentences[text] = self.splitter.split(text)
        return found

    def forget(self) -> None:
        """Drop what was remembered of the rows scored so far; loaded models stay."""
        self._sentences.clear()

    def embed(self, ref: ModelRef, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return unit-length embeddings, one row per text in order; each distinct text is encoded once.

        Raises:
            ModelUnavailable: The weights are not here and may not be fetched.
        """
        from evaluators.models.embedders import embed

        return embed(ref, texts, settings=self.settings, vectors=self.vectors)

    def compare(self, ref: ModelRef, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Return a cross-encoder's similarity in [0, 1] for each pair of texts.

        Raises:
            ModelUnavailable: The weights are not here and may not be fetched.
        """
        from evaluators.models.cross_encoders import compare

        return compare(ref, pairs, settings=self.settings)

    def model_identity(self, ref: ModelRef) -> Json:
        """Return what of a model's weights and number format belongs into a score's key."""
        from evaluators.models.weights import identity

        return identity(ref, self.settings)
