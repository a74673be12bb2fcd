"""How long a worker process waits for users' regular expressions, over all the rows that it scores.

One row may take two seconds. Without a memory, a bad pattern would take them again on every row of a large dataset.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

STRIKES = 3
"""A condition that ran out of time this often is not tried again."""


@dataclass
class Patience:
    """The patience of one process.

    Attributes:
        full: Seconds that a condition may take on one text.
        hurried: Seconds that it may take once ``total`` is used up.
        total: Seconds that may be lost in time-outs before everything is hurried.
    """

    full: float = 2.0
    hurried: float = 0.05
    total: float = 20.0
    lost: float = 0.0
    _strikes: Counter[str] = field(default_factory=Counter, repr=False)

    @contextmanager
    def waiting(self, condition: str) -> Iterator[float]:
        """Yield the seconds that a condition may take now; a ``TimeoutError`` of the block is remembered.

        Raises:
            TimeoutError: The condition has run out of time too often.
        """
        if self._strikes[condition] >= STRIKES:
            raise TimeoutError(f"the condition took too long on {STRIKES} other texts and was not tried again")
        started = time.monotonic()
        try:
            yield self.full if self.lost < self.total else self.hurried
        except TimeoutError:
            self._strikes[condition] += 1
            self.lost += time.monotonic() - started
            raise
