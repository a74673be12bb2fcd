"""Finds and decodes text that was encoded to slip past a guardrail: Base16, Base64, ROT13.

A letter's weight is the logarithm of how much more frequent it is in English than the letter that it is rotated to.
The sum over a text is the evidence that the text stands as it was written; that of its rotation is the same with the
other sign. Letters of French, German or Spanish text lean the same way.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from string import ascii_lowercase
from typing import Final

MAX_NESTING: Final = 3
"""Most encodings inside each other that are undone."""

MAX_DECODED: Final = 2_000_000
"""Characters of decoded text per answer after which decoding stops."""

_NAMES: Final = re.compile(
    r"(?P<base16>base[_ -]?16(?:[_ -]?spaces)?|hex(?:adecimal)?)|(?P<base64>base[_ -]?64)|(?P<rot13>rot[_ -]?13)",
    re.IGNORECASE,
)
_MARK: Final = re.compile(r"encoding[_ -]?(?:perturbator|type)", re.IGNORECASE)
_DECODED_ANSWER: Final = re.compile(r"answer_type:[^,\]]*decoded", re.IGNORECASE)
_BYTE: Final = r"(?:0x|\\x)?[0-9A-Fa-f]{2}(?![A-Za-z0-9])"
_BETWEEN: Final = r"(?:[,:;-]?[ \t\r\n]{1,2}|[,:;-]|(?=\\x))"
_SHORTEST: Final = 8
"""Characters of Base64's alphabet in a row, below which they are taken for a word."""

_ALPHABET: Final = "[A-Za-z0-9+/_-]"
_SHORT_LINES: Final = rf"(?>{_ALPHABET}{{{_SHORTEST},39}}\r?\n)+{_ALPHABET}{{1,39}}={{0,2}}(?!{_ALPHABET}| \w)"
_CANDIDATE: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?P<bytes>{_BYTE}(?:{_BETWEEN}{_BYTE}){{2,}}+)"
    r"|(?<![A-Za-z0-9+/_=-])"
    rf"(?:(?:{_ALPHABET}{{40,76}}\r?\n)++{_ALPHABET}{{1,76}}={{0,2}}|(?P<lines>{_SHORT_LINES})|{_ALPHABET}{{{_SHORTEST},}}+={{0,2}})"
)
"""Bytes as pairs of hexadecimal digits, or a run of Base64's alphabet, which includes that of Base16; lines of 40 to 76
characters belong together, and shorter ones may (``lines``)."""

_LINE: Final = re.compile(rf"{_ALPHABET}+={{0,2}}")
_ADDRESS: Final = re.compile(r"[.:/@]")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_A_TO_M: Final = (8.167, 1.492, 2.782, 4.253, 12.702, 2.228, 2.015, 6.094, 6.966, 0.153, 0.772, 4.025, 2.406)
_N_TO_Z: Final = (6.749, 7.507, 1.929, 0.095, 5.987, 6.327, 9.056, 2.758, 0.978, 2.360, 0.150, 1.974, 0.074)
"""Per cent of the letters of English text: R. E. Lewand, Cryptological Mathematics (2000)."""

_WEIGHTS: Final = {
    form: sign * math.log(early / late)
    for place, (early, late) in enumerate(zip(_A_TO_M, _N_TO_Z, strict=True))
    for letter, sign in ((ascii_lowercase[place], 1), (ascii_lowercase[place + 13], -1))
    for form in (letter, letter.upper())
}
_SURE: Final = 10.0
"""Evidence that counts as clear, as a natural logarithm: 1 to 22,000. English has it in some 13 letters."""

CODE: Final = 8
"""Least characters of codes, whose letters are no evidence, for which a text is rotated in any case."""

_WORD: Final = re.compile(r"[A-Za-z0-9]+")


class Encoding(StrEnum):
    """A way to write text so that it cannot be read at a glance."""

    BASE16 = "base16"
    BASE64 = "base64"
    ROT13 = "rot13"


@dataclass(frozen=True, slots=True)
class Perturbation:
    """The encoding of a case, from its categories.

    Attributes:
        encodings: The encodings that are named; empty when the case is encoded in one that is not, or not known.
        answer_encoded: Whether the answer was asked for in the encoding too.
    """

    encodings: frozenset[Encoding]
    answer_encoded: bool


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """An encoded part of a text: ``text[start:end]``.

    Attributes:
        start: First character.
        end: One past the last character.
        encoding: How it is encoded. In ROT13 it is all of the text, each character in its place.
        text: Its decoded text; ``None`` when it cannot be decoded.
        inner: The encoded parts of its decoded text.
        fills_text: Whether the text is nothing but this part, so that it makes no sense undecoded. Never so in ROT13:
            the letters of a short text or a name do not show which of the two was meant.
        first: Whether the text makes more sense decoded than it does undecoded.
    """

    start: int
    end: int
    encoding: Encoding
    text: str | None
    inner: tuple[EncodedPart, ...] = ()
    fills_text: bool = False
    first: bool = False

    @property
    def decoded(self) -> str | None:
        """The decoded text, followed by the decoded texts of encodings inside it, each on a line of its own."""
        if self.text is None:
            return None
        return "\n".join([self.text, *(part.decoded for part in self.inner if part.decoded is not None)])


def perturbation(categories: Iterable[str]) -> Perturbation | None:
    """Return what the categories say about an encoding of the case, ``None`` when they name none.

    Understood are the marks of H2O's encoding perturbator (``encoding_perturbator:[...]``,
    ``perturbed_by:...EncodingPerturbatorBase16...``, ``encoding_type:...``) and the name of an encoding by itself or
    beside "encoded" or "encoding".
    """
    marks = [
        category
        for category in categories
        if _MARK.search(category)
        or _NAMES.fullmatch(category.strip())
        or ("encod" in category.lower() and _NAMES.search(category))
    ]
    if not marks:
        return None
    named = frozenset(Encoding(str(name.lastgroup)) for mark in marks for name in _NAMES.finditer(mark))
    return Perturbation(named, not any(_DECODED_ANSWER.search(mark) for mark in marks))


def find_encoded(text: str, encodings: Iterable[Encoding] = ()) -> list[EncodedPart]:
    """Return the encoded parts of a text, in order.

    Base16 and Base64 are always looked for, whichever is named: models answer in another one than they were asked to.
    A part is decoded when it yields printable text (UTF-8, at most one broken character in ten). A part that looks
    deliberate and yields none is returned without a decoding; words that happen to use the alphabet are not returned.

    Args:
        text: Where to look.
        encodings: The encodings that are expected. ROT13 is undone only when it is, there and in what was decoded,
            unless the letters clearly show that nothing is rotated. Such a part is all of the text.
    """
    return _Search(rotations=Encoding.ROT13 in encodings).parts(text, MAX_NESTING)


class _Search:
    """The search of one answer, with the number of characters that may still be decoded."""

    def __init__(self, *, rotations: bool) -> None:
        self.rotations = rotations
        self.budget = MAX_DECODED

    def parts(self, text: str, nesting: int, *, turned: bool = False) -> list[EncodedPart]:
        """Return the encoded parts of a text.

        Args:
            nesting: Most encodings inside each other that are undone.
            turned: Whether the text is itself a rotation.
        """
        if nesting <= 0:
            return []
        begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        parts: list[EncodedPart] = []
        for piece in _pieces(text):
            if self.budget <= 0:
                break
            if piece.text is not None:
                self.budget -= len(piece.text)
                inner = tuple(self.parts(piece.text, nesting - 1))
                piece = replace(piece, inner=inner, fills_text=(piece.start, piece.end) == (begin, end))
            parts.append(piece)
        if self.rotations and not turned and not any(part.fills_text for part in parts):
            return self.with_rotation(text, parts, nesting)
        return parts

    def with_rotation(self, text: str, parts: list[EncodedPart], nesting: int) -> list[EncodedPart]:
        """Return the parts of a text, and its rotation if it may be in ROT13, less the parts that are read there."""
        if self.budget < len(text) or not _may_be_rotated(text):
            return parts
        self.budget -= len(text)
        clear = rotated(text)
        inner = tuple(self.parts(clear, nesting - 1, turned=True))
        read = {(part.start, part.end) for part in inner if part.text is not None}
        parts = [part for part in parts if part.text is not None or (part.start, part.end) not in read]
        return [*parts, EncodedPart(0, len(text), Encoding.ROT13, clear, inner, first=_lean(text) < 0)]


def _pieces(text: str) -> Iterator[EncodedPart]:
    """Yield the stretches of a text that can be decoded by themselves, or look as if they should."""
    for match in _CANDIDATE.finditer(text):
        spans = [match.span()]
        if match["lines"] is not None:
            spans = _joined(text, match.start(), match.end())
        for start, end in spans:
            encoding, decoded = _decode(text[start:end], spaced=match["bytes"] is not None)
            if decoded is not None or _deliberate(text, start, end, encoding):
                yield EncodedPart(start, end, encoding, decoded)


def _joined(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return which of the lines of ``text[start:end]`` belong together.

    Lines of one length do, with a shorter one at the end, if they can be decoded together. Otherwise each stands by
    itself, as in a list.
    """
    lines = [line.span() for line in _LINE.finditer(text, start, end)]
    lengths = [last - first for first, last in lines]
    for count in (len(lines), len(lines) - 1):
        if count > 1 and len(set(lengths[: count - 1])) == 1 and lengths[count - 1] <= lengths[0]:
            together = (start, lines[count - 1][1])
            if _decode(text[slice(*together)], spaced=False)[1] is not None:
                return [together, *(line for line in lines[count:] if line[1] - line[0] >= _SHORTEST)]
    return [line for line in lines if line[1] - line[0] >= _SHORTEST]


def _decode(candidate: str, *, spaced: bool) -> tuple[Encoding, str | None]:
    digits = re.sub(r"0x|\\x|[^0-9A-Fa-f]", "", candidate) if spaced else re.sub(r"^0x|\s", "", candidate)
    if spaced or re.fullmatch(r"[0-9A-Fa-f]+", digits):
        decoded = _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))
        if decoded is not None or spaced:
            return Encoding.BASE16, decoded
    decoded = _readable(_base64(candidate))
    hexadecimal = decoded is None and re.fullmatch(r"[0-9A-Fa-f]+", digits) is not None
    return Encoding.BASE16 if hexadecimal else Encoding.BASE64, decoded


def _base64(candidate: str) -> bytes:
    digits = re.sub(r"[\s=]", "", candidate).translate(_URL_SAFE)
    if len(digits) % 4 == 1:
        digits = digits[:-1]
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4))
    except (ValueError, binascii.Error):
        return b""


def _readable(raw: bytes) -> str | None:
    text = raw.decode("utf-8", "replace")
    broken = sum(char == "\ufffd" or not (char.isprintable() or char in "\n\r\t") for char in text)
    return text if len(text) >= 3 and text.strip() and broken * 10 <= len(text) else None


def _deliberate(text: str, start: int, end: int, encoding: Encoding) -> bool:
    found = re.sub(r"\s", "", text[start:end])
    if encoding is Encoding.BASE16:
        return len(found) >= 16 and re.search(r"[A-Fa-f]", found) is not None
    before, after = text[max(start - 1, 0) : start], text[end : end + 2]
    if _ADDRESS.search(before) or re.match(r"[.:@]\w", after):  # a piece of a path or an address
        return False
    kinds = (str.isdigit, str.islower, str.isupper)
    return len(found) >= 24 and all(any(map(kind, found)) for kind in kinds)


def rotated(text: str) -> str:
    """Return a text with each ASCII letter replaced by the one 13 places on; doing it again undoes it."""
    return codecs.encode(text, "rot13")


def _lean(text: str) -> float:
    """Return the evidence that a text is not rotated: above 0, or below 0 if it looks rotated."""
    return sum(_WEIGHTS.get(char, 0.0) for char in text)


def _may_be_rotated(text: str) -> bool:
    """Return whether a text has letters, and some of them may be rotated.

    That is so if it is short, has a stretch of words that is clearly rotated, or has codes in it.
    """
    total = stretch = 0.0
    codes = 0
    words = [word for word in _WORD.findall(text) if not word.isdigit()]
    for word in words:
        if not _is_word(word):
            codes += len(word)
            continue
        evidence = _lean(word)
        total += evidence
        stretch = max(0.0, stretch - evidence)  # the strongest evidence of a rotation that ends here
        if stretch >= _SURE:
            return True
    return bool(words) and (total < _SURE or codes >= CODE)


def _is_word(token: str) -> bool:
    """Return whether a token is no code: letters only, with capitals where words have them."""
    return token.isalpha() and (token.islower() or token.isupper() or token[1:].islower())
