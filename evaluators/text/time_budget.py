"""Limits the time that one process of a run spends on users' regular expressions, over all the rows that it scores.

One row may take two seconds. Without a memory, a bad pattern would take them again on every row of a large dataset.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

STRIKES = 3
"""Number of time-outs after which a condition is not tried again."""


@dataclass
class RegexTimeBudget:
    """The time that one process may spend on the conditions of one run.

    A condition that never ran out of time keeps its full time until ``limit``, whatever others did. From then on every
    condition is hurried and one time-out is enough: 100,000 conditions that all hang take ``limit`` and 0.05 seconds
    each, an hour and a half.

    Attributes:
        full: Seconds that a condition may take on one text.
        hurried: Seconds that it may take when it is hurried.
        total: Seconds lost in time-outs after which a condition that ran out of time before is hurried.
        limit: Seconds lost in time-outs after which every condition is hurried.
        lost: Seconds lost in time-outs so far.
    """

    full: float = 2.0
    hurried: float = 0.05
    total: float = 20.0
    limit: float = 300.0
    lost: float = 0.0
    _strikes: Counter[int] = field(default_factory=Counter, repr=False)  # by hash: conditions may be long, and many

    @contextmanager
    def waiting(self, condition: str) -> Iterator[float]:
        """Yield the seconds that a condition may take now; a ``TimeoutError`` of the block is remembered.

        Raises:
            TimeoutError: The condition has run out of time too often.
        """
        strikes = self._strikes[hash(condition)]
        if strikes >= (STRIKES if self.lost < self.limit else 1):
            others = "another text" if strikes == 1 else f"{strikes} other texts"
            raise TimeoutError(f"the condition took too long on {others} and was not tried again")
        started = time.monotonic()
        try:
            yield self.full if self.lost < (self.total if strikes else self.limit) else self.hurried
        except TimeoutError:
            self._strikes[hash(condition)] += 1
            self.lost += time.monotonic() - started
            raise
