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

What several windows stand after is read once: the source of an encoder-decoder model always, and on a CPU the context
of several targets of a causal model too, where that saves more than the further run of the model that it takes. Answers
of several systems to one question share their question, their documents and their reference answer in this way.

The output layer makes a number for every token of the vocabulary at every place of a text, most of which nobody asks
for. Here it sees only the places that are asked for, in slices whose numbers stay near the processor, while the layers
before it run with batches of full size.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig
from transformers.modeling_outputs import BaseModelOutput

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models.checkpoints import (
    additive,
    align_positions,
    budget_for,
    by_length,
    load_of,
    model_from,
    padded,
)
from leadline.evaluators.models.results import Likelihood, Passage, finite
from leadline.evaluators.models.runtime import is_out_of_memory, loading, release_memory
from leadline.evaluators.models.tokens import encode, frame, token_ids, token_limit, tokenizer_from
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

log = logging.getLogger("leadline.models")

RELATIVE_LIMIT: Final = 1024
"""Tokens that a model without a position table (T5) reads at once, as in GPTScore's own code."""

_TARGET_WEIGHT: Final = 8
"""What a token that is asked for weighs in a batch whose logits are all made at once."""

_TOGETHER: Final = 16
"""Windows that share what they stand after, at most."""

_SAVED: Final = 32
"""Tokens that are worth a further run of the model when they need not be read again."""

_COPIED: Final = 2048
"""Tokens of shared contexts that are copied for their windows in one run, at most: every layer keeps its own."""

_SLICE_CPU: Final = 128
_SLICE_ACCELERATOR: Final = 4096
"""Places that go through the layer at once."""


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


def load_language_model(ref: ModelRef, device: str, settings: Settings) -> LanguageModel:
    """Load a model for a device; see :func:`.runtime.resident`."""
    folder = locate(ref, settings)
    with loading(ref):
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        auto = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
        return LanguageModel(ref, model_from(auto, folder, device, settings), tokenizer_from(folder), device)


class TokenWindow(NamedTuple):
    """One text for the model.

    Attributes:
        source: What the encoder reads; empty for a causal model.
        ids: Tokens, each predicted from those before it.
        first: The first token that is scored; so are all after it.
    """

    source: tuple[int, ...]
    ids: list[int]
    first: int


class ContextBatch(NamedTuple):
    """Windows that are run together, since what they stand after is the same.

    Attributes:
        numbers: Which windows they are.
        windows: The windows, at most ``_TOGETHER``.
        shared: Tokens at the start of a causal model's windows that are read once.
    """

    numbers: tuple[int, ...]
    windows: tuple[TokenWindow, ...]
    shared: int = 0


class Predictor:
    """A model that predicts tokens.

    Attributes:
        encodes: Whether it is an encoder-decoder model.
    """

    def __init__(self, model: torch.nn.Module, head: torch.nn.Module, padding: int, limit: int, device: str) -> None:
        """Take hold of a model.

        Args:
            model: The Transformers model.
            head: Its output layer.
            padding: The token that fills up sources.
            limit: Tokens that it reads at once; no window is longer.
            device: Where it is.
        """
        config: Any = model.config
        self.encodes = bool(config.is_encoder_decoder)
        self._model: Any = model
        align_positions(model)
        self._padding = padding
        self._limit = limit
        self._device = device
        self._output = _OutputLayer(head, self._probe, device)
        self._adds_masks = self._continues = False
        if self.encodes:
            self._adds_masks = self._agrees(self._after_sources, adds_masks=True)
        elif device == "cpu":
            # On an accelerator a further run of the model costs more than most contexts do.
            self._continues = self._agrees(self._after_contexts, adds_masks=False)

    def nlls(self, windows: Sequence[TokenWindow]) -> npt.NDArray[np.float64]:
        """Return for each window the sum of -ln p of its scored tokens, of shape ``(windows,)``.

        Raises:
            OutOfMemory: A window does not fit into memory even alone.
        """
        out = np.zeros(len(windows))
        jobs = list(self._jobs(windows))
        try:
            found = self._run(jobs)
        except OutOfMemory:
            if len(jobs) == len(windows):
                raise
            found = None
        if found is None:  # outside the handler, which keeps the tensors of the run that failed
            release_memory()
            jobs = [ContextBatch((number,), (window,)) for number, window in enumerate(windows)]
            found = self._run(jobs)
        for job, sums in zip(jobs, found, strict=True):
            out[list(job.numbers)] = sums[: len(job.numbers)]
        return out

    def forward(self, jobs: Sequence[ContextBatch]) -> npt.NDArray[np.float64]:
        """Run the model on jobs and return the sums of their windows, of shape ``(jobs, _TOGETHER)``, zeros after."""
        with torch.inference_mode():
            parts = {
                self._after_sources: jobs if self.encodes else [],
                self._after_contexts: [job for job in jobs if job.shared],
                self._alone: [job for job in jobs if not job.shared and not self.encodes],
            }
            found = {
                number: value
                for run, part in parts.items()
                if part
                for number, value in zip((n for job in part for n in job.numbers), run(part).tolist(), strict=True)
            }
        out = np.zeros((len(jobs), _TOGETHER))
        for row, job in enumerate(jobs):
            out[row, : len(job.numbers)] = [found[number] for number in job.numbers]
        return out

    def _run(self, jobs: Sequence[ContextBatch]) -> npt.NDArray[np.float64]:
        budget = budget_for(self._model, self._device)
        return by_length(
            lambda numbers: self.forward([jobs[number] for number in numbers]),
            [self._load(job, budget.at_once) for job in jobs],
            budget,
        )

    def _jobs(self, windows: Sequence[TokenWindow]) -> Iterator[ContextBatch]:
        """Put windows together that stand after the same tokens."""
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for number, window in enumerate(windows):
            groups[self._start_of(window, number)].append(number)
        for numbers in groups.values():
            shared = 0 if self.encodes else windows[numbers[0]].first - 1
            most = min(_TOGETHER, max(2, _COPIED // shared)) if shared else _TOGETHER
            for start in range(0, len(numbers), most):
                part = numbers[start : start + most]
                if self.encodes or (len(part) - 1) * shared >= _SAVED:
                    yield ContextBatch(tuple(part), tuple(windows[number] for number in part), shared)
                else:
                    yield from (ContextBatch((number,), (windows[number],)) for number in part)

    def _start_of(self, window: TokenWindow, number: int) -> Hashable:
        """Return what other windows must share with this one to be run together with it."""
        if self.encodes:
            return window.source
        return tuple(window.ids[: window.first]) if self._continues else number

    def _load(self, job: ContextBatch, at_once: int) -> int:
        """Return what a job weighs in a batch."""
        source = len(job.windows[0].source)
        load = load_of(job.shared or source) + sum(load_of(len(window.ids) - job.shared) for window in job.windows)
        load = max(load, len(job.windows) * source, len(job.windows) * job.shared * at_once // _COPIED)
        asked = sum(len(window.ids) - window.first for window in job.windows)
        return load if self._output.apart else max(load, _TARGET_WEIGHT * asked)

    def _alone(self, jobs: Sequence[ContextBatch]) -> torch.Tensor:
        windows = [window for job in jobs for window in job.windows]
        # No mask is needed on the right: no token looks at those after it.
        return self._sums(
            [window.ids for window in windows],
            [window.first for window in windows],
            lambda ids: self._model(input_ids=ids, use_cache=False),
        )

    def _after_contexts(self, jobs: Sequence[ContextBatch]) -> torch.Tensor:
        """Return the sums of windows whose first ``job.shared`` tokens are the same in each job."""
        if len(jobs) > 1 and not self._fit_together(jobs):
            return torch.cat([self._after_contexts([job]) for job in jobs])
        contexts = [job.windows[0].ids[: job.shared] for job in jobs]
        # Filled up on the left, so that distances to the tokens after a context are what they are without filling.
        ids, seen = padded(contexts, 0, self._device, left=True)
        places = (seen.cumsum(1) - 1).clamp(min=0)
        cache = self._output.without(
            lambda: self._model(input_ids=ids, attention_mask=seen, position_ids=places, use_cache=True)
        ).past_key_values
        owners = self._owners(jobs)
        cache.batch_select_indices(owners)
        seen = seen[owners]
        starts = seen.sum(1, keepdim=True)
        windows = [window for job in jobs for window in job.windows]
        shared = [job.shared for job in jobs for _ in job.windows]
        return self._sums(
            [window.ids[start:] for window, start in zip(windows, shared, strict=True)],
            [window.first - start for window, start in zip(windows, shared, strict=True)],
            lambda ids: self._model(
                input_ids=ids,
                attention_mask=torch.cat([seen, torch.ones_like(ids)], dim=1),
                position_ids=starts + torch.arange(ids.shape[1], device=ids.device),
                past_key_values=cache,
                use_cache=True,
            ),
        )

    def _fit_together(self, jobs: Sequence[ContextBatch]) -> bool:
        """Return whether contexts, filled up to the longest, leave room for all texts after them."""
        longest = max(job.shared for job in jobs)
        after = max(len(window.ids) - job.shared for job in jobs for window in job.windows)
        return longest + after <= self._limit and longest * sum(len(job.windows) for job in jobs) <= _COPIED

    def _after_sources(self, jobs: Sequence[ContextBatch]) -> torch.Tensor:
        """Return the sums of windows whose sources are encoded once each."""
        ids, mask = padded([job.windows[0].source for job in jobs], self._padding, self._device)
        unseen = additive(mask, self._model.dtype) if self._adds_masks else mask
        encoded = self._model.get_encoder()(input_ids=ids, attention_mask=unseen).last_hidden_state
        owners = self._owners(jobs)
        encoded = encoded[owners]
        unseen = None if unseen is None else unseen[owners]
        windows = [window for job in jobs for window in job.windows]
        return self._sums(
            [window.ids for window in windows],
            [window.first for window in windows],
            lambda ids: self._model(
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                attention_mask=unseen,
                decoder_input_ids=ids,
                use_cache=False,
            ),
        )

    def _owners(self, jobs: Sequence[ContextBatch]) -> torch.Tensor:
        """Return for each window of some jobs the number of its job among them."""
        return torch.tensor([number for number, job in enumerate(jobs) for _ in job.windows], device=self._device)

    def _sums(
        self, tokens: Sequence[Sequence[int]], firsts: Sequence[int], run: Callable[[torch.Tensor], Any]
    ) -> torch.Tensor:
        """Return the sum of -ln p of each text's tokens from its first scored one on, float64 of shape ``(texts,)``."""
        ids, mask = padded(tokens, 0, self._device)
        starts = torch.tensor(firsts, device=self._device)[:, None]
        asked = (mask == 1) & (torch.arange(ids.shape[1], device=self._device) >= starts)
        rows, columns = asked.nonzero(as_tuple=True)
        losses = self._output.losses(lambda: run(ids[:, :-1]), (rows, columns - 1), ids[rows, columns])
        return torch.zeros(len(tokens), dtype=torch.float64).index_add_(0, rows.cpu(), losses)

    def _agrees(self, fast: Callable[[Sequence[ContextBatch]], torch.Tensor], *, adds_masks: bool) -> bool:
        """Return whether this model computes the same in a fast way, which not every architecture provides for."""
        windows = []
        for more in ((), (8, 9, 10)):  # of different lengths, so that one is filled up
            before = [4, 5, 6, 7, *more]
            for last in (11, 12):
                causal = TokenWindow((), [*before, last, 13], len(before))
                windows.append(TokenWindow(tuple(before), [4, last, 13], 1) if self.encodes else causal)
        shared = [0 if self.encodes else window.first - 1 for window in windows]
        jobs = [ContextBatch((at, at + 1), tuple(windows[at : at + 2]), shared[at]) for at in (0, 2)]
        try:
            with torch.inference_mode():
                plain = (self._after_sources if self.encodes else self._alone)(jobs)
                self._adds_masks = adds_masks
                found = fast(jobs)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            log.info("%s goes the slow way: %s: %s", type(self._model).__name__, type(error).__name__, error)
            return False
        finally:
            self._adds_masks = False
        tolerance = 1e-3 if self._model.dtype == torch.float32 else 1e-2
        return bool(torch.allclose(found, plain, rtol=tolerance, atol=tolerance))

    def _probe(self) -> torch.Tensor:
        """Return the model's logits for a few tokens."""
        ids = torch.tensor([[0, 1, 2]], device=self._device)
        more = {"decoder_input_ids": ids} if self.encodes else {}
        logits: torch.Tensor = self._model(input_ids=ids, use_cache=False, **more).logits
        return logits


class _OutputLayer:
    """The output layer of a language model, not applied while the model itself runs.

    Attributes:
        apart: Whether nothing comes after the layer, so that it can be applied on its own. Otherwise the model applies
            it, and what comes after, to all places that are asked for at once.
    """

    def __init__(self, head: torch.nn.Module, probe: Callable[[], torch.Tensor], device: str) -> None:
        """Take hold of a layer.

        Args:
            head: The layer; what it is called with is a tensor of shape ``(texts, tokens, width)``.
            probe: Runs the model on a few tokens and returns its logits.
            device: Where the model is.
        """
        self._head = head
        self._slice = _SLICE_CPU if device == "cpu" else _SLICE_ACCELERATOR
        self._places: tuple[torch.Tensor, torch.Tensor] | None = None
        self._hidden: torch.Tensor | None = None
        self.apart = False
        head.register_forward_pre_hook(self._pick)
        self.apart = self._is_last(probe)

    def losses(
        self, run: Callable[[], Any], places: tuple[torch.Tensor, torch.Tensor], targets: torch.Tensor
    ) -> torch.Tensor:
        """Return -ln p of tokens, float64 on the CPU, of shape ``(places,)``.

        Args:
            run: Runs the model and returns its output with the logits.
            places: Texts and tokens after which the targets are predicted, each of shape ``(places,)``.
            targets: The tokens that are predicted.
        """
        with self._only(places):
            logits = run().logits
            hidden = self._hidden
        if hidden is None:
            logits = logits.reshape(-1, logits.shape[-1])
            return cross_entropy(logits.float(), targets, reduction="none").cpu().double()
        size = self._slice
        parts = [
            cross_entropy(self._head(each).float(), wanted, reduction="none")
            for each, wanted in zip(torch.split(hidden, size), torch.split(targets, size), strict=True)
        ]
        return torch.cat(parts).cpu().double()

    def without(self, run: Callable[[], Any]) -> Any:
        """Run the model without its output layer and return what it returns, its logits empty."""
        nowhere = torch.zeros(0, dtype=torch.long)
        with self._only((nowhere, nowhere)):
            return run()

    @contextmanager
    def _only(self, places: tuple[torch.Tensor, torch.Tensor]) -> Iterator[None]:
        self._places = places
        try:
            yield
        finally:
            self._places = self._hidden = None

    def _pick(self, head: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Give the layer only the places that are asked for, or none when it is applied apart."""
        if self._places is None:
            return inputs
        rows, columns = self._places
        picked = inputs[0][rows, columns]
        if self.apart:
            self._hidden = picked
            picked = picked[:0]
        return (picked[None], *inputs[1:])

    def _is_last(self, probe: Callable[[], torch.Tensor]) -> bool:
        """Return whether the model's logits are what the layer alone makes of its input."""
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        hook = self._head.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
        try:
            with torch.inference_mode():
                logits = probe()
        finally:
            hook.remove()
        return len(seen) == 1 and seen[0][1].shape == logits.shape and bool(torch.equal(seen[0][1], logits))
