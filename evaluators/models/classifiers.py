"""Classifiers of texts, of pairs of texts and of tokens, on Transformers.

A text that is longer than the model reads is never cut off: its tokens are split into the fewest windows that fit, of
about equal length, each framed by the model's special tokens as a text of its own. What becomes of several windows is
the evaluator's choice.

Labels of tokens are those of any checkpoint for Transformers' ``AutoModelForTokenClassification``: plain (``PERSON``)
or with the place in the entity before them (``B-PER``, ``I-PER``, ``E-PER``, ``S-PER``). A word has the label of its
first token, as such models are trained; words of one label next to each other are one entity unless a second one
begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models.checkpoints import LoadedModel, WindowReader, model_from, padded, padded_pairs
from leadline.evaluators.models.results import CONTRADICTION, Classified, Entity, nli_order
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.tokens import (
    Encoded,
    EncodedPair,
    encode,
    encode_pairs,
    places_of,
    token_ids,
    token_limit,
    tokenizer_from,
    windows,
)
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

_PLACED: Final = re.compile(r"(?P<place>[BIESLU])[-_](?P<type>.+)")
_OUTSIDE: Final = ("O", "")
_WORD: Final = re.compile(r"\w")
_SPARE_TOKENS: Final = 4
"""Tokens that a text can take more of when it is cut apart inside a word."""


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
        logits = self._read(self._forward, inputs, [len(ids) for ids in inputs])
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
        return tuple(places_of(pieces, encode(self._tokenizer, [text])[0].places, text))

    def _forward(self, batch: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        ids, mask = padded(batch, self._tokenizer.pad_token_id or 0, self.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        out: npt.NDArray[np.float64] = logits.float().cpu().double().numpy()
        return out


class TokenClassifier(WindowReader):
    """A loaded token classifier.

    Attributes:
        labels: For each output whether an entity begins with it, and the entity's type.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        config: Any = model.config
        self.labels = tuple(_label(str(config.id2label[number])) for number in range(config.num_labels))

    @property
    def types(self) -> frozenset[str]:
        """The types of entities that the model knows."""
        return frozenset(type_ for _, type_ in self.labels if type_ not in _OUTSIDE)

    def entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Return the entities of distinct texts."""
        encoded = encode(self._tokenizer, texts)
        cuts, inputs = self.cut([each.ids for each in encoded])
        width = max(map(len, inputs))
        said = self._read(lambda batch: self._forward(batch, width), inputs, [len(ids) for ids in inputs])
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


class PairClassifier(LoadedModel):
    """A loaded classifier of pairs: natural language inference.

    Attributes:
        limit: Tokens that it reads at once, special ones included; ``None`` when it reads any number.
    """

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        config: Any = model.config
        self.limit = token_limit(tokenizer, model)
        self._special = int(tokenizer.num_special_tokens_to_add(pair=True))
        self._order = nli_order([str(config.id2label[number]) for number in range(config.num_labels)], ref)

    def infer(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return the probabilities of distinct pairs: entailment, contradiction, neutral, shape ``(len(pairs), 3)``."""
        inputs = list(encode_pairs(self._tokenizer, pairs, self.limit))
        logits = self._read(self._forward, inputs, [len(pair.ids) for pair in inputs])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        ordered = np.asarray((shares / shares.sum(axis=1, keepdims=True))[:, self._order])
        return np.insert(ordered, CONTRADICTION, 0.0, axis=1) if len(self._order) == 2 else ordered

    def fit(self, texts: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """Return for each text the places of pieces any two of which fit into the model together."""
        out = {text: [(0, len(text))] for text in texts}
        if self.limit is None:
            return out
        room = max(1, (self.limit - self._special) // 2)
        for text, encoded in zip(texts, encode(self._tokenizer, texts), strict=True):
            if len(encoded.ids) > room:
                cuts = windows(len(encoded.ids), max(1, room - _SPARE_TOKENS))
                out[text] = [(a, b) for a, b in places_of(cuts, encoded.places, text) if a < b]
        return out

    def _forward(self, batch: Sequence[EncodedPair]) -> npt.NDArray[np.float64]:
        with torch.inference_mode():
            logits = self.model(**padded_pairs(batch, self._tokenizer, self.device)).logits
        out: npt.NDArray[np.float64] = logits.float().cpu().double().numpy()
        return out


def load_classifier(ref: ModelRef, device: str, settings: Settings) -> Classifier:
    """Load a model for a device; see :func:`.runtime.resident`."""
    folder = locate(ref, settings)
    with loading(ref):
        model = model_from("AutoModelForSequenceClassification", folder, device, settings)
        return Classifier(ref, model, tokenizer_from(folder), device)


def load_token_classifier(ref: ModelRef, device: str, settings: Settings) -> TokenClassifier:
    """Load a model for a device; see :func:`.runtime.resident`."""
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


def load_pair_classifier(ref: ModelRef, device: str, settings: Settings) -> PairClassifier:
    """Load a model for a device; see :func:`.runtime.resident`."""
    folder = locate(ref, settings)
    with loading(ref):
        model = model_from("AutoModelForSequenceClassification", folder, device, settings)
        return PairClassifier(ref, model, tokenizer_from(folder), device)
