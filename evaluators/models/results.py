"""Results of local models: classes, entities, support, likelihoods and similarities of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelRef, ModelUnavailable
from leadline.evaluators.models.catalogue import VITAMINC_NLI

if TYPE_CHECKING:
    import numpy.typing as npt

ENTAILMENT: Final = 0
CONTRADICTION: Final = 1
NEUTRAL: Final = 2
"""Columns of what premises say of hypotheses."""

_NAMES: Final = (("entail", "support"), ("contra", "refute"), ("neutral", "notenough"))
_SUPPORTS: Final = ("entail", "support", "consistent", "faithful", "grounded")
_GENERIC: Final = re.compile(r"LABEL_\d+")

SUPPORT_LIMIT: Final = 2048
"""Tokens of premise and hypothesis together that HHEM reads at once."""


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


class Entity(NamedTuple):
    """A stretch of a text that names something: ``text[start:end]``, of a type as the model calls it."""

    type: str
    start: int
    end: int
    probability: float


class Support(NamedTuple):
    """The support of a hypothesis by a premise.

    Attributes:
        value: From 0 to 1; ``None`` when the two texts are too long to be read.
        windows: Into how many pairs of windows the two texts are cut; 1 when the model reads both at once.
    """

    value: float | None
    windows: int


class ComparedPair(NamedTuple):
    """The output of a cross-encoder for pairs.

    Attributes:
        values: Similarities, float32 of shape ``(pairs,)`` in [0, 1].
        overlong: For each pair its tokens and the model's limit where it has more than the model reads, else ``None``.
    """

    values: npt.NDArray[np.float32]
    overlong: list[tuple[int, int] | None]


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


def finite(values: npt.NDArray[np.float64], ref: ModelRef) -> npt.NDArray[np.float64]:
    """Return numbers that a model gave, or refuse them when one is not a number.

    Args:
        values: Numbers of any shape.
        ref: The model, for the error.

    Raises:
        LeadlineError: One is NaN or infinite.
    """
    if not np.isfinite(values).all():
        raise LeadlineError(
            f"{ref} gave a score that is not a number.",
            hint="Choose another precision (float32, or bfloat16 on a GPU).",
            code=ErrorCode.MODEL_NOT_A_NUMBER,
        )
    return values


def nli_order(labels: Sequence[str], ref: ModelRef) -> list[int]:
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
