"""How long a piece of a text is: in characters or in tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.judge.engine.failures import JudgeRefused
from leadline.evaluators.text.sentences import without_surrogates

Unit: TypeAlias = Literal["characters", "tokens"]

_WINDOW: Final = 4_096
"""Characters that are split into tokens at a time: the tokenizer takes quadratic time for long words."""


class Ruler(ABC):
    """Measures a text."""

    @abstractmethod
    def reach(self, start: int, size: int) -> int:
        """Return the offset that lies ``size`` units behind another; it may lie behind the end of the text."""

    @abstractmethod
    def back(self, end: int, size: int) -> int:
        """Return the offset that lies ``size`` units before another."""


class Characters(Ruler):
    """Measures in characters."""

    def reach(self, start: int, size: int) -> int:
        """See :class:`Ruler`."""
        return start + size

    def back(self, end: int, size: int) -> int:
        """See :class:`Ruler`."""
        return max(0, end - size)


class Tokens(Ruler):
    """Measures in tokens of ``cl100k_base``, whoever is asked, so that chunks do not depend on the judge.

    Source: the encoding of OpenAI's gpt-4, which LiteLLM carries with it; LlamaIndex's splitters count by it, too.
    """

    def __init__(self, text: str) -> None:
        encoding = _encoding()
        plain = without_surrogates(text)
        self._end = len(plain)
        self._starts = array("q")
        for at in range(0, len(plain), _WINDOW):
            window = plain[at : at + _WINDOW]
            offsets = encoding.decode_with_offsets(encoding.encode_ordinary(window))[1]
            self._starts.extend(at + offset for offset in offsets)

    def reach(self, start: int, size: int) -> int:
        """See :class:`Ruler`."""
        place = bisect_left(self._starts, start) + size
        return self._starts[place] if place < len(self._starts) else self._end + 1

    def back(self, end: int, size: int) -> int:
        """See :class:`Ruler`."""
        return self._starts[max(0, bisect_right(self._starts, end - 1) - size)] if self._starts else 0


def ruler_for(text: str, unit: Unit) -> Ruler:
    """Return what measures a text.

    Raises:
        UsageError: Tokens cannot be counted here.
    """
    return Tokens(text) if unit == "tokens" else Characters()


@cache
def _encoding() -> Any:
    from leadline.evaluators.judge.engine.transport import litellm

    try:
        litellm()  # so that its import fetches nothing
    except JudgeRefused as error:
        raise UsageError(
            f"Sizes in tokens need LiteLLM. {error}", hint="Or give sizes in characters.", code=ErrorCode.CONFIG_PACKAGE
        ) from None
    from litellm.litellm_core_utils.default_encoding import encoding

    return encoding
