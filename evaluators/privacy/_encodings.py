"""Finding and decoding text that was encoded to slip past a guardrail: Base16, Base64, ROT13."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_NESTING: Final = 3
"""How many encodings inside each other are undone."""

MAX_DECODED: Final = 2_000_000
"""Characters of decoded text per answer after which decoding stops."""


class Encoding(StrEnum):
    """A way to write text so that it cannot be read at a glance."""

    BASE16 = "base16"
    BASE64 = "base64"
    ROT13 = "rot13"


@dataclass(frozen=True, slots=True)
class Perturbation:
    """What the categories of a case say about its encoding.

    Attributes:
        encodings: The encodings that are named; empty when the case is encoded in one that is not, or not known.
        answer_encoded: Whether the answer was asked for in the encoding too.
    """

    encodings: frozenset[Encoding]
    answer_encoded: bool


@dataclass(frozen=True, slots=True)
class Part:
    """An encoded part of a text: ``text[start:end]``.

    Attributes:
        start: First character.
        end: One past the last character.
        encoding: How it is encoded.
        decoded: What it says, followed by what encodings inside of that say, each on a line of its own; ``None`` when
            it cannot be decoded.
        whole: Whether the text is nothing but this part, so that it makes no sense undecoded.
    """

    start: int
    end: int
    encoding: Encoding
    decoded: str | None
    whole: bool = False


_NAMES: Final = re.compile(
    r"(?P<base16>base[_ -]?16(?:[_ -]?spaces)?|hex(?:adecimal)?)|(?P<base64>base[_ -]?64)|(?P<rot13>rot[_ -]?13)",
    re.IGNORECASE,
)
_MARK: Final = re.compile(r"encoding[_ -]?(?:perturbator|type)", re.IGNORECASE)
_DECODED_ANSWER: Final = re.compile(r"answer_type:[^,\]]*decoded", re.IGNORECASE)


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


_BYTE: Final = r"(?:0x|\\x)?[0-9A-Fa-f]{2}(?![A-Za-z0-9])"
_BETWEEN: Final = r"(?:[,:;-]?[ \t\r\n]{1,2}|[,:;-]|(?=\\x))"
_ALPHABET: Final = "[A-Za-z0-9+/_-]"
_CANDIDATE: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?P<bytes>{_BYTE}(?:{_BETWEEN}{_BYTE}){{2,}}+)"
    r"|(?<![A-Za-z0-9+/_=-])"
    rf"(?:(?:{_ALPHABET}{{40,76}}\r?\n)++{_ALPHABET}{{1,76}}={{0,2}}|{_ALPHABET}{{8,}}+={{0,2}})"
)
"""Bytes as pairs of hexadecimal digits, or a run of Base64's alphabet, which holds that of Base16; lines of 40 to 76
characters belong together."""

_ADDRESS: Final = re.compile(r"[.:/@]")


def find_encoded(text: str, encodings: Iterable[Encoding] = ()) -> list[Part]:
    """Return the encoded parts of a text, in order.

    Base16 and Base64 are always looked for, whichever is named: models answer in another one than they were asked to.
    A part is decoded when it yields printable text (UTF-8, at most one broken character in ten). A part that looks
    deliberate and yields none is returned without a decoding; words that happen to use the alphabet are not returned.

    Args:
        text: Where to look.
        encodings: The encodings that are expected. ROT13 is undone only when it is; it takes in the whole text.
    """
    budget = [MAX_DECODED]
    parts = _find(text, MAX_NESTING, budget)
    if Encoding.ROT13 in encodings:
        parts += _rot13(text, budget)
    return parts


def _find(text: str, nesting: int, budget: list[int]) -> list[Part]:
    parts = []
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    for match in _CANDIDATE.finditer(text):
        if budget[0] <= 0:
            break
        encoding, decoded = _decode(match[0], spaced=match["bytes"] is not None)
        if decoded is not None:
            budget[0] -= len(decoded)
            decoded = _undo(decoded, nesting - 1, budget)
        elif not _deliberate(text, match, encoding):
            continue
        whole = decoded is not None and match.span() == (begin, end)
        parts.append(Part(match.start(), match.end(), encoding, decoded, whole))
    return parts


def _undo(text: str, nesting: int, budget: list[int]) -> str:
    if nesting <= 0:
        return text
    inner = [part.decoded for part in _find(text, nesting, budget) if part.decoded is not None]
    return "\n".join([text, *inner])


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


_URL_SAFE: Final = str.maketrans("-_", "+/")


def _readable(raw: bytes) -> str | None:
    text = raw.decode("utf-8", "replace")
    broken = sum(char == "\ufffd" or not (char.isprintable() or char in "\n\r\t") for char in text)
    return text if len(text) >= 3 and text.strip() and broken * 10 <= len(text) else None


def _deliberate(text: str, match: re.Match[str], encoding: Encoding) -> bool:
    found = re.sub(r"\s", "", match[0])
    if encoding is Encoding.BASE16:
        return len(found) >= 16 and re.search(r"[A-Fa-f]", found) is not None
    before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 2]
    if _ADDRESS.search(before) or re.match(r"[.:@]\w", after):  # a piece of a path or an address
        return False
    kinds = (str.isdigit, str.islower, str.isupper)
    return len(found) >= 24 and all(any(map(kind, found)) for kind in kinds)


_COMMON: Final = frozenset(
    "a an and are as be can for i in is it my not of on or that the this to was with you your".split()
)
_WORD: Final = re.compile(r"[a-z]+")


def _rot13(text: str, budget: list[int]) -> list[Part]:
    turned = codecs.encode(text, "rot13")
    before, after = _common_words(text), _common_words(turned)
    if after < before or not _WORD.search(text.lower()) or budget[0] < len(text):
        return []
    return [Part(0, len(text), Encoding.ROT13, _undo(turned, MAX_NESTING - 1, budget), whole=after > before)]


def _common_words(text: str) -> int:
    return sum(word in _COMMON for word in _WORD.findall(text.lower()))
