"""Synonyms and antonyms from WordNet, read from its own files.

Any copy of WordNet's database will do (format: ``wndb(5WN)``, https://wordnet.princeton.edu/documentation/wndb5wn): a
folder named by ``LEADLINE_WORDNET``, the package ``wordnet-base`` of Debian and Ubuntu, or NLTK's corpus ``wordnet``.
Words are looked up as nouns, adjectives and adverbs, in their commonest sense; verbs, function words and inflected
forms are left alone, since another word would not fit in their place.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Final, Literal, TypeAlias

from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.tasks.perturb.text_edits import Amount

VARIABLE: Final = "LEADLINE_WORDNET"
Relation: TypeAlias = Literal["synonym", "antonym"]

_PARTS: Final = ("adj", "adv", "noun")
_WORD: Final = re.compile(r"[^\W\d_]{3,40}")
_MARKER: Final = re.compile(r"\((?:a|p|ip)\)$")
_FUNCTION_WORDS: Final = frozenset(
    "all and any are but can did does each else few for had has have her hers him his how its least less let like may "
    "more most much must nor not now off one only other our out over own same she should since some such than that the "
    "their them then there these they this those thus too under until upon was were what when where which while who "
    "whom whose why will with would yet you your about above after again against before below between down during "
    "further into just once through very".split()
)


def _replaced(text: str, random: Random, amount: Amount, *, relation: Relation) -> str:
    """Replace words by a related one; raises :class:`UsageError` without WordNet."""
    words = wordnet()
    found = [(match, others) for match in _WORD.finditer(text) if (others := words.related(match[0].lower(), relation))]
    for match, others in sorted(
        random.sample(found, amount(len(found))), key=lambda each: each[0].start(), reverse=True
    ):
        text = text[: match.start()] + _cased(random.choice(others), match[0]) + text[match.end() :]
    return text


synonym: Final = partial(_replaced, relation="synonym")
"""Replaces words by a synonym, as the functions of :mod:`.text_edits` change them."""
antonym: Final = partial(_replaced, relation="antonym")
"""Replaces words by their opposite."""


def _cased(word: str, like: str) -> str:
    if like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


class WordNet:
    """A copy of WordNet's database, read when it is first asked.

    Args:
        folder: Where its files are: a folder, or a place in a zip file.
    """

    def __init__(self, folder: Path | zipfile.Path) -> None:
        self._folder = folder
        self._index: dict[str, dict[str, int]] = {}
        self._data: dict[str, bytes] = {}

    def related(self, word: str, relation: Relation) -> tuple[str, ...]:
        """Return the synonyms or antonyms of a word in lower case, in the order of WordNet; empty without any.

        Args:
            relation: ``synonym`` or ``antonym``.
        """
        if word in _FUNCTION_WORDS:
            return ()
        for part in _PARTS:
            offset = self._offsets(part).get(word)
            if offset is not None:
                others = (
                    self._words(self._line(part, offset))
                    if relation == "synonym"
                    else self._antonyms(part, offset, word)
                )
                found = tuple(dict.fromkeys(other for other in others if other.lower() != word))
                if found:
                    return found
        return ()

    def _offsets(self, part: str) -> dict[str, int]:
        """Return for each lemma of a part of speech the place of its commonest sense."""
        if part not in self._index:
            index = {}
            for line in (self._folder / f"index.{part}").read_bytes().splitlines():
                fields = line.split()
                if line.startswith(b" ") or len(fields) < 7:
                    continue
                pointers = int(fields[3])
                index[fields[0].decode("utf-8", "replace")] = int(fields[6 + pointers])
            self._index[part] = index
        return self._index[part]

    def _line(self, part: str, offset: int) -> list[str]:
        if part not in self._data:
            self._data[part] = (self._folder / f"data.{part}").read_bytes()
        data = self._data[part]
        end = data.find(b" | ", offset)
        return data[offset : end if end >= 0 else None].decode("utf-8", "replace").split()

    def _words(self, fields: list[str]) -> list[str]:
        count = int(fields[3], 16)
        return [_MARKER.sub("", word).replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]

    def _antonyms(self, part: str, offset: int, word: str) -> Iterator[str]:
        """Follow the pointers ``!``, which lead from one word of a sense to one word of another."""
        fields = self._line(part, offset)
        words = self._words(fields)
        start = 5 + 2 * len(words)
        for place in range(start, start + 4 * int(fields[start - 1]), 4):
            symbol, target, _, ends = fields[place : place + 4]
            source = int(ends[:2], 16)
            if symbol == "!" and (source == 0 or words[source - 1].lower() == word):
                others = self._words(self._line(part, int(target)))
                wanted = int(ends[2:], 16)
                yield from others if wanted == 0 else others[wanted - 1 : wanted]


@cache
def wordnet() -> WordNet:
    """Return this machine's WordNet.

    Raises:
        UsageError: There is none.
    """
    for folder in _places():
        if all((folder / f"{kind}.{part}").is_file() for kind in ("index", "data") for part in _PARTS):
            return WordNet(folder)
    raise UsageError(
        "Synonyms and antonyms need WordNet, which is not on this machine.",
        hint=f"Install it with: apt install wordnet-base, or: python -m nltk.downloader wordnet; or set {VARIABLE}.",
        code=ErrorCode.PERTURB_THESAURUS,
    )


def _places() -> Iterator[Path | zipfile.Path]:
    named = os.environ.get(VARIABLE)
    if named:
        yield from_home(named)
        return
    yield Path("/usr/share/wordnet")
    import nltk.data

    for root in map(Path, nltk.data.path):
        yield root / "corpora" / "wordnet"
        archive = root / "corpora" / "wordnet.zip"
        if archive.is_file():
            yield zipfile.Path(archive, "wordnet/")
