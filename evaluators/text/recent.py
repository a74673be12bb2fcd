"""A memory of what was made of the texts that were used last, bounded by their length rather than their number."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final, Generic, TypeVar

OVERHEAD: Final = 100
"""Characters that a text counts beside its own, so that the number of empty texts is bounded too."""

T = TypeVar("T")


class Recent(Generic[T]):
    """What was made of the texts that were used last; safe to use from several threads.

    Args:
        most: Characters of all texts together, each counted with ``OVERHEAD`` more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._made)

    def get(self, text: str) -> T | None:
        """Return what was made of a text, ``None`` if that is not known any more."""
        with self._lock:
            if text in self._made:
                self._made.move_to_end(text)
            return self._made.get(text)

    def put(self, text: str, made: T) -> None:
        """Remember what was made of a text, and forget those that were not used for longest."""
        with self._lock:
            if text not in self._made:
                self.size += len(text) + OVERHEAD
            self._made[text] = made
            while self.size > self.most:
                oldest, _ = self._made.popitem(last=False)
                self.size -= len(oldest) + OVERHEAD
