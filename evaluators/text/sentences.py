"""Sentences of a text, each with its place in it.

NLTK's punkt is used where its data is installed for the language; otherwise the rules of ``sentencex``.
Nothing is downloaded. Which splitter was used is part of a score's key (:attr:`Splitter.identity`).
"""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from evaluators.errors import UsageError

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktTokenizer

SplitterChoice: TypeAlias = Literal["auto", "punkt", "rules"]

PUNKT_LANGUAGES: Final = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "ml": "malayalam",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
}


class Sentence(NamedTuple):
    """A sentence without surrounding white space; ``text == whole[start:end]``."""

    text: str
    start: int
    end: int


class Splitter(ABC):
    """Splits text into sentences.

    Attributes:
        identity: Name, language and version, as it stands in score keys and reports.
    """

    identity: str

    @abstractmethod
    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the limits of each piece of the text, in order."""

    def split(self, text: str) -> tuple[Sentence, ...]:
        """Return the sentences that hold more than white space."""
        out = []
        for start, end in self._spans(text):
            piece = text[start:end]
            stripped = piece.strip()
            if stripped:
                begin = start + len(piece) - len(piece.lstrip())
                out.append(Sentence(stripped, begin, begin + len(stripped)))
        return tuple(out)


class PunktSplitter(Splitter):
    """NLTK's punkt model of a language."""

    def __init__(self, language: str, model: PunktTokenizer) -> None:
        self.identity = f"punkt-{language}@nltk-{importlib.metadata.version('nltk')}"
        self._model = model

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        yield from self._model.span_tokenize(text)


class RuleSplitter(Splitter):
    """The rules of ``sentencex`` for a language."""

    def __init__(self, language: str) -> None:
        self.identity = f"sentencex-{language}@{importlib.metadata.version('sentencex')}"
        self._language = language

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        import sentencex

        at = 0
        for piece in sentencex.segment(self._language, text):
            start = text.find(piece, at)
            if start < 0:  # the library normalised something: give up its limits, lose no text
                break
            at = start + len(piece)
            yield start, at
        if text[at:].strip():
            yield at, len(text)


@lru_cache(maxsize=16)
def splitter_for(language: str, choice: SplitterChoice = "auto") -> Splitter:
    """Return the splitter for an ISO 639-1 language code.

    Raises:
        UsageError: ``choice`` is ``punkt`` and its data for this language is not installed.
    """
    if choice != "rules":
        model = _punkt(language)
        if model is not None:
            return PunktSplitter(language, model)
        if choice == "punkt":
            raise UsageError(
                f"NLTK's punkt data for language {language!r} is not installed.",
                hint="Fetch it with: python -m nltk.downloader punkt_tab, or use --splitter rules.",
            )
    return RuleSplitter(language)


def _punkt(language: str) -> PunktTokenizer | None:
    name = PUNKT_LANGUAGES.get(language)
    if name is None:
        return None
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        return PunktTokenizer(name)
    except LookupError:
        return None
