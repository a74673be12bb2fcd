"""The gate to a judge's model: a limiter of the calls in flight, and a breaker that notices when it is down.

The limit is learned, not configured. Slow start: it grows by one for each success, which doubles it every round trip.
Then it grows by one for each round of successes, as in TCP congestion control. What the limiter does about refusals (a
429, an overloaded server, silence) depends on how many of the calls sent of late were refused:

- Few: nothing. Providers refuse single calls for reasons of their own, and only that call pauses.
- More than are known to have other reasons: an experiment. The limit falls by somewhat more than what was refused. If
  refusals stop, they were about load, and the limit stays there and grows slowly. If they go on, they were not: the
  limit is restored, and so many refusals count as usual.
- Half of them, or as many in a row as half the limit: the limit falls by a third, and ``Retry-After`` pauses everybody.

What was learned is kept for the next process, in a small file for each model of a server. Where the limit was found,
it grows slowly from the start; a limit that has doubled since then is none any more, and the slow start goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final

from leadline.evaluators.judge_client.calls import JudgeError, JudgeRefused, JudgeUnavailable
from leadline.evaluators.settings import JudgeConfig

OLD_S: Final = 24 * 3600.0
"""Age from which a file says nothing: the quota may have changed, or the machine behind the address."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """Calls in flight that a server answered.

    Attributes:
        calls: How many.
        found: Whether it refused when there were more; else it may take more.
    """

    calls: int
    found: bool


class LimitFile:
    """The file of one model. Processes replace it whole, the last one wins.

    Args:
        folder: Where the files of all models are; made if need be.
        name: The server and the model, as they are told from others.
    """

    def __init__(self, folder: Path, name: tuple[object, ...]) -> None:
        self._path = folder / f"{hashlib.sha256(repr(name).encode()).hexdigest()[:16]}.json"

    def read(self) -> KnownLimit | None:
        """Return what is known; ``None`` where there is no file, or one that is old or damaged."""
        try:
            if time.time() - self._path.stat().st_mtime > OLD_S:
                return None
            held = json.loads(self._path.read_bytes())
            calls, found = held["calls"], held["found"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return KnownLimit(calls, found) if type(calls) is int and calls > 0 and type(found) is bool else None

    def write(self, known: KnownLimit) -> None:
        """Keep what is known; a folder that cannot be written costs the next process a second, and this one nothing."""
        partial = self._path.with_suffix(f".{token_hex(4)}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"calls": known.calls, "found": known.found}), encoding="utf-8")
            os.replace(partial, self._path)
        except OSError as error:
            _log.debug("%s cannot be written: %s", self._path, error)
            with suppress(OSError):
                partial.unlink(missing_ok=True)


DECREASE: Final = 0.67
"""What is left of the limit at least when it falls."""

SEVERAL: Final = 5
"""Refusals that conclusions are drawn from; of a lower limit, all calls that it allows."""

RARE: Final = 0.02
"""Share of refused calls that is not worth an experiment."""

MARGIN: Final = 1.3
"""How many places an experiment takes away for each that stands empty for a refused call."""

GO_ON: Final = 3
"""Refusals under the lower limit of an experiment that show that they are not about load."""

EXPECTED: Final = 6
"""Refusals that would be expected under the lower limit, were they not about load, before it is concluded that they
are."""

MOST_CAUTION: Final = 4
"""Rounds of successes for one more place, where the same limit was found again and again."""

REST_S: Final = 1.0
"""How long a place stays empty after a refused call: a provider that refuses at once would else be asked by every
waiting call in turn. Where refusals are known not to be about load, it does not."""

WINDOW: Final = 50
"""Calls over which shares are taken, at least; of a higher limit, two rounds."""

OUTGROWN: Final = 2.0
"""How many times the limit that was found another one is that proves that it is the limit no longer."""

SATURATED: Final = 0.8
"""Successes count only while this share of the limit is used; an idle limit proves nothing."""


@dataclass(slots=True)
class _Counts:
    """Calls sent under one limit, and what became of them."""

    sent: int = 0
    refused: int = 0
    answered: int = 0


@dataclass(frozen=True, slots=True)
class _Experiment:
    """A lower limit that is tried, to see whether refusals stop.

    Attributes:
        limit: The limit before.
        share: The share of refused calls under it.
    """

    limit: float
    share: float


class Slot:
    """A place in flight, held as a context; whoever holds it says how its call ended."""

    __slots__ = ("_first", "_limiter", "_round")

    def __init__(self, limiter: AdaptiveLimiter, first: bool) -> None:
        self._limiter = limiter
        self._first = first
        self._round = 0

    async def __aenter__(self) -> Slot:
        await self._limiter._acquire(self._first)
        self._round = self._limiter._send()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter._release()

    def succeeded(self) -> None:
        """Learn from a call that the provider answered."""
        self._limiter._learn_success(self._round)

    def refused(self, retry_after: float | None) -> None:
        """Learn from a 429, an overloaded server or silence; ``retry_after`` are the seconds that it asked for."""
        self._limiter._learn_refusal(self._round, retry_after)


class AdaptiveLimiter:
    """Admits calls to one model; belongs to one event loop.

    Args:
        start: Calls in flight at first.
        most: Calls in flight at most.
        clock: Monotonic seconds.
    """

    def __init__(self, start: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = float(min(start, most))
        self._most = most
        self._clock = clock
        self._slow_start = True
        self._paused_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._resting = 0
        self._round = 0
        self._now, self._before = _Counts(), _Counts()
        self._experiment: _Experiment | None = None
        self._tested = False
        self._usual = 0.0
        self._kept, self._caution = 0.0, 1
        self._in_a_row = 0
        self._file: LimitFile | None = None
        self._written: KnownLimit | None = None
        self.in_flight = 0
        self.refusals = 0

    def remember_in(self, file: LimitFile) -> None:
        """Start at the limit that an earlier process found, unless calls were sent already, and keep what is learned.

        Args:
            file: Where limits are kept; the first one stays.
        """
        if self._file is not None:
            return
        self._file = file
        known = file.read()
        if known is None or self._round or self._now.sent:
            return
        self._limit = float(min(known.calls, self._most))
        if known.found:
            self._slow_start, self._kept, self._caution = False, self._limit, MOST_CAUTION

    def _write(self) -> None:
        """Keep the limit for later processes.

        What an outage leaves says nothing: few calls were answered under it. The lower limit of an experiment is a good
        start, however that would have ended.
        """
        answered = self._now.answered + self._before.answered
        if self._file is None or not (self._tested or answered >= self.limit):
            return
        found = not self._slow_start or self._experiment is not None
        sent, refused = self._now.sent + self._before.sent, self._now.refused + self._before.refused
        too_high = found and self._experiment is None and refused > 2 * self._usual * sent
        known = KnownLimit(max(1, int(self._kept)) if too_high else self.limit, found)
        if known != self._written:
            self._written = known
            self._file.write(known)

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(self._limit))

    def slot(self, *, first: bool = False) -> Slot:
        """Return a place to be held while a call is in flight; waiting and pausing callers hold none.

        Args:
            first: Go before all that wait, as a call does that has waited for its turn before.
        """
        return Slot(self, first)

    def forget(self) -> None:
        """Forget who waits and who is in flight: they belong to the process that this one was forked from."""
        self._waiting.clear()
        self._timer, self._resting, self.in_flight = None, 0, 0

    def _send(self) -> int:
        """Count a call that is sent, and return the round that it belongs to: the limit under which it is sent."""
        if self._experiment is None and self._now.sent >= max(WINDOW, 2 * self.limit):
            share = self._now.refused / self._now.sent
            self._usual += 0.3 * (min(share, self._usual) - self._usual)  # what was usual may have ended
            self._before, self._now = self._now, _Counts()
        self._now.sent += 1
        return self._round

    def _learn_success(self, sent_in: int) -> None:
        self._in_a_row = min(self._in_a_row, 0)
        if sent_in == self._round:
            self._now.answered += 1
        if self._experiment is not None:
            self._conclude(self._experiment)
        elif self.in_flight >= SATURATED * self.limit:
            if not self._slow_start and self._limit > OUTGROWN * self._kept:
                self._slow_start = True
            self._limit = min(
                self._most, self._limit + (1.0 if self._slow_start else 1.0 / (self._limit * self._caution))
            )
            self._admit()

    def _learn_refusal(self, sent_in: int, retry_after: float | None) -> None:
        self.refusals += 1
        self._in_a_row += 1
        if self._in_a_row >= max(SEVERAL, self.limit / 2):
            self._rest()
            self._give_way(retry_after)
            return
        if sent_in != self._round:
            self._rest()  # it was sent under another limit, and says nothing about this one
            return
        self._now.refused += 1
        sent, refused = self._now.sent + self._before.sent, self._now.refused + self._before.refused
        share, several = refused / sent, refused >= min(SEVERAL, self.limit)
        if share > self._tolerated or not self._usual:
            self._rest()
        if several and share >= 0.5:
            self._give_way(retry_after)
        elif self._experiment is not None:
            self._conclude(self._experiment)
        elif several and share > self._tolerated:
            lower = max(self._limit * DECREASE, self.limit - round(MARGIN * max(1, self._resting)))
            self._experiment, self._tested = _Experiment(self._limit, share), True
            self._change(lower)

    @property
    def _tolerated(self) -> float:
        """The share of refused calls that nothing follows from."""
        return RARE + 2 * self._usual

    def _conclude(self, experiment: _Experiment) -> None:
        """End an experiment as soon as its outcome is clear."""
        ended = self._now.answered + self._now.refused
        if self._now.refused >= GO_ON and self._now.refused > 0.4 * experiment.share * ended:
            self._experiment = None
            self._usual = max(self._now.refused / ended if ended > WINDOW else 0.0, experiment.share)
            self._change(experiment.limit)
        elif experiment.share * ended >= EXPECTED:
            self._keep(self._limit)

    def _give_way(self, retry_after: float | None) -> None:
        """Take most calls to be refused; those in flight are likely to be, too, and say nothing new."""
        if retry_after:
            self._paused_until = max(self._paused_until, self._clock() + retry_after)
        self._in_a_row, self._tested = -self.in_flight, False
        self._keep(self._limit * DECREASE)

    def _keep(self, limit: float) -> None:
        """Take refusals to be about load: from here on the limit grows slowly."""
        again = not self._slow_start and limit > self._kept * DECREASE
        self._caution = min(MOST_CAUTION, 2 * self._caution) if again else 1
        self._experiment, self._slow_start, self._usual, self._kept = None, False, 0.0, limit
        self._change(limit)

    def _change(self, limit: float) -> None:
        """Begin a round under a limit; calls in flight say nothing about it."""
        self._limit = max(1.0, limit)
        self._round += 1
        self._now, self._before = _Counts(), _Counts()
        self._admit()

    def _rest(self) -> None:
        self._resting += 1
        asyncio.get_running_loop().call_later(REST_S, self._rested)

    async def _acquire(self, first: bool) -> None:
        if not self._waiting and self._open():
            self.in_flight += 1
            return
        place = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        self.in_flight -= 1
        self._admit()
        if not self.in_flight and not self._waiting:
            self._write()

    def _open(self) -> bool:
        return self.in_flight + self._resting < self.limit and self._clock() >= self._paused_until

    def _admit(self) -> None:
        while self._waiting and self._open():
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
        if not self._waiting:
            return
        pause = self._paused_until - self._clock()
        if pause > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause, self._resume)

    def _rested(self) -> None:
        self._resting -= 1
        self._admit()

    def _resume(self) -> None:
        self._timer = None
        self._admit()


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


@dataclass(frozen=True, slots=True)
class Gate:
    """The parts that calls to one model share, whichever judge, evaluator or run they are for."""

    limiter: AdaptiveLimiter
    breaker: Breaker


def new_gate(config: JudgeConfig, clock: Callable[[], float] = time.monotonic) -> Gate:
    """Return a limiter and a breaker that know nothing yet.

    Args:
        config: The judge, for its limits: calls in flight, and seconds until it counts as down.
        clock: A monotonic clock, in seconds.
    """
    return Gate(
        AdaptiveLimiter(config.start_in_flight, config.max_in_flight, clock),
        Breaker(config.down_after_s, max(config.down_after_s, config.deadline_s), clock=clock, subject=config.subject),
    )


_gates: dict[tuple[object, ...], Gate] = {}

if hasattr(os, "register_at_fork"):  # in a forked process nobody holds a place
    os.register_at_fork(after_in_child=_gates.clear)


def shared_gate(config: JudgeConfig, limits: Path | None) -> Gate:
    """Return the process's gate to a judge's model; judges that differ in sampling only share it.

    Args:
        limits: The folder in which limits are kept for later processes; ``None`` for not at all.
    """
    model = config.subject, config.kind, config.model, config.revision, config.api_base, config.api_key_env
    name = *model, config.max_in_flight, config.start_in_flight, config.down_after_s, config.deadline_s
    gate = _gates.setdefault(name, new_gate(config))
    if limits is not None:
        gate.limiter.remember_in(LimitFile(limits, model))
    return gate
