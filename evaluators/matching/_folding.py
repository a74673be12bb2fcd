"""Texts without the differences that do not count: case, punctuation, articles, white space, Unicode's forms."""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Annotated, Final, Literal

from pydantic import Field

from leadline.evaluators.core.params import Params

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


class FoldingParams(Params):
    """Parameters that say which differences between two texts do not count; by default those of SQuAD."""

    ignore_case: Annotated[bool, Field(description="Upper and lower case are the same.")] = True
    ignore_punctuation: Annotated[bool, Field(description="Leave out the punctuation of ASCII.")] = True
    ignore_articles: Annotated[bool, Field(description="Leave out the words a, an and the.")] = True
    ignore_white_space: Annotated[
        bool, Field(description="Any white space is one space, and none at the beginning and the end.")
    ] = True
    unicode_form: Annotated[
        Literal["as_is", "NFC", "NFKC"],
        Field(description="Unicode's normal form to bring texts into first: NFC, NFKC, or as_is for none."),
    ] = "as_is"

    def folded(self, text: str) -> str:
        """Return a text without the differences that do not count, in the order of SQuAD's script."""
        if self.unicode_form != "as_is":
            text = unicodedata.normalize(self.unicode_form, text)
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = text.translate(_PUNCTUATION)
        if self.ignore_articles:
            text = _ARTICLES.sub(" ", text)
        return " ".join(text.split()) if self.ignore_white_space else text
