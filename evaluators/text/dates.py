"""Calendar days with a month's name, written in one way."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from leadline.evaluators.text.content_words import MONTHS

_NAMES: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY: Final = r"(?P<{0}>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?"
_DATE: Final = re.compile(
    rf"(?i)(?<![\w.,])(?:{_DAY.format('first')}[ -](?:(?:of|de) )?(?P<month>{_NAMES})\.?"
    rf"|(?P<month_>{_NAMES})\.?[ -]{_DAY.format('second')})"
    r"(?:,? (?:of |de )?(?P<year>\d{4})|-(?P<year_>\d{4}))?(?![\w-]|[.,]\d)"
)


def with_iso_dates(text: str) -> str:
    """Return a text with ``2018-02-09`` in the place of "9 February 2018" and "February 9th, 2018".

    A day without its year becomes ``--02-09``. Dates in digits alone are left as they are: they have no sure order.

    Args:
        text: Any text; months are read in nine languages.
    """
    if not any(character.isdigit() for character in text):
        return text
    plain = text if text.isascii() else "".join(unicodedata.normalize("NFD", letter)[0] for letter in text)
    parts, end = [], 0
    for found in _DATE.finditer(plain):
        name = found["month"] or found["month_"]
        day = int(found["first"] or found["second"])
        if not 1 <= day <= 31 or not (name[0].isupper() or found["year"] or found["year_"]):
            continue
        year = found["year"] or found["year_"] or "-"
        parts += [text[end : found.start()], f"{year}-{int(MONTHS[name.lower()]):02}-{day:02}"]
        end = found.end()
    return "".join([*parts, text[end:]])
