"""Calls of local models: classes, entities, inference, support, likelihood and similarity of texts.

Equal texts are read once. The modules that run the models import torch, and are imported when a model is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import runtime
from leadline.evaluators.models.results import Classified, ComparedPair, Entity, Likelihood, Passage, Support, finite
from leadline.evaluators.models.runtime import busy, libraries, model_settings, resident, sentence_device
from leadline.evaluators.models.weights import content_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.models.classifiers import Classifier, PairClassifier, TokenClassifier
    from leadline.evaluators.models.consistency import SupportModel
    from leadline.evaluators.models.language_models import LanguageModel
    from leadline.evaluators.models.sentence_models import PairReader
    from leadline.evaluators.settings import Settings

_reading: Final = threading.Lock()
"""Held while a cross-encoder reads."""


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
        found = resident(ref, settings, _classifier).classify(list(dict.fromkeys(texts)))
    return [found[text] for text in texts]


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
        found = dict(zip(distinct, resident(ref, settings, _token_classifier).entities(distinct), strict=True))
    return [found.get(text, ()) for text in texts]


def types_of(ref: ModelRef, *, settings: Settings) -> frozenset[str]:
    """Return the types of entities that a model knows.

    Args:
        settings: The run's choices.
    """
    with busy:
        return resident(ref, settings, _token_classifier).types


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
        found = resident(ref, settings, _pair_classifier).infer(list(place))
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
        return resident(ref, settings, _pair_classifier).fit(list(dict.fromkeys(texts)))


def support(
    ref: ModelRef, tokenizer: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings
) -> list[Support]:
    """Return for each pair how well the first text supports the second; equal pairs are read once.

    Args:
        tokenizer: Where the tokenizer is when the weights come without one.
        pairs: Premise and hypothesis.
        settings: The run's choices.

    Raises:
        ModelUnavailable: The weights are not here or are not those of such a model.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    if not pairs:
        return []
    with busy:

        def load(ref: ModelRef, device: str, settings: Settings) -> SupportModel:
            from leadline.evaluators.models.consistency import load_support_model

            return load_support_model(ref, tokenizer, device, settings)

        found = resident(ref, settings, load).score(list(dict.fromkeys(pairs)))
    return [found[pair] for pair in pairs]


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
        found = resident(ref, settings, _language_model).score(list(dict.fromkeys(passages)))
    return [found[passage] for passage in passages]


def read(ref: ModelRef, pairs: Sequence[tuple[str, str]], *, settings: Settings) -> ComparedPair:
    """Return the similarity of each pair, and which pairs are too long; equal pairs are read once.

    What a pair has beyond the model's limit is cut off, from the longer text first.

    Args:
        pairs: Pairs of texts.
        settings: The run's choices: device, number format, whether weights may be fetched.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a similarity model.
        OutOfMemory: A pair does not fit into memory even alone.
    """
    if not pairs:
        return ComparedPair(np.zeros(0, dtype=np.float32), [])
    distinct = sorted(set(pairs))
    with _reading:
        found, overlong = pair_reader(ref, settings).read(distinct)
    place = {pair: row for row, pair in enumerate(distinct)}
    values = np.clip(finite(found, ref)[[place[pair] for pair in pairs]], 0.0, 1.0).astype(np.float32)
    return ComparedPair(values, [overlong.get(pair) for pair in pairs])


def pair_reader(ref: ModelRef, settings: Settings) -> PairReader:
    """Return a loaded cross-encoder; the last one stays.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as a similarity model.
    """
    return _pair_reader(ref, sentence_device(ref, settings), model_settings(settings), content_of(ref))


def unload() -> None:
    """Drop all loaded models but embedders."""
    runtime.unload()
    _pair_reader.cache_clear()


@lru_cache(maxsize=1)
def _pair_reader(ref: ModelRef, device: str, settings: Settings, content: str) -> PairReader:
    with libraries():
        from leadline.evaluators.models.sentence_models import load_pair_reader

        return load_pair_reader(ref, device, settings)


def _classifier(ref: ModelRef, device: str, settings: Settings) -> Classifier:
    from leadline.evaluators.models import classifiers

    return classifiers.load_classifier(ref, device, settings)


def _token_classifier(ref: ModelRef, device: str, settings: Settings) -> TokenClassifier:
    from leadline.evaluators.models import classifiers

    return classifiers.load_token_classifier(ref, device, settings)


def _pair_classifier(ref: ModelRef, device: str, settings: Settings) -> PairClassifier:
    from leadline.evaluators.models import classifiers

    return classifiers.load_pair_classifier(ref, device, settings)


def _language_model(ref: ModelRef, device: str, settings: Settings) -> LanguageModel:
    from leadline.evaluators.models.language_models import load_language_model

    return load_language_model(ref, device, settings)
