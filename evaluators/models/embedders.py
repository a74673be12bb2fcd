"""Texts to vectors: each distinct text once per model, however many evaluators, rows, chunks and runs need it.

A vector is looked for in this process, then in the run's vector store, and only then computed, longest texts first, in
batches that are halved when memory runs out. Vectors are those of ``SentenceTransformer.encode`` divided by their
length, with two additions:

* A text longer than the model reads is never cut off: it is split at white space into windows of about equal
  length that fit, and its vector is the mean of the windows' unit vectors, weighted by their number of tokens.
* A text of nothing but white space has the zero vector, so that its cosine with anything is 0.

A matrix product rounds otherwise when its shape is another, so that a text's vector moves by some 1e-7 with the texts
that share its batch. Where chance decides which those are, as among judged rows, a caller asks for vectors that are
*steady*: then every batch has one of few shapes, a fixed number of rows, filled up with dummies, and a length that is a
multiple of 8 tokens, and a run that goes on after a crash gets the very numbers that it would have got undisturbed, on
the same machine. That takes about a quarter more time. The offline embedder fills nothing up: its vectors are always
steady.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef
from leadline.evaluators.models.runtime import (
    batch_size_for,
    failing_as_unavailable,
    in_batches,
    is_out_of_memory,
    libraries,
    loading,
    model_settings,
    release_memory,
    require_onnx,
    sentence_device,
)
from leadline.evaluators.models.vectors import MemoryVectors, VectorStore, text_digest
from leadline.evaluators.models.weights import content_of, identity, identity_digest, locate, runs_without_torch
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

log = logging.getLogger("leadline.models")

RESIDENT: Final = 2
"""Models that stay loaded in a process: the two that the default evaluators use."""

KEEP_AFTER_SECONDS: Final = 5.0
KEEP_AFTER_TEXTS: Final = 16_384
"""How much computed work a crash may lose before it is in the vector store."""

_TOKENS_PER_BYTE: Final = 11
"""Normalisation can turn one character of 3 bytes into 33 (U+FDFA under NFKC), of one token each."""

_SPARE_TOKENS: Final = 8
"""Special tokens and word-start marks that a tokenizer adds to a text."""

CPU_ROWS: Final = 8
"""Rows of a batch of steady vectors on a processor, dummies included: with more, more has to be filled up."""

LENGTH_STEP: Final = 8
"""A batch's length is a multiple of so many tokens, or the longest that the model reads."""

_FILLING: Final = "a"
_TOKENIZED_AT_ONCE: Final = 256
_WHITE_SPACE: Final = (" ", "\n", "\t", "\u00a0", "\u3000")

_memory: Final = MemoryVectors()
_busy: Final = threading.Lock()


def embed(
    ref: ModelRef, texts: Sequence[str], *, settings: Settings, vectors: VectorStore | None = None, steady: bool = False
) -> npt.NDArray[np.float32]:
    """Return the vectors of texts, float32 of shape ``(len(texts), d)`` and unit length, in the order given.

    Texts of white space alone get the zero vector. Without texts the shape is ``(0, 0)``.

    Args:
        ref: The embedder.
        texts: Any texts, repeated ones included.
        settings: The run's choices.
        vectors: Where vectors outlive the process.
        steady: Whether what is computed must not depend on the other texts.

    Raises:
        ModelUnavailable: A vector has to be computed and the weights are not here or cannot be loaded.
        OutOfMemory: A text does not fit into memory even alone.
    """
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    model = identity_digest(identity(ref, settings))
    digests = [text_digest(text) for text in texts]
    spoken = {digest: text for digest, text in zip(digests, texts, strict=True) if text and not text.isspace()}
    found = _remembered(model, list(spoken), vectors)
    missing = {digest: text for digest, text in spoken.items() if digest not in found}
    if missing:
        with _busy:  # one thread computes; the others find what it computed
            found.update(_memory.get(model, list(missing)))
            missing = {digest: text for digest, text in missing.items() if digest not in found}
            if missing:
                found.update(_compute(ref, model, missing, settings, vectors, steady=steady))
    width = len(next(iter(found.values()))) if found else _loaded(ref, settings).width
    out = np.zeros((len(texts), width), dtype=np.float32)
    for row, digest in enumerate(digests):
        if digest in found:
            out[row] = found[digest]
    return out


def embed_apart(ref: ModelRef, texts: Sequence[str], *, settings: Settings) -> npt.NDArray[np.float32]:
    """Return what :func:`embed` does, computed from these texts alone and remembered nowhere.

    A text's vector moves by some 1e-7 with the texts that share its batch. What amplifies that needs vectors that
    depend on nothing else that is scored: equal texts in equal order give equal bits, on the same machine.

    Args:
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded.
        OutOfMemory: A text does not fit into memory even alone.
    """
    with _busy:
        return _loaded(ref, settings).encode(texts)


def forget() -> None:
    """Drop the vectors in memory; loaded models stay."""
    _memory.clear()


def unload() -> None:
    """Drop the loaded models and the vectors in memory."""
    _load.cache_clear()
    _memory.clear()


class Encoder(Protocol):
    """A loaded model that turns texts into vectors.

    Attributes:
        longest: Tokens that it reads at once, special ones included; ``None`` when it reads any number.
        width: Numbers per vector.
        prompt_tokens: Tokens of what it puts before each text.
        fills: Whether it can fill up short texts to a length.
        on_cpu: Whether it runs on the processor.
    """

    longest: int | None
    width: int
    prompt_tokens: int
    fills: bool
    on_cpu: bool

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens, special ones included, each text has."""

    def forward(self, batch: Sequence[str], length: int | None = None) -> npt.NDArray[np.float32]:
        """Return the vectors, of any length, of texts that fit.

        Args:
            length: Tokens that each text is filled up to; by default as many as the longest of the batch has.
        """


class Embedder:
    """A loaded model that reads texts of any length.

    Attributes:
        encoder: The model.
        batch_size: The largest batch to try.
        limit: Tokens of a text that it reads at once, special ones included; ``None`` when it reads any number.
        rows: Rows of a batch of steady vectors, dummies included; ``None`` for a model without padding, and once
            memory ran out.
    """

    def __init__(self, encoder: Encoder, batch_size: int) -> None:
        self.encoder = encoder
        self.batch_size = batch_size
        self.rows = _rows_of_batches(encoder, batch_size)
        self.limit = encoder.longest
        if self.limit is not None and encoder.prompt_tokens:
            self.limit = max(_SPARE_TOKENS, self.limit - encoder.prompt_tokens)

    @property
    def width(self) -> int:
        """Numbers per vector."""
        return self.encoder.width

    def encode(self, texts: Sequence[str], *, steady: bool = False) -> npt.NDArray[np.float32]:
        """Return unit vectors of texts, long ones by their windows; best with the longest texts first.

        Args:
            steady: Whether a vector must not depend, in its last digits, on the texts that it is computed with.
        """
        split = self.windows(texts)
        vectors = self._encode([piece for windows in split for piece, _ in windows], steady=steady)
        if len(vectors) == len(texts):
            return vectors
        ends = np.cumsum([len(windows) for windows in split])
        out: npt.NDArray[np.float32] = vectors[ends - 1]
        for row, windows in enumerate(split):
            if len(windows) > 1:
                tokens = np.asarray([count for _, count in windows], dtype=np.float32)
                out[row] = _unit(tokens[None, :] @ vectors[ends[row] - len(windows) : ends[row]])[0]
        return out

    def windows(self, texts: Sequence[str]) -> list[list[tuple[str, int]]]:
        """Return for each text the pieces that fit the model, each with its number of tokens (1 for an uncut text)."""
        texts = [without_surrogates(text) for text in texts]
        long = [place for place, text in enumerate(texts) if not self._surely_fits(text)]
        out = [[(text, 1)] for text in texts]
        for start in range(0, len(long), _TOKENIZED_AT_ONCE):
            places = long[start : start + _TOKENIZED_AT_ONCE]
            for place, tokens in zip(places, self.encoder.token_counts([texts[at] for at in places]), strict=True):
                if self.limit is not None and tokens > self.limit:
                    out[place] = self._split(texts[place], tokens)
        return out

    def _split(self, text: str, tokens: int) -> list[tuple[str, int]]:
        assert self.limit is not None  # noqa: S101
        pieces = _pieces(text, math.ceil(tokens / max(1, self.limit - _SPARE_TOKENS)))
        out: list[tuple[str, int]] = []
        for piece, count in zip(pieces, self.encoder.token_counts(pieces), strict=True):
            if count > self.limit and len(piece) > 1:
                out += self._split(piece, count)
            else:
                out.append((piece, count))
        return out

    def _surely_fits(self, text: str) -> bool:
        if self.limit is None:
            return True
        most = len(text) if text.isascii() else _TOKENS_PER_BYTE * len(text.encode())
        return most + _SPARE_TOKENS <= self.limit

    def _encode(self, pieces: Sequence[str], *, steady: bool) -> npt.NDArray[np.float32]:
        """Return unit vectors of pieces that fit the model."""
        if steady and self.rows is not None:
            try:
                return self._in_shapes(pieces, self.rows)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            self.rows = None
            release_memory()
        return in_batches(self._forward, pieces, self.batch_size)

    def _in_shapes(self, pieces: Sequence[str], rows: int) -> npt.NDArray[np.float32]:
        """Encode pieces in batches of few shapes, the longest first.

        Every row is padded, so that no batch does without an attention mask; where pieces are as long as the model
        reads, one row of each batch is filling instead.
        """
        lengths = [self._padded(count) for count in self.encoder.token_counts(pieces)]
        order = sorted(range(len(pieces)), key=lambda place: -lengths[place])
        out = np.empty((len(pieces), self.width), dtype=np.float32)
        for length, group in groupby(order, key=lengths.__getitem__):
            while places := list(islice(group, rows - (length == self.encoder.longest))):
                batch = [pieces[place] for place in places] + [_FILLING] * (rows - len(places))
                out[places] = self._forward(batch, length)[: len(places)]
        return out

    def _padded(self, tokens: int) -> int:
        length = ((tokens + self.encoder.prompt_tokens) // LENGTH_STEP + 1) * LENGTH_STEP
        return length if self.encoder.longest is None else min(length, self.encoder.longest)

    def _forward(self, batch: Sequence[str], length: int | None = None) -> npt.NDArray[np.float32]:
        vectors = self.encoder.forward(batch, length)
        if not np.isfinite(vectors).all():
            raise LeadlineError(
                "The embedding model gave a vector that is not a number.",
                hint="Choose another precision (float32, or bfloat16 on a GPU).",
                code=ErrorCode.MODEL_NOT_A_NUMBER,
            )
        return _unit(vectors)


def _remembered(
    model: str, digests: Sequence[bytes], vectors: VectorStore | None
) -> dict[bytes, npt.NDArray[np.float32]]:
    found = _memory.get(model, digests)
    if vectors is None or len(found) == len(digests):
        return found
    stored = vectors.get(model, [digest for digest in digests if digest not in found])
    _memory.put(model, list(stored), list(stored.values()))
    return found | dict(stored)


def _compute(
    ref: ModelRef,
    model: str,
    texts: Mapping[bytes, str],
    settings: Settings,
    vectors: VectorStore | None,
    *,
    steady: bool,
) -> dict[bytes, npt.NDArray[np.float32]]:
    """Encode texts, longest first, and keep the vectors every few seconds."""
    embedder = _loaded(ref, settings)
    order = sorted(texts, key=lambda digest: -len(texts[digest]))
    step = embedder.batch_size * 8
    found: dict[bytes, npt.NDArray[np.float32]] = {}
    unkept: list[bytes] = []
    last = time.monotonic()
    try:
        for start in range(0, len(order), step):
            digests = order[start : start + step]
            encoded = embedder.encode([texts[digest] for digest in digests], steady=steady)
            found.update(zip(digests, encoded, strict=True))
            _memory.put(model, digests, encoded)
            unkept += digests
            if time.monotonic() - last > KEEP_AFTER_SECONDS or len(unkept) >= KEEP_AFTER_TEXTS:
                _keep(vectors, model, unkept, found)
                unkept, last = [], time.monotonic()
    finally:
        _keep(vectors, model, unkept, found)
    return found


def _keep(
    vectors: VectorStore | None, model: str, digests: Sequence[bytes], found: Mapping[bytes, npt.NDArray[np.float32]]
) -> None:
    if vectors is None or not digests:
        return
    try:
        vectors.put(model, digests, np.stack([found[digest] for digest in digests]))
    except OSError as error:
        log.warning("Embeddings could not be stored and will be computed again: %s", error)


def _rows_of_batches(encoder: Encoder, batch_size: int) -> int | None:
    if not encoder.fills:
        return None
    return max(2, min(batch_size, CPU_ROWS) if encoder.on_cpu else batch_size)


def _loaded(ref: ModelRef, settings: Settings) -> Embedder:
    return _load(ref, sentence_device(ref, settings), model_settings(settings), content_of(ref))


@lru_cache(maxsize=RESIDENT)
def _load(ref: ModelRef, device: str, settings: Settings, content: str) -> Embedder:
    if runs_without_torch(ref, settings):
        require_onnx()
        from leadline.evaluators.models.bert_embedder import TEXTS_AT_ONCE, BertEmbedder

        folder = locate(ref, settings)
        with failing_as_unavailable(ref):
            return Embedder(BertEmbedder(folder), TEXTS_AT_ONCE)
    with libraries():
        from leadline.evaluators.models.sentence_models import load_embedder

        encoder = load_embedder(ref, device, settings)
    with loading(ref):  # a tokenizer that cannot be asked is a model that cannot be loaded
        return Embedder(encoder, batch_size_for(device))


def _pieces(text: str, count: int) -> list[str]:
    """Cut a text into about equal pieces, at white space where there is some near; no character is lost."""
    size = max(1, math.ceil(len(text) / max(2, count)))
    out = []
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            end = max((text.rfind(space, end - size // 4, end) for space in _WHITE_SPACE), default=-1)
            end = start + size if end <= start else end
        out.append(text[start:end])
        start = end
    return out


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
