"""Texts without the differences that do not count: case, punctuation, articles, white space, Unicode's forms."""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Annotated, Final, Literal

from pydantic import Field

from leadline.evaluators.core import Params
from leadline.evaluators.text.dates import with_iso_dates

_ASCII: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ARTICLES_OF_WORDS: Final = re.compile(r"(?:^\s*(?i:a|an|the)|\b(?:a|an|the))(?=\s+\w)")
"""Articles with a word behind them: the A of "Vitamin A" and "Plan A" is none."""
_MARKED: Final = re.compile(r"(\*\*|__|`|(?<![\w*])[*_](?![*_]))(?=\S)(.{0,200}?\S)\1(?!\w)")
_GROUPS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_INITIALS: Final = re.compile(r"\b(?:[^\W\d_]\.){1,12}[^\W\d_]\b\.?")
_MARKS: Final = re.escape(",;:!?…\"'()[]{}«»‹›“”„‟‘’‚¿¡。、，！？：；（）「」『』【】")  # noqa: RUF001
_EDGES: Final = re.compile(rf"(?!!=)(?:(?<!\w)[{_MARKS}]|[.{_MARKS}](?!\w))")
_IN_WORDS: Final = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
_DASHES: Final = re.compile(r"\s[-\u2010-\u2015]\s|(?<=[^\W\d_])[-\u2010-\u2015](?=[^\W\d_])")
_SIGN: Final = re.compile(r"[\u2010-\u2015\u2212](?=[\d.])")


class FoldingParams(Params):
    """Parameters that say which differences between two texts do not count."""

    ignore_case: Annotated[bool, Field(description="Upper and lower case are the same.")] = True
    ignore_punctuation: Annotated[
        bool,
        Field(description="Leave out punctuation around words; signs that say something stay: -5, 3.5, C++, C#, 10^3."),
    ] = True
    ignore_articles: Annotated[bool, Field(description="Leave out the words a, an and the before other words.")] = True
    ignore_white_space: Annotated[
        bool, Field(description="Any white space is one space, and none at the beginning and the end.")
    ] = True
    same_dates: Annotated[
        bool, Field(description="A day with a month's name is the same in any order: February 9, 2018, 9 Feb 2018.")
    ] = True
    squad: Annotated[
        bool,
        Field(
            description="Fold as SQuAD's script does: all ASCII punctuation is left out, signs and decimal points too, "
            "and all articles."
        ),
    ] = False
    unicode_form: Annotated[
        Literal["as_is", "NFC", "NFKC"],
        Field(description="Unicode's normal form to bring texts into first: NFC, NFKC, or as_is for none."),
    ] = "NFC"

    def folded(self, text: str) -> str:
        """Return a text without the differences that do not count."""
        if self.unicode_form != "as_is":
            text = unicodedata.normalize(self.unicode_form, text)
        folded = self._folded_as_squad(text) if self.squad else self._folded(text)
        # What would leave nothing says something: the choice "A", the answer "?".
        return folded if self.squad or folded.strip() or not text.strip() else text.strip().lower()

    def _folded(self, text: str) -> str:
        if self.same_dates:
            text = with_iso_dates(text)
        if self.ignore_punctuation:
            text = _without_punctuation(text)
        if self.ignore_articles:
            text = _ARTICLES_OF_WORDS.sub(" ", text)
        if self.ignore_case:
            text = text.lower()
        return " ".join(text.split()) if self.ignore_white_space else text

    def _folded_as_squad(self, text: str) -> str:
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = text.translate(_ASCII)
        if self.ignore_articles:
            text = _ARTICLES.sub(" ", text)
        return " ".join(text.split()) if self.ignore_white_space else text


def _without_punctuation(text: str) -> str:
    """Return a text without the punctuation that says nothing: around words, in thousands, initials and "don't"."""
    text = _GROUPS.sub("", _MARKED.sub(r"\2", text))
    text = _INITIALS.sub(lambda found: found[0].replace(".", ""), text)
    text = _DASHES.sub(" ", _SIGN.sub("-", _IN_WORDS.sub("", text)))
    return _EDGES.sub("", text)
