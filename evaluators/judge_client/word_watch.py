"""Watching whether a judge ever says one of the words that it is asked for.

A prompt that asks for "yes" or "no" while the classes are "true" and "false" is never answered by a class. So no more
than :data:`MOST_UNREAD` rows are asked about before a first word was read, and no further one if it never is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from leadline.evaluators.ground import count, listing
from leadline.evaluators.judge_client.failures import JudgeUnparseable
from leadline.evaluators.judge_client.replies import read_word

MOST_UNREAD: Final = 20
"""Rows without one of the words, none with, after which a judge is not asked for them any more."""
NOT_ASKED: Final = "Not asked:"
"""Begins the message of rows about which it was not asked."""

_MOST_TOLD: Final = 3
_LONGEST: Final = 30


class NoWord(JudgeUnparseable):
    """The reply is none of the words."""


@dataclass
class WordWatch:
    """The replies to one prompt by one judge. Its coroutines belong into one event loop.

    Attributes:
        words: The words that are asked for.
    """

    words: Sequence[str]
    _read: bool = field(default=False, repr=False)
    _asking: int = field(default=0, repr=False)
    _unread: int = field(default=0, repr=False)
    _said: Counter[str] = field(default_factory=Counter, repr=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, repr=False)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until one more row may be asked about, and ask inside.

        Raises:
            JudgeUnparseable: It makes no sense to ask about it.
        """
        if self._read:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._read or self._stopped or self._has_place)
            if self._stopped:
                raise self._refusal()
            self._asking += 1
        try:
            yield
        except NoWord:
            self._unread += 1
            raise
        finally:
            self._asking -= 1
            async with self._changed:
                self._changed.notify_all()

    def read(self, text: str) -> str:
        """Return the word of a reply.

        Args:
            text: The reply.

        Raises:
            NoWord: There is none.
        """
        try:
            word = read_word(text, self.words)
        except JudgeUnparseable as error:
            self._said[_short(text)] += 1
            raise NoWord(error.message) from None
        self._read = True
        return word

    @property
    def _stopped(self) -> bool:
        return not self._read and self._unread >= MOST_UNREAD

    @property
    def _has_place(self) -> bool:
        return self._asking + self._unread < MOST_UNREAD

    def _refusal(self) -> JudgeUnparseable:
        told = [f'"{text}" ({times})' for text, times in self._said.most_common(_MOST_TOLD)]
        others = len(self._said) - len(told)
        told += [count(others, "other text")] if others else []
        return JudgeUnparseable(
            f"{NOT_ASKED} for {self._unread} rows no reply was {' or '.join(self.words)}. The replies hold "
            f"{listing(told)}."
        )


def _short(text: str) -> str:
    plain = " ".join(text.strip(" \t\r\n*_`\"'.!").lower().split())
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
