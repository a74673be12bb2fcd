"""A breaker: notices that a judge is down, so that thousands of calls do not each wait for their deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from leadline.evaluators.judge_client.failures import JudgeError, JudgeRefused, JudgeUnavailable

FAILURES: Final = 5
"""Attempts in a row that must fail before a judge can be taken to be down."""


@dataclass
class Breaker:
    """Open while a judge is taken to be down: no success for ``seconds`` and at least ``failures`` failures since.

    A judge that never answered is given a quarter of that time. While the breaker is open, calls are refused at once,
    but one every ``seconds`` is let through to see whether the judge is back. A judge that answers "wrong key" or "no
    such model" opens it at once.

    Attributes:
        seconds: Time without any success.
        throttled_seconds: The same, when all that the judge says is that it is asked too much.
        failures: Attempts in a row that must have failed.
        clock: Monotonic seconds.
        subject: Who is asked, as error texts begin.
    """

    seconds: float = 20.0
    throttled_seconds: float = 300.0
    failures: int = FAILURES
    clock: Callable[[], float] = time.monotonic
    subject: str = "The judge"

    _answered: bool = field(default=False, repr=False)
    _in_a_row: int = field(default=0, repr=False)
    _since: float = field(default=0.0, repr=False)
    _probe_at: float = field(default=0.0, repr=False)
    _probe: asyncio.Future[None] | None = field(default=None, repr=False)
    _why: JudgeError | None = field(default=None, repr=False)

    def forget(self) -> None:
        """Forget who tries the judge just now: that is in the process that this one was forked from."""
        self._probe = None

    def succeeded(self) -> None:
        """The judge answered."""
        self._answered = True
        self._in_a_row = 0
        self._why = None

    def failed(self, message: str, *, answered: bool = False) -> None:
        """An attempt failed in a way that another might not.

        Args:
            message: What happened.
            answered: Whether something came, though no answer.
        """
        down = "is up and gives no answers" if answered else "does not answer"
        why = self.given_up(down, message, answered=answered)
        self._count(why, self.seconds if self._answered else self.seconds / 4)

    def throttled(self, message: str) -> None:
        """The judge asked to slow down: a sign of life, unless it says nothing else for long."""
        self._count(self.given_up("answers no question", message, answered=True), self.throttled_seconds)

    def given_up(self, what: str, message: str, *, answered: bool = False) -> JudgeUnavailable:
        """Return what is said of a judge that is given up.

        Args:
            what: What it does.
            message: What happened at last.
            answered: Whether something came, though no answer.
        """
        hint = "Are its address and its limits the right ones?" if answered else "Is its server up?"
        return JudgeUnavailable(f"{self.subject} {what}: {message}.", hint=hint)

    def _count(self, why: JudgeUnavailable, patience: float) -> None:
        now = self.clock()
        if self._in_a_row == 0:
            self._since = now
        self._in_a_row += 1
        if self._in_a_row >= self.failures and now - self._since >= patience:
            self._open(why)
        elif self._why is not None:
            self._open(self._why)

    def refused(self, message: str) -> None:
        """The judge refused an attempt in a way in which it will refuse every other."""
        self._open(JudgeRefused(f"{self.subject} refuses all calls: {message}."))

    def asked_to_wait(self, message: str) -> None:
        """The judge asked for a pause longer than a call may take."""
        self._open(JudgeUnavailable(f"{self.subject} is out of quota: {message}."))

    def check(self) -> None:
        """Raise what is wrong while the judge is taken to be down and it is not yet time to try it again."""
        if self._why is not None and self.clock() < self._probe_at:
            raise type(self._why)(self._why.message, hint=self._why.hint, code=self._why.code)

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Hold an attempt, which must tell how it went, or raise as :meth:`check` does.

        While the judge is taken to be down, the first to come when it is time tries it; the others wait for what it
        finds, and then go on or give up.
        """
        while self._why is not None:
            if self._probe is not None:
                await asyncio.wait([self._probe])
                continue
            self.check()
            self._probe = probe = asyncio.get_running_loop().create_future()
            try:
                yield
            finally:
                self._probe = None
                probe.set_result(None)
            return
        yield

    def _open(self, why: JudgeError) -> None:
        self._why = why
        self._probe_at = self.clock() + self.seconds
