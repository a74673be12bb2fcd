"""Natural language inference: how likely one text entails another, contradicts it, or does neither.

A sequence classifier reads premise and hypothesis as a pair, in one pass over all rows' pairs, longest first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models.catalogue import VITAMINC_NLI
from leadline.evaluators.models.checkpoints import (
    EncodedPair,
    budget_for,
    by_length,
    encode,
    encode_pairs,
    finite,
    load_of,
    model_from,
    padded_pairs,
    token_limit,
    tokenizer_from,
    windows,
)
from leadline.evaluators.models.resident import busy, resident
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from leadline.evaluators.settings import Settings

ENTAILMENT: Final = 0
CONTRADICTION: Final = 1
NEUTRAL: Final = 2

_NAMES: Final = (("entail", "support"), ("contra", "refute"), ("neutral", "notenough"))
_SUPPORTS: Final = ("entail", "support", "consistent", "faithful", "grounded")
_GENERIC: Final = re.compile(r"LABEL_\d+")
_SPARE_TOKENS: Final = 4
"""Tokens that a text can take more of when it is cut apart inside a word."""


def infer(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> npt.NDArray[np.float64]:
    """Return what each premise says of its hypothesis; equal pairs are read once.

    Args:
        ref: The classifier.
        pairs: Premise and hypothesis, both short enough (:func:`fit`).
        settings: The run's choices.

    Returns:
        Probabilities of shape ``(len(pairs), 3)``: entailment, contradiction, neutral. Each row sums to 1.

    Raises:
        ModelUnavailable: The weights are not here or are not those of a classifier of this kind.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    if not pairs:
        return np.zeros((0, 3))
    place = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    with busy:
        found = resident(ref, settings, _load).infer(list(place))
    return found[[place[pair] for pair in pairs]]


def fit(ref: ModelRef, texts: Sequence[str], *, settings: Settings) -> dict[str, list[tuple[int, int]]]:
    """Return where to cut texts so that any two pieces fit into the model together; most are not cut.

    Args:
        settings: The run's choices: device, number format, whether weights may be fetched.

    Returns:
        For each distinct text the places of its pieces, in code points; together they cover it.

    Raises:
        ModelUnavailable: The weights are not here or are not those of a classifier of this kind.
    """
    with busy:
        return resident(ref, settings, _load).fit(list(dict.fromkeys(texts)))


class PairClassifier:
    """A loaded classifier of pairs.

    Attributes:
        model: The Transformers model.
        limit: Tokens that it reads at once, special ones included; ``None`` when it reads any number.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        config: Any = model.config
        self.ref = ref
        self.model = model
        self.device = device
        self.limit = token_limit(tokenizer, model)
        self._tokenizer = tokenizer
        self._special = int(tokenizer.num_special_tokens_to_add(pair=True))
        self._order = order([str(config.id2label[number]) for number in range(config.num_labels)], ref)

    def infer(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return the probabilities of distinct pairs; see :func:`infer`."""
        inputs = encode_pairs(self._tokenizer, pairs, self.limit)
        logits = by_length(
            lambda numbers: self._forward([inputs[number] for number in numbers]),
            [load_of(len(pair.ids)) for pair in inputs],
            budget_for(self.model, self.device),
        )
        logits = finite(logits, self.ref)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        ordered = np.asarray((shares / shares.sum(axis=1, keepdims=True))[:, self._order])
        return np.insert(ordered, CONTRADICTION, 0.0, axis=1) if len(self._order) == 2 else ordered

    def fit(self, texts: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """Return the pieces of distinct texts; see :func:`fit`."""
        out = {text: [(0, len(text))] for text in texts}
        if self.limit is None:
            return out
        room = max(1, (self.limit - self._special) // 2)
        for text, encoded in zip(texts, encode(self._tokenizer, texts), strict=True):
            if len(encoded.ids) > room:
                cuts = windows(len(encoded.ids), max(1, room - _SPARE_TOKENS))
                starts = [0, *(encoded.places[start][0] for start, _ in cuts[1:])]
                out[text] = [(a, b) for a, b in zip(starts, [*starts[1:], len(text)], strict=True) if a < b]
        return out

    def _forward(self, batch: Sequence[EncodedPair]) -> npt.NDArray[np.float64]:
        import torch

        with torch.inference_mode():
            logits = self.model(**padded_pairs(batch, self._tokenizer, self.device)).logits
        out: npt.NDArray[np.float64] = logits.float().cpu().double().numpy()
        return out


def order(labels: Sequence[str], ref: ModelRef) -> list[int]:
    """Return which of a classifier's outputs are entailment, contradiction and neutral, by their names.

    Fact verifiers say SUPPORTS, REFUTES and NOT ENOUGH INFO. Those of two outputs, such as MiniCheck's, say whether a
    text supports a claim: what does not support it counts as neutral; without names the second one supports.

    Args:
        labels: Names of the outputs, in the order of the logits.
        ref: The weights, for the error.

    Raises:
        ModelUnavailable: The outputs are neither these three nor those two.

    Returns:
        Places of entailment, contradiction and neutral, or of support and its lack.
    """
    if ref == VITAMINC_NLI and all(_GENERIC.fullmatch(label) for label in labels):
        return [ENTAILMENT, CONTRADICTION, NEUTRAL]
    plain = [re.sub(r"[\W_]", "", label.lower()) for label in labels]
    if len(labels) == 2:
        if all(_GENERIC.fullmatch(label) for label in labels):
            return [1, 0]
        supports = [at for at, label in enumerate(plain) if label.startswith(_SUPPORTS)]
        if len(supports) == 1:
            return [supports[0], 1 - supports[0]]
    found = [[at for at, label in enumerate(plain) if label.startswith(names)] for names in _NAMES]
    if len(labels) != 3 or any(len(places) != 1 for places in found):
        raise ModelUnavailable(
            f"{ref} does not tell entailment, contradiction and neutral apart; its outputs are {', '.join(labels)}."[
                :500
            ],
            hint="Choose a model for natural language inference, and name its outputs in id2label of its config.json.",
            code=ErrorCode.MODEL_WRONG_KIND,
        )
    return [places[0] for places in found]


def _load(ref: ModelRef, device: str, settings: Settings) -> PairClassifier:
    folder = locate(ref, settings)
    with loading(ref):
        model = model_from("AutoModelForSequenceClassification", folder, device, settings)
        return PairClassifier(ref, model, tokenizer_from(folder), device)
