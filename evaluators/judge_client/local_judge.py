"""A judge that runs here: a causal language model with a chat template, many questions in one batch, on one thread.

Greedy at temperature 0. Padding on the left keeps replies independent of what else is in the batch, up to rounding.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Json
from leadline.evaluators.ground import LeadlineError, ModelRef
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.transport import AttemptError, Refused, Transient
from leadline.evaluators.models.runtime import busy, is_out_of_memory, loading, release_memory, resident
from leadline.evaluators.models.tokens import token_limit, tokenizer_from
from leadline.evaluators.models.weights import identity, locate, parse_ref
from leadline.evaluators.settings import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import torch

    from leadline.evaluators.settings import Settings

BATCH_CPU: Final = 8
BATCH_ACCELERATOR: Final = 64
"""Questions that are answered together."""


def local_ref(config: JudgeConfig) -> ModelRef:
    """Return the weights of a local judge.

    Raises:
        UsageError: Its model is neither a hub id nor a directory.
    """
    return parse_ref(f"{config.model}@{config.revision}" if config.revision else config.model, "chat_model")


def local_identity(config: JudgeConfig, settings: Settings) -> dict[str, Json]:
    """Return what a local judge's verdicts depend on: its weights by content or commit, not by where they lie.

    Args:
        config: A judge of the kind ``local``.
        settings: The run's settings, for the number format.
    """
    return config.identity() | {"model": identity(local_ref(config), settings), "revision": None}


@dataclass(frozen=True, slots=True)
class _Request:
    """A question that waits for its batch."""

    config: JudgeConfig
    messages: list[dict[str, str]]
    max_tokens: int
    future: asyncio.Future[Reply]
    loop: asyncio.AbstractEventLoop


class LocalTransport:
    """Answers questions with a model in this process.

    Args:
        settings: The run's choices: device, number format, whether weights may be fetched.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._waiting: list[_Request] = []
        self._lock = Lock()
        self._working = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leadline-local-judge")
        self._process = os.getpid()

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`.transport.Transport`; the prompt alone asks for the form of the reply."""
        if os.getpid() != self._process:
            self._start()  # a forked process has no thread that would answer
        loop = asyncio.get_running_loop()
        request = _Request(config, messages, max_tokens, loop.create_future(), loop)
        with self._lock:
            self._waiting.append(request)
            if not self._working:
                self._working = True
                self._thread.submit(self._work)
        return await request.future

    def _work(self) -> None:
        """Answer what waits, batch by batch, until nothing does."""
        while True:
            with self._lock:
                batch, self._waiting = _first_batch(self._waiting)
                if not batch:
                    self._working = False
                    return
            try:
                results: Sequence[Reply | AttemptError] = self._answer(batch)
            except LeadlineError as error:
                results = [Refused(str(error), every=True)] * len(batch)
            except Exception as error:
                results = [Transient(f"{type(error).__name__}: {error}"[:300])] * len(batch)
            for request, result in zip(batch, results, strict=True):
                request.loop.call_soon_threadsafe(_deliver, request.future, result)

    def _answer(self, batch: Sequence[_Request]) -> list[Reply | AttemptError]:
        with busy:
            model = resident(local_ref(batch[0].config), self._settings, _load)
            replies: list[Reply | AttemptError] = []
            for start in range(0, len(batch), model.batch):
                replies += model.reply(batch[start : start + model.batch])
            return replies


def _first_batch(waiting: list[_Request]) -> tuple[list[_Request], list[_Request]]:
    """Return those that can be answered together with the first one, and the others."""
    if not waiting:
        return [], []
    key = (waiting[0].config, waiting[0].max_tokens)
    together = [request for request in waiting if (request.config, request.max_tokens) == key][:BATCH_ACCELERATOR]
    taken = set(map(id, together))
    return together, [request for request in waiting if id(request) not in taken]


def _deliver(future: asyncio.Future[Reply], result: Reply | AttemptError) -> None:
    if future.done():
        return
    if isinstance(result, Reply):
        future.set_result(result)
    else:
        future.set_exception(result)


def _load(ref: ModelRef, device: str, settings: Settings) -> ChatModel:
    from leadline.evaluators.models.checkpoints import model_from

    folder = locate(ref, settings)
    with loading(ref):
        return ChatModel(model_from("AutoModelForCausalLM", folder, device, settings), tokenizer_from(folder), device)


class ChatModel:
    """A loaded chat model.

    Attributes:
        model: The Transformers model.
        batch: Questions that it answers together.
    """

    def __init__(self, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self.model: Any = model
        self.batch = BATCH_CPU if device == "cpu" else BATCH_ACCELERATOR
        self._tokenizer = tokenizer
        self._device = device
        self._limit = token_limit(tokenizer, model)

    def reply(self, requests: Sequence[_Request]) -> list[Reply | AttemptError]:
        """Answer questions of one configuration; those that do not fit the model are refused."""
        prompts = [self._prompt(request.messages) for request in requests]
        room = requests[0].max_tokens
        too_long = [self._limit is not None and len(prompt) + room > self._limit for prompt in prompts]
        fitting = [prompt for prompt, long in zip(prompts, too_long, strict=True) if not long]
        answers = iter(self._generate(fitting, requests[0].config, room) if fitting else [])
        return [
            Refused(f"{len(prompt)} tokens of question and {room} of reply exceed the model's {self._limit}")
            if long
            else next(answers)
            for prompt, long in zip(prompts, too_long, strict=True)
        ]

    def _prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """Return a question's tokens, by the model's chat template if it has one."""
        tokenizer = self._tokenizer
        if not tokenizer.chat_template:
            return list(tokenizer("\n\n".join(m["content"] for m in messages) + "\n\n").input_ids)
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception:  # templates refuse a system message in ways of their own: put it before the question
            system, first, *others = messages
            merged = [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *others]
            text = tokenizer.apply_chat_template(merged, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    def _generate(self, prompts: Sequence[list[int]], config: JudgeConfig, room: int) -> list[Reply | AttemptError]:
        import torch

        started = time.perf_counter()
        sampling: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if config.temperature > 0:
            sampling = {"do_sample": True, "temperature": config.temperature, "top_p": config.top_p or 1.0, "top_k": 0}
            if config.seed is not None:
                torch.manual_seed(config.seed)
        padded = self._tokenizer.pad({"input_ids": list(prompts)}, padding=True, return_tensors="pt").to(self._device)
        made = self._made(padded, room, sampling)
        if made is None:
            release_memory()
            if len(prompts) == 1:
                return [Refused("the question does not fit into the device's memory")]
            half = len(prompts) // 2
            return self._generate(prompts[:half], config, room) + self._generate(prompts[half:], config, room)
        seconds = time.perf_counter() - started
        return [
            self._read(tokens.tolist(), len(prompt), room, seconds)
            for prompt, tokens in zip(prompts, made[:, padded.input_ids.shape[1] :], strict=True)
        ]

    def _made(self, padded: Any, room: int, sampling: Mapping[str, Any]) -> torch.Tensor | None:
        """Return what the model makes of prompts, ``None`` where memory runs out.

        The error is left behind here: its traceback keeps the tensors of the failed call.
        """
        import torch

        try:
            with torch.inference_mode():
                made: torch.Tensor = self.model.generate(
                    **padded, max_new_tokens=room, pad_token_id=self._tokenizer.pad_token_id, **sampling
                )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return None
        return made

    def _read(self, tokens: list[int], sent: int, room: int, seconds: float) -> Reply:
        ends = self.model.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        length = next((place for place, token in enumerate(tokens) if token in ends), None)
        count = len(tokens) if length is None else length
        return Reply(
            text=without_surrogates(self._tokenizer.decode(tokens[:count], skip_special_tokens=True)),
            finish_reason="length" if length is None and count >= room else "stop",
            input_tokens=sent,
            output_tokens=count,
            cost_usd=0.0,
            seconds=seconds,
        )
