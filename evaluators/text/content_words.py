"""The content of a text, as items that can be compared: words without their inflection, numbers by value, months.

Case, accents, articles and the order of words do not count. ``four``, ``4`` and ``vier`` are one number, ``2018-02-09``
and ``9 February 2018`` hold the same items, and ``J. K. L.`` is ``JKL``. Scripts without spaces are cut into pairs of
signs.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

MOST_ITEMS: Final = 20_000
"""Items of a text that are read; a longer text is cut."""

_TABLES: Final = tomllib.loads(Path(__file__).with_name("content_words.toml").read_text(encoding="utf-8"))
_NUMBERS: Final = {word: float(n) for n, words in enumerate(_TABLES["numbers"]) for word in words.split()} | {
    word: 20.0 + 10 * n for n, words in enumerate(_TABLES["tens"]) for word in words.split()
}
_ORDINALS: Final = {word: n + 1.0 for n, word in enumerate(_TABLES["ordinals"])}
_SCALES: Final = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "millions": 1e6, "billion": 1e9, "trillion": 1e12}
ONLY_ALONE: Final[dict[str, int]] = _TABLES["only_alone"]
"""Words of numbers that mean something else in a sentence, with their values."""
MONTHS: Final = {word: n + 1.0 for n, words in enumerate(_TABLES["months"]) for word in words.split()}
"""Months by their names in nine languages, in small letters without accents, from 1."""
_ALSO_WORDS: Final = frozenset({"may", "mai", "mars", "marco", "mei", "sept", "sep", "nov"})
"""Months that are words too unless they begin with a capital."""
_COUNTRIES: Final = {word: country for country, words in _TABLES["of_countries"].items() for word in words.split()}
EMPTY: Final = frozenset(_TABLES["empty"].split())
"""Words that carry no content."""
DENIALS: Final = frozenset(_TABLES["denials"].split())
YES: Final = frozenset(_TABLES["yes"].split())
NO: Final = frozenset(_TABLES["no"].split())

UNSPACED: Final = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Letters of scripts without spaces between words, as a regular expression has them between brackets."""
_TOKEN: Final = re.compile(rf"\d+(?:[,.]\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|[{UNSPACED}]+|[^\W\d_{UNSPACED}]+")
_DATE: Final = re.compile(r"\b(\d{4})-(\d\d?)-(\d\d?)\b")
_PLAIN: Final = str.maketrans(
    {"\u2019": "'", "\u00df": "ss", "\u0142": "l", "\u0141": "L", "\u00f8": "o", "\u00d8": "O", "\u0111": "d",
     "\u0110": "D", "\u0131": "i", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe", "\u00fe": "th", "\u00f0": "d"}
)  # fmt: skip
"""Letters without an accent that could be taken away."""
_INITIALS: Final = re.compile(r"\b(?:[A-Z]\.? ?){2,12}(?![a-z])")
_POINTS_IN_NUMBER: Final = re.compile(r"\d{1,3}(?:\.\d{3})+")


@dataclass(frozen=True, slots=True)
class ContentItem:
    """A word, a number or a month of a text.

    Attributes:
        kind: Which of them.
        value: The word in small letters and without accents, or the number.
        start: Where it begins in the folded text.
        capital: Whether it begins with a capital.
        spelt: Whether a number is written in words.
    """

    kind: Literal["word", "number", "month"]
    value: str | float
    start: int
    capital: bool = False
    spelt: bool = False


@dataclass(frozen=True)
class Content:
    """The items of a text in their order.

    Attributes:
        text: The text without accents, in which items have their places.
        items: The items, at most :data:`MOST_ITEMS`.
    """

    text: str
    items: tuple[ContentItem, ...]

    @cached_property
    def squeezed(self) -> str:
        """The letters and digits of the text alone, in small letters."""
        return "".join(char for char in self.text.lower() if char.isalnum())

    @cached_property
    def cased(self) -> bool:
        """True if the text uses capitals for some words and not for others, so that names can be told from words."""
        return len({item.capital for item in self.items if item.kind == "word"}) == 2

    @cached_property
    def _by_beginning(self) -> dict[str, dict[str, list[int]]]:
        found: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, item in enumerate(self.items):
            if item.kind == "word":
                word = _COUNTRIES.get(str(item.value), str(item.value))
                found[word[:3]][word].append(place)
        return {beginning: dict(words) for beginning, words in found.items()}

    @cached_property
    def _by_number(self) -> dict[tuple[str, float], list[int]]:
        found: defaultdict[tuple[str, float], list[int]] = defaultdict(list)
        for place, item in enumerate(self.items):
            if not isinstance(item.value, str):
                found[item.kind, item.value].append(place)
        return dict(found)

    def places(self, wanted: ContentItem) -> Sequence[int]:
        """Return where an item stands, words in any inflection, and a number with decimals also where it is rounded."""
        if isinstance(wanted.value, str):
            word = _COUNTRIES.get(wanted.value, wanted.value)
            near = self._by_beginning.get(word[:3], {})
            return [place for other, places in near.items() if same_word(word, other) for place in places]
        exact = self._by_number.get((wanted.kind, wanted.value), [])
        if wanted.value % 1 and wanted.value >= 10:
            return [*exact, *self._by_number.get((wanted.kind, float(round(wanted.value))), [])]
        return exact


def read_content(text: str) -> Content:
    """Return the items of a text."""
    folded = _folded(text)
    items: list[ContentItem] = []
    for found in _TOKEN.finditer(folded):
        if len(items) >= MOST_ITEMS:
            break
        for item in _items(found, folded, items):
            _append(items, item)
    return Content(folded, tuple(items))


def _folded(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in letters if not unicodedata.combining(char) or "\u3099" <= char <= "\u309a")
    plain = unicodedata.normalize("NFKC", plain).translate(_PLAIN)
    plain = _DATE.sub(_spelt_date, plain)
    plain = _INITIALS.sub(lambda found: f"{re.sub(r'[. ]', '', found[0])} ", plain)
    return plain.replace("n't", " not").replace("'s", "")


def _spelt_date(found: re.Match[str]) -> str:
    month = int(found[2])
    return f"{found[1]} {_TABLES['months'][month - 1].split()[0].title()} {found[3]}" if 1 <= month <= 12 else found[0]


def _items(found: re.Match[str], text: str, before: Sequence[ContentItem]) -> Iterator[ContentItem]:
    token, start = found[0], found.start()
    word = token.lower()
    if token[0].isdigit():
        points = _POINTS_IN_NUMBER.fullmatch(token) and not token.startswith("0")
        yield ContentItem("number", float(token.replace("." if points else ",", "")), start)
    elif re.match(f"[{UNSPACED}]", token):
        for at in range(max(1, len(token) - 1)):
            yield ContentItem("word", token[at : at + 2], start + at)
    elif word in ("st", "nd", "rd", "th") and start and text[start - 1].isdigit():
        return
    elif word in MONTHS and (token[0].isupper() or word not in _ALSO_WORDS):
        yield ContentItem("month", MONTHS[word], start)
    elif (value := _NUMBERS.get(word, _ORDINALS.get(word))) is not None:
        yield ContentItem("number", value, start, spelt=True)
    elif word in _SCALES and before and before[-1].kind == "number":
        yield ContentItem("number", _SCALES[word], start, spelt=True)
    else:
        yield ContentItem("word", word, start, token[0].isupper())


def _append(items: list[ContentItem], item: ContentItem) -> None:
    """Add an item; a number in words that goes on joins the one before it: twenty five, three hundred and five."""
    last = items[-1] if items else None
    if last and last.kind == item.kind == "number" and item.spelt:
        value = spelt_on(float(last.value), float(item.value), spelt=last.spelt)
        if value is not None:
            items[-1] = ContentItem("number", value, last.start, spelt=True)
            return
    items.append(item)


def spelt_on(before: float, word: float, *, spelt: bool) -> float | None:
    """Return the number that a word makes of the number before it, ``None`` if it begins another one.

    Args:
        before: The number before it.
        word: The value of the word: 5 of "five", 1000 of "thousand".
        spelt: Whether the number before it is spelt out too: "3 five" are two numbers, "3 thousand" is one.
    """
    if word in _SCALES.values():
        return before * word
    tens = 20 <= before < 100 and before % 10 == 0 and word < 10
    hundreds = before >= 100 and word < 100 and before % 100 == 0
    return before + word if spelt and (tens or hundreds) else None


def value_of_word(word: str, *, ordinals: bool = True) -> float | None:
    """Return the value of a number in words, also of "million"; ``None`` of any other word.

    Args:
        word: A word in small letters without accents.
        ordinals: Read "third" as 3.
    """
    return _NUMBERS.get(word, _SCALES.get(word) or (_ORDINALS.get(word) if ordinals else None))


def same_word(one: str, other: str) -> bool:
    """Return whether two words that begin alike are one in two inflections, or with a slip of the pen in a long one.

    Args:
        one: A word in small letters.
        other: Another one, which begins with the same three letters.
    """
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < 4:
        return len(shorter) > 2 and longer == f"{shorter}s"
    alike = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(shorter))
    if alike >= 4 and len(longer) - alike <= 3 and alike >= 0.75 * len(shorter) and alike >= 0.6 * len(longer):
        return True
    return len(shorter) >= 6 and _one_slip(shorter, longer)


def _one_slip(shorter: str, longer: str) -> bool:
    """Return whether one letter is missing, wrong, or changed places with the next."""
    if len(longer) - len(shorter) > 1:
        return False
    at = next((n for n, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if len(longer) > len(shorter):
        return shorter[at:] == longer[at + 1 :]
    swapped = shorter[at : at + 2] == longer[at : at + 2][::-1] and shorter[at + 2 :] == longer[at + 2 :]
    return swapped or shorter[at + 1 :] == longer[at + 1 :]


_NAMES: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY: Final = r"(?P<{0}>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?"
_DAY_OF_MONTH: Final = re.compile(
    rf"(?i)(?<![\w.,])(?:{_DAY.format('first')}[ -](?:(?:of|de) )?(?P<month>{_NAMES})\.?"
    rf"|(?P<month_>{_NAMES})\.?[ -]{_DAY.format('second')})"
    r"(?:,? (?:of |de )?(?P<year>\d{4})|-(?P<year_>\d{4}))?(?![\w-]|[.,]\d)"
)


def with_iso_dates(text: str) -> str:
    """Return a text with ``2018-02-09`` in the place of "9 February 2018" and "February 9th, 2018".

    Months are read in nine languages. A day without its year becomes ``--02-09``. Dates in digits alone are left as
    they are: they have no sure order.
    """
    if not any(character.isdigit() for character in text):
        return text
    plain = text if text.isascii() else "".join(unicodedata.normalize("NFD", letter)[0] for letter in text)
    parts, end = [], 0
    for found in _DAY_OF_MONTH.finditer(plain):
        name = found["month"] or found["month_"]
        day = int(found["first"] or found["second"])
        if not 1 <= day <= 31 or not (name[0].isupper() or found["year"] or found["year_"]):
            continue
        year = found["year"] or found["year_"] or "-"
        parts += [text[end : found.start()], f"{year}-{int(MONTHS[name.lower()]):02}-{day:02}"]
        end = found.end()
    return "".join([*parts, text[end:]])
