"""Texts to the entities in them: a token classifier reads each distinct text once, long ones in windows.

Labels are those of any checkpoint for Transformers' ``AutoModelForTokenClassification``: plain (``PERSON``) or with the
place in the entity before them (``B-PER``, ``I-PER``, ``E-PER``, ``S-PER``). A word has the label of its first token,
as such models are trained; words of one label next to each other are one entity unless a second one begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models.checkpoints import (
    Encoded,
    WindowReader,
    budget_for,
    by_length,
    encode,
    finite,
    load_of,
    model_from,
    padded,
    tokenizer_from,
)
from leadline.evaluators.models.resident import busy, resident
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from leadline.evaluators.settings import Settings

_PLACED: Final = re.compile(r"(?P<place>[BIESLU])[-_](?P<type>.+)")
_OUTSIDE: Final = ("O", "")
_WORD: Final = re.compile(r"\w")


class Entity(NamedTuple):
    """A stretch of a text that names something: ``text[start:end]``, of a type as the model calls it."""

    type: str
    start: int
    end: int
    probability: float


def entities(ref: ModelRef, texts: Sequence[str], *, settings: Settings) -> list[tuple[Entity, ...]]:
    """Return the entities of each text, in order; equal texts are read once.

    Args:
        texts: Any texts; long ones are read in windows.
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a token classifier.
        OutOfMemory: A window does not fit into memory even alone.
    """
    distinct = [text for text in dict.fromkeys(texts) if text.strip()]
    if not distinct:
        return [()] * len(texts)
    with busy:
        found = dict(zip(distinct, resident(ref, settings, _load).entities(distinct), strict=True))
    return [found.get(text, ()) for text in texts]


def types_of(ref: ModelRef, *, settings: Settings) -> frozenset[str]:
    """Return the types of entities that a model knows.

    Args:
        settings: The run's choices.
    """
    with busy:
        return frozenset(type_ for _, type_ in resident(ref, settings, _load).labels if type_ not in _OUTSIDE)


class TokenClassifier(WindowReader):
    """A loaded token classifier.

    Attributes:
        labels: For each output whether an entity begins with it, and the entity's type.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        config: Any = model.config
        self.labels = tuple(_label(str(config.id2label[number])) for number in range(config.num_labels))

    def entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Return the entities of distinct texts."""
        encoded = encode(self._tokenizer, texts)
        cuts, inputs = self.cut([each.ids for each in encoded])
        width = max(map(len, inputs))
        said = by_length(
            lambda numbers: self._forward([inputs[number] for number in numbers], width),
            [load_of(len(ids)) for ids in inputs],
            budget_for(self.model, self.device),
        )
        said = finite(said, self.ref)
        out = []
        first, skip = 0, len(self._before)
        for text, each, pieces in zip(texts, encoded, cuts, strict=True):
            tokens = [
                said[first + at, skip + token] for at, (start, end) in enumerate(pieces) for token in range(end - start)
            ]
            first += len(pieces)
            out.append(self._joined(text, each, tokens))
        return out

    def _forward(self, batch: Sequence[Sequence[int]], width: int) -> npt.NDArray[np.float64]:
        """Return the likeliest label and its probability for each token, of shape ``(texts, width, 2)``."""
        import torch

        ids, mask = padded(batch, self._tokenizer.pad_token_id or 0, self.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=mask).logits.float()
            best, label = logits.softmax(dim=-1).max(dim=-1)
        out = np.zeros((len(batch), width, 2))
        out[:, : ids.shape[1], 0] = label.cpu().numpy()
        out[:, : ids.shape[1], 1] = best.cpu().double().numpy()
        return out

    def _joined(self, text: str, encoded: Encoded, said: Sequence[npt.NDArray[np.float64]]) -> tuple[Entity, ...]:
        """Return the entities that the tokens of a text make."""
        found: list[Entity] = []
        last_type, last_end = "", 0
        for places, own in _words(text, encoded.places, said):
            begins, type_ = self.labels[int(own[0])]
            start, end = places
            if type_ in _OUTSIDE:
                last_type = ""
                continue
            goes_on = type_ == last_type and not begins and not text[last_end:start].strip()
            if goes_on:
                found[-1] = found[-1]._replace(end=end, probability=min(found[-1].probability, float(own[1])))
            else:
                found.append(Entity(type_, start, end, float(own[1])))
            last_type, last_end = type_, end
        return tuple(found)


def _words(
    text: str, places: Sequence[tuple[int, int]], said: Sequence[npt.NDArray[np.float64]]
) -> list[tuple[tuple[int, int], npt.NDArray[np.float64]]]:
    """Return words with what was said of their first token; white space that tokens include is no part of them."""
    out: list[tuple[tuple[int, int], npt.NDArray[np.float64]]] = []
    for (start, end), own in zip(places, said, strict=True):
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end -= len(piece) - len(piece.rstrip())
        if start >= end:
            continue
        (first, last), said_first = out[-1] if out else ((0, -1), own)
        # Tokens of one character, as byte-level ones are, have the same place.
        if start < last or (start == last and _WORD.match(text[start - 1]) and _WORD.match(text[start])):
            out[-1] = ((first, max(last, end)), said_first)
        else:
            out.append(((start, end), own))
    return out


def _label(name: str) -> tuple[bool, str]:
    """Return whether an entity begins with a label, and the entity's type."""
    placed = _PLACED.fullmatch(name)
    return (placed["place"] in "BSU", placed["type"]) if placed else (False, name)


def _load(ref: ModelRef, device: str, settings: Settings) -> TokenClassifier:
    folder = locate(ref, settings)
    with loading(ref):
        model = model_from("AutoModelForTokenClassification", folder, device, settings)
        made_as = list(getattr(model.config, "architectures", None) or [])
        if not any(name.endswith("ForTokenClassification") for name in made_as):
            # Transformers would draw the missing layer by chance, and say so in a warning only.
            raise ModelUnavailable(
                f"{ref} is no token classifier; it was saved as {', '.join(made_as) or 'nothing that it says'}.",
                hint="Choose a model that was trained to tell names in texts (token classification, NER).",
                code=ErrorCode.MODEL_WRONG_KIND,
            )
        return TokenClassifier(ref, model, tokenizer_from(folder), device)
