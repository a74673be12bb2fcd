"""Sentences of a text, each with its place in it.

NLTK's punkt is used where its data is installed for the language; otherwise the rules of ``sentencex``.
Nothing is downloaded. Which splitter was used, with which data, is part of a score's key (:attr:`Splitter.identity`).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from leadline.evaluators.ground import ErrorCode, UsageError

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


LANGUAGES: Final = frozenset(
    """aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
    kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl
    nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
    ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu""".split()
)
"""ISO 639-1. ``sentencex`` has rules for 33 of them, falls back to a related language for many more, and else to
English, without saying so; it takes any string, which is why anything else is refused here."""

_WINDOW: Final = 10_000
"""Characters that punkt sees at a time; longer sentences are cut."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONG_SPACE: Final = re.compile(r"[^\S \t\r\n]")
_NEW_LINES: Final = frozenset("\x0b\x0c\x85\u2028\u2029")


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which libraries written in Rust refuse, by U+FFFD; places in the text stay the same."""
    return _SURROGATE.sub("\ufffd", text)


def with_plain_space(text: str) -> str:
    """Replace unusual white space by a space or a line feed; places in the text stay the same.

    ``sentencex`` measures white space as one byte and panics after an initial that is followed by a longer one.
    """
    return _LONG_SPACE.sub(lambda found: "\n" if found[0] in _NEW_LINES else " ", text)


class Sentence(NamedTuple):
    """A sentence without surrounding white space; ``text`` is the characters from ``start`` to ``end``."""

    text: str
    start: int
    end: int


class Splitter(ABC):
    """Splits text into sentences.

    Attributes:
        identity: Name, language and version, as shown in score keys and reports.
    """

    identity: str

    @abstractmethod
    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the limits of each piece of the text, in order."""

    def split(self, text: str) -> tuple[Sentence, ...]:
        """Return the sentences that are more than white space."""
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
        version = importlib.metadata.version("nltk")
        self.identity = f"punkt-{language}@nltk-{version}+{_fingerprint(model)}"
        self._model = model

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        at = 0
        while len(text) - at > _WINDOW:  # NLTK gives up on a text that takes it more than 5 seconds
            *spans, last = list(self._model.span_tokenize(text[at : at + _WINDOW])) or [(0, _WINDOW)]
            for start, end in spans or [last]:
                yield at + start, at + end
            at += last[0] if spans else last[1]
        yield from ((at + start, at + end) for start, end in self._model.span_tokenize(text[at:]))


class RuleSplitter(Splitter):
    """The rules of ``sentencex`` for a language."""

    def __init__(self, language: str) -> None:
        self.identity = f"sentencex-{language}@{importlib.metadata.version('sentencex')}"
        self._language = language

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        import sentencex

        plain = with_plain_space(without_surrogates(text))
        at = 0
        for piece in sentencex.segment(self._language, plain):
            if not plain.startswith(
                piece, at
            ):  # the library changed something: keep the rest as one piece, lose no text
                break
            yield at, at + len(piece)
            at += len(piece)
        yield at, len(text)


@lru_cache(maxsize=16)
def splitter_for(language: str, choice: SplitterChoice = "auto") -> Splitter:
    """Return the splitter for an ISO 639-1 language code.

    Args:
        language: The code.
        choice: The library to split with; ``auto`` prefers punkt where its data is installed.

    Raises:
        UsageError: There is no such language, or ``choice`` is ``punkt`` and its data for this language is not
            installed.
    """
    if language not in LANGUAGES:
        raise _unknown(language)
    if choice != "rules":
        model = _punkt(language)
        if model is not None:
            return PunktSplitter(language, model)
        if choice == "punkt":
            if language not in PUNKT_LANGUAGES:
                raise UsageError(
                    f"NLTK has no punkt data for language {language!r}.",
                    hint="Use --set models.splitter=rules.",
                    code=ErrorCode.PLAN_LANGUAGE,
                )
            raise UsageError(
                f"NLTK's punkt data for language {language!r} is not installed.",
                hint="Fetch it with: python -m nltk.downloader punkt_tab, or use --set models.splitter=rules.",
                code=ErrorCode.PLAN_LANGUAGE,
            )
    return RuleSplitter(language)


def _unknown(language: str) -> UsageError:
    code = language.lower().replace("_", "-").split("-")[0]
    if code not in LANGUAGES:
        near = difflib.get_close_matches(code, PUNKT_LANGUAGES.values(), n=1, cutoff=0.8)
        code = next((short for short, name in PUNKT_LANGUAGES.items() if name in near), "en")
    return UsageError(
        f"{language[:40]!r} is no language code.",
        hint=f"Give two letters of ISO 639-1, for example {code}.",
        code=ErrorCode.PLAN_LANGUAGE,
    )


def _punkt(language: str) -> PunktTokenizer | None:
    """Load a punkt model if its data is here; NLTK, which takes seconds to import, is imported only then."""
    name = PUNKT_LANGUAGES.get(language)
    if name is None or not any(_has_punkt(folder, name) for folder in nltk_folders()):
        return None
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        return PunktTokenizer(name)
    except LookupError:
        return None


def _has_punkt(folder: Path, name: str) -> bool:
    tokenizers = folder / "tokenizers"
    return (tokenizers / "punkt_tab" / name).is_dir() or (tokenizers / "punkt_tab.zip").is_file()


def nltk_folders() -> list[Path]:
    """Return the folders in which NLTK looks for data, without importing it (https://www.nltk.org/data.html)."""
    loaded = sys.modules.get("nltk.data")
    if loaded is not None:
        return [Path(str(folder)) for folder in loaded.path]
    folders = [Path(part).expanduser() for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    folders.append(Path("~/nltk_data").expanduser())
    prefix = Path(sys.prefix)
    folders += [prefix / "nltk_data", prefix / "share" / "nltk_data", prefix / "lib" / "nltk_data"]
    if os.name == "nt":
        folders.append(Path(os.environ.get("APPDATA", "C:\\")) / "nltk_data")
        return folders + [Path(f"{drive}:\\nltk_data") for drive in "CDE"]
    return folders + [Path(f"/usr/{place}/nltk_data") for place in ("share", "local/share", "lib", "local/lib")]


def _fingerprint(model: PunktTokenizer) -> str:
    """Return eight digits that identify a punkt model's data."""
    data = model._params
    parts = (sorted(data.collocations), sorted(data.sent_starters), sorted(data.abbrev_types))
    return hashlib.sha256(repr((parts, sorted(data.ortho_context.items()))).encode()).hexdigest()[:8]
