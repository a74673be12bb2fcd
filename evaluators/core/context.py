"""The context that evaluators work in while they score: the run's settings, sentences, embeddings, judges.

A context belongs to one worker process and one run's settings. It keeps the caches and the loaded models, so
that evaluators can stay without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, ModelRef, UsageError
from leadline.evaluators.judge_client.calls import JudgeUnavailable
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import Sentence, Splitter, splitter_for
from leadline.evaluators.text.time_budget import RegexTimeBudget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.judge_client.budget import Budget
    from leadline.evaluators.judge_client.calls import Ledger
    from leadline.evaluators.judge_client.client import JudgeClient
    from leadline.evaluators.models.shared_passes import Passes
    from leadline.evaluators.models.vectors import VectorStore
    from leadline.evaluators.settings import JudgeConfig


@dataclass
class EvalContext:
    """The tools of one worker process.

    Attributes:
        settings: The run's choices.
        vectors: Where embeddings outlive the process, or ``None`` to keep them in memory only.
        regex_budget: How long users' regular expressions may still take.
        ledger: Where judge calls are put on record; in memory only without one.
        budget: What may be spent on judges; no limit without one.
        trial: Which repetition is being scored; 0 but for evaluators that ask a judge.
        cache_salt: Makes a judge answer again although it answered the question before; ``""`` but for canaries
            and probes.
        judge: The judge that is asked whichever an evaluator names: the member of a jury whose turn it is.
    """

    settings: Settings = field(default_factory=Settings)
    vectors: VectorStore | None = None
    regex_budget: RegexTimeBudget = field(default_factory=RegexTimeBudget)
    ledger: Ledger | None = None
    budget: Budget | None = None
    trial: int = 0
    cache_salt: str = ""
    judge: JudgeConfig | None = None

    _sentences: dict[str, tuple[Sentence, ...]] = field(default_factory=dict, repr=False)
    _clients: dict[str, JudgeClient] = field(default_factory=dict, repr=False)
    _passes: dict[ModelRef, Passes] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

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

    def in_trial(self, trial: int) -> EvalContext:
        """Return this context for another repetition; everything else is shared."""
        return self if trial == self.trial else replace(self, trial=trial)

    def with_cache_salt(self, cache_salt: str) -> EvalContext:
        """Return this context for questions that a judge is asked anew; everything else is shared."""
        return replace(self, cache_salt=cache_salt)

    def asking(self, judge: JudgeConfig) -> EvalContext:
        """Return this context with one judge for whatever is asked; everything else is shared."""
        return replace(self, judge=judge)

    def embed(self, ref: ModelRef, texts: Sequence[str], *, steady: bool = False) -> npt.NDArray[np.float32]:
        """Return unit-length embeddings, one row per text in order; each distinct text is encoded once.

        Args:
            ref: The embedder.
            steady: Whether a vector must not depend, in its last digits, on the texts that it is computed with.

        Raises:
            ModelUnavailable: The weights are not here and may not be fetched.
        """
        from leadline.evaluators.models.embedders import embed

        return embed(ref, texts, settings=self.settings, vectors=self.vectors, steady=steady)

    async def embed_soon(self, ref: ModelRef, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Do what :meth:`embed` does, for coroutines; those that ask while the model is busy share its next pass.

        Chance decides which those are, so the vectors are steady.

        Args:
            ref: The embedder.
        """
        from leadline.evaluators.models.shared_passes import Passes

        if ref not in self._passes:
            self._passes[ref] = Passes(lambda distinct: self.embed(ref, distinct, steady=True))
        return await self._passes[ref].of(texts)

    def judge_config(self, key: str = "") -> JudgeConfig | None:
        """Return a judge by key, the default one for ``""``; ``None`` when there is no default.

        Raises:
            UsageError: There is no judge of that key.
        """
        if self.judge is not None:
            return self.judge
        if not key:
            return self.settings.judges[0] if self.settings.judges else None
        for config in self.settings.judges:
            if config.key == key:
                return config
        known = ", ".join(config.key for config in self.settings.judges) or "none"
        raise UsageError(f"There is no judge called {key!r}.", hint=f"Judges: {known}.", code=ErrorCode.JUDGE_CONFIG)

    def judge_client(self, key: str = "") -> JudgeClient:
        """Return the client of a judge; one per judge and process, to be used in the judges' event loop.

        Raises:
            JudgeUnavailable: No judge is configured.
            JudgeRefused: What is needed to ask it is not installed.
        """
        from leadline.evaluators.judge_client.client import client_for

        config = self.judge_config(key)
        if config is None:
            raise JudgeUnavailable("No judge is configured.", hint="Name one: --judge MODEL, or set LEADLINE_JUDGE.")
        with self._lock:  # evaluators ask from threads of their own, and must share one client
            if config.key not in self._clients:
                self._clients[config.key] = client_for(
                    config, settings=self.settings, ledger=self.ledger, budget=self.budget
                )
            return self._clients[config.key]

    def model_identity(self, ref: ModelRef) -> Json:
        """Return what of a model's weights and number format belongs into a score's key."""
        from leadline.evaluators.models.weights import identity

        return identity(ref, self.settings)
