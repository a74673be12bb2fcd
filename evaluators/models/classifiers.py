"""Texts to class scores: a sequence classifier reads each distinct text once, long ones in windows.

A text that is longer than the model reads is never cut off: its tokens are split into the fewest windows that fit, of
about equal length, each framed by the model's special tokens as a text of its own. What becomes of several windows is
the evaluator's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models.checkpoints import (
    WindowReader,
    budget_for,
    by_length,
    encode,
    finite,
    load_of,
    model_from,
    padded,
    token_ids,
    tokenizer_from,
)
from leadline.evaluators.models.resident import busy, resident
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from leadline.evaluators.settings import Settings


@dataclass(frozen=True, slots=True)
class Classified:
    """The output of a classifier for one text.

    Attributes:
        logits: The model's outputs, float64 of shape ``(windows, labels)``.
        places: Where each window starts and ends in the text, in code points.
        tokens: Tokens of the text, special ones not counted.
        labels: Names of the model's outputs, in the order of the logits.
        limit: Tokens that the model reads at once, special ones included; ``None`` when it reads any number.
    """

    logits: npt.NDArray[np.float64]
    places: tuple[tuple[int, int], ...]
    tokens: int
    labels: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def sigmoid(self) -> npt.NDArray[np.float64]:
        """Probability of each label alone, of shape ``(windows, labels)``: the labels do not exclude each other."""
        return sigmoid(self.logits)

    @property
    def softmax(self) -> npt.NDArray[np.float64]:
        """Probability of each label among all, of shape ``(windows, labels)``: exactly one is right."""
        shares = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def sigmoid(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities of the same shape, each of its own logit alone."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))  # overflows nowhere


def classify(ref: ModelRef, texts: Sequence[str], *, settings: Settings) -> list[Classified]:
    """Return what a classifier says of each text, in order; equal texts are read once.

    Args:
        texts: Any texts; long ones are read in windows.
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a classifier.
        OutOfMemory: A window does not fit into memory even alone.
    """
    if not texts:
        return []
    with busy:
        found = resident(ref, settings, _load).classify(list(dict.fromkeys(texts)))
    return [found[text] for text in texts]


class Classifier(WindowReader):
    """A loaded sequence classifier.

    Attributes:
        labels: Names of its outputs.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        config: Any = model.config
        self.labels = tuple(str(config.id2label[number]) for number in range(config.num_labels))

    def classify(self, texts: Sequence[str]) -> dict[str, Classified]:
        """Return what the model says of distinct texts."""
        encoded = token_ids(self._tokenizer, texts)
        cuts, inputs = self.cut(encoded)
        logits = by_length(
            lambda numbers: self._forward([inputs[number] for number in numbers]),
            [load_of(len(ids)) for ids in inputs],
            budget_for(self.model, self.device),
        )
        logits = finite(logits, self.ref)
        out = {}
        first = 0
        for text, each, pieces in zip(texts, encoded, cuts, strict=True):
            mine = logits[first : first + len(pieces)]
            first += len(pieces)
            out[text] = Classified(mine, self._places(text, pieces), len(each), self.labels, self.limit)
        return out

    def _places(self, text: str, pieces: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return where windows stand in their text; together they cover all of it."""
        if len(pieces) == 1:
            return ((0, len(text)),)
        tokens = encode(self._tokenizer, [text])[0].places
        starts = [0, *(tokens[start][0] for start, _ in pieces[1:])]
        return tuple(zip(starts, [*starts[1:], len(text)], strict=True))

    def _forward(self, batch: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        import torch

        ids, mask = padded(batch, self._tokenizer.pad_token_id or 0, self.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        out: npt.NDArray[np.float64] = logits.float().cpu().double().numpy()
        return out


def _load(ref: ModelRef, device: str, settings: Settings) -> Classifier:
    folder = locate(ref, settings)
    with loading(ref):
        model = model_from("AutoModelForSequenceClassification", folder, device, settings)
        return Classifier(ref, model, tokenizer_from(folder), device)
