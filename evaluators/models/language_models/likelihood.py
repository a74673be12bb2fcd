"""The likelihood of a text under a language model: of exactly its tokens, after some context.

``nll = sum over the target's tokens t_i of -ln p(t_i | context, t_1 … t_(i-1))``, in nats. Context and target are made
into tokens apart, so that no token belongs to both. What the tokenizer puts before a text (OPT's start mark) stands
before the context. An encoder-decoder model reads the context with its encoder, as its tokenizer marks it, and the
target's tokens are those of the decoder; the end mark is no part of the target.

The first token of a text without any context is given, not predicted, as
https://huggingface.co/docs/transformers/perplexity and the package ``lmppl`` have it.

A text that is longer than the model reads is scored in sliding windows: each token of the target once, after at least
half of the model's length of what stands before it, and after the part of the context that is to be kept always (an
instruction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models.checkpoints import (
    encode,
    finite,
    frame,
    model_from,
    token_ids,
    token_limit,
    tokenizer_from,
)
from leadline.evaluators.models.language_models.predictor import Predictor, TokenWindow
from leadline.evaluators.models.resident import busy, resident
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import torch

    from leadline.evaluators.settings import Settings

RELATIVE_LIMIT: Final = 1024
"""Tokens that a model without a position table (T5) reads at once, as in GPTScore's own code."""


class Passage(NamedTuple):
    """A text whose likelihood is asked for.

    Attributes:
        target: The text.
        context: What stands before it.
        keep: Characters at the start of the context that every window keeps.
    """

    target: str
    context: str = ""
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The likelihood of a text.

    Attributes:
        nll: Sum of the negative log-likelihoods of the scored tokens, in nats.
        tokens: How many tokens were scored.
        whole: Whether the model saw everything before each token.
        length: Tokens of context and target.
        limit: Tokens that the model reads at once.
    """

    nll: float
    tokens: int
    whole: bool
    length: int
    limit: int

    @property
    def mean(self) -> float | None:
        """Average negative log-likelihood of a token; ``None`` when no token was predicted."""
        return self.nll / self.tokens if self.tokens else None


def likelihoods(ref: ModelRef, passages: Sequence[Passage], *, settings: Settings) -> list[Likelihood]:
    """Return how likely each passage is, in order; equal passages are scored once.

    Args:
        passages: The texts, each with its context.
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a language model.
        OutOfMemory: A window does not fit into memory even alone.
    """
    if not passages:
        return []
    with busy:
        found = resident(ref, settings, _load).score(list(dict.fromkeys(passages)))
    return [found[passage] for passage in passages]


class LanguageModel:
    """A loaded language model.

    Attributes:
        model: The Transformers model.
        limit: Tokens that it reads at once.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        config: Any = model.config
        head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
        if head is None:
            raise ModelUnavailable(
                f"{ref} predicts no tokens.",
                hint="Choose a language model, such as gpt2-medium.",
                code=ErrorCode.MODEL_WRONG_KIND,
            )
        self.ref = ref
        self.model = model
        relative = not isinstance(getattr(config, "max_position_embeddings", None), int)
        self.limit = (None if relative else token_limit(tokenizer, model)) or RELATIVE_LIMIT
        self._tokenizer = tokenizer
        self._before, self._after = frame(tokenizer)
        self._predictor = Predictor(model, head, tokenizer.pad_token_id or 0, self.limit, device)

    def score(self, passages: Sequence[Passage]) -> dict[Passage, Likelihood]:
        """Return how likely distinct passages are."""
        distinct = list(dict.fromkeys(text for passage in passages for text in (passage.target, passage.context)))
        tokens_of = dict(zip(distinct, token_ids(self._tokenizer, distinct), strict=True))
        cut = [list(self._windows(passage, tokens_of)) for passage in passages]
        nlls = finite(self._predictor.nlls([window for windows in cut for window in windows]), self.ref)
        out = {}
        first = 0
        for passage, windows in zip(passages, cut, strict=True):
            nll = float(nlls[first : first + len(windows)].sum())
            first += len(windows)
            tokens = sum(len(window.ids) - window.first for window in windows)
            context, target = len(tokens_of[passage.context]), len(tokens_of[passage.target])
            whole = self._fits(context, target)
            out[passage] = Likelihood(max(0.0, nll), tokens, whole, context + target, self.limit)
        return out

    def _fits(self, context: int, target: int) -> bool:
        if self._predictor.encodes:
            return context + len(self._before) + len(self._after) <= self.limit and target < self.limit
        return len(self._before) + context + target <= self.limit

    def _windows(self, passage: Passage, tokens_of: Mapping[str, list[int]]) -> Iterator[TokenWindow]:
        context, target = tokens_of[passage.context], tokens_of[passage.target]
        kept = 0
        if passage.keep and not self._fits(len(context), len(target)):
            kept = sum(end <= passage.keep for _, end in encode(self._tokenizer, [passage.context])[0].places)
        if not self._predictor.encodes:
            before = [*self._before, *context]
            yield from self._slide((), [*before, *target], len(before), kept + len(self._before))
            return
        room = self.limit - len(self._before) - len(self._after)
        kept = min(kept, room // 2)
        if len(context) > room:
            context = [*context[:kept], *context[len(context) - (room - kept) :]]
        config: Any = self.model.config
        start: int = config.decoder_start_token_id
        yield from self._slide((*self._before, *context, *self._after), [start, *target], 1, 1)

    def _slide(self, source: tuple[int, ...], ids: list[int], first: int, kept: int) -> Iterator[TokenWindow]:
        """Cut a sequence into windows that score every token from ``first`` on once; see the module's text."""
        first = max(1, first)
        kept = min(kept, self.limit // 4)
        step = max(1, (self.limit - kept) // 2)
        while first < len(ids):
            end = min(len(ids), max(first + step, self.limit))
            start = max(kept, end - (self.limit - kept))
            yield TokenWindow(source, [*ids[:kept], *ids[start:end]], first - start + kept)
            first = end


def _load(ref: ModelRef, device: str, settings: Settings) -> LanguageModel:
    folder = locate(ref, settings)
    with loading(ref):
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        auto = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
        return LanguageModel(ref, model_from(auto, folder, device, settings), tokenizer_from(folder), device)
