"""The judge client: the one owner of retries, deadlines, concurrency and the ledger.

The models under test are asked by it too (``tasks/collect``): they differ in the wire and in how they are called.

A call goes through these gates, in order: equal calls in flight are made once; what is in the ledger is not asked
again; a judge that is down is not asked; the limiter gives it a place; the budget admits it; its intent is put on
record; then attempts follow until one is answered, a refusal is final, or the call's time is over. Pauses between
attempts take no place in the limiter.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from leadline.evaluators.data import Json
from leadline.evaluators.ground import LONG, MASK, count, masked, variable_in
from leadline.evaluators.judge_client.budget import Budget, Limits, price
from leadline.evaluators.judge_client.call_limits import Gate, Slot, new_gate, shared_gate
from leadline.evaluators.judge_client.calls import (
    BegunElsewhere,
    BudgetSpent,
    Call,
    Charge,
    JudgeRefused,
    JudgeUnavailable,
    JudgeUnparseable,
    Ledger,
    MemoryLedger,
    QuestionTooLong,
    Reply,
)
from leadline.evaluators.judge_client.event_loop import not_answered, sent, share
from leadline.evaluators.judge_client.providers import remote_transport
from leadline.evaluators.judge_client.reply_parsing import WordWatch
from leadline.evaluators.judge_client.transport import (
    UNUSABLE,
    AttemptError,
    Refused,
    Throttled,
    Transient,
    Transport,
    Unusable,
    plausible,
)
from leadline.evaluators.settings import JudgeConfig, JuryConfig

if TYPE_CHECKING:
    from leadline.evaluators.settings import Settings

log = logging.getLogger("leadline.judge")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
ELSEWHERE_S: Final = 0.5
"""Pause before the ledger is asked again for a call that another process makes."""

CHARACTERS_PER_TOKEN: Final = 3.5
"""A low estimate for English, so that the tokens of a question are rather over- than underestimated."""

_TOO_LONG: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum number of tokens|too many (?:input )?tokens"
    r"|(?:prompt|input) is too long|tokens of question and \d+ of reply exceed",
    re.IGNORECASE,
)
"""What providers, servers of one's own and a local judge say of a question that is longer than their window."""

_told: Final[set[str]] = set()
"""Variables whose secrets were found in replies, and said so."""


_clients: Final[WeakSet[JudgeClient]] = WeakSet()


class JudgeClient:
    """Asks one judge. Its coroutines belong into one event loop.

    Args:
        config: The judge.
        transport: The wire.
        ledger: Where calls are put on record.
        budget: What may be spent.
        gate: The model's limiter and breaker; its own by default.
        identity: What its verdicts depend on; the configuration's by default.
        call_cost: The most that a call costs in US dollars, where there is no price by token.
        sleep: How pauses are made.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        transport: Transport,
        ledger: Ledger,
        budget: Budget | None = None,
        gate: Gate | None = None,
        identity: Mapping[str, Json] | None = None,
        call_cost: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        gate = gate or new_gate(config, clock)
        self.config = config
        self.identity: Mapping[str, Json] = config.identity() if identity is None else identity
        self.ledger = ledger
        self.limiter = gate.limiter
        self._breaker = gate.breaker
        self._transport = transport
        self._budget = budget or Budget(Limits())
        self._price = price(config)
        self._call_cost = call_cost
        self._sleep = sleep
        self._clock = clock
        self._flying: dict[str, asyncio.Task[Reply]] = {}
        self._watches: dict[tuple[str, ...], WordWatch] = {}
        _clients.add(self)
        self._random = random.Random()  # noqa: S311 - jitter, not a secret

    async def ask(self, call: Call, *, max_tokens: int | None = None) -> Reply:
        """Return the judge's reply to a call, from the ledger if it was ever given.

        Raises:
            JudgeError: There is none: the judge is down, refuses, or the budget is spent.
        """
        digest = call.digest
        task = self._flying.get(digest)
        if task is None:
            task = share(self._obtain(call, max_tokens or self.config.max_tokens))
            self._flying[digest] = task
            task.add_done_callback(lambda done: self._landed(digest, done))
        return await asyncio.shield(task)

    def word_watch(self, prompt: str, words: tuple[str, ...]) -> WordWatch:
        """Return what watches whether the judge answers a prompt by one of some words.

        Args:
            prompt: What names the prompt.
        """
        name = prompt, *words
        if name not in self._watches:
            self._watches[name] = WordWatch(words)
        return self._watches[name]

    def forget(self) -> None:
        """Forget the calls of the process that this one was forked from: they end there."""
        self._flying.clear()
        self._watches.clear()
        self.limiter.forget()
        self._breaker.forget()

    def _landed(self, digest: str, task: asyncio.Task[Reply]) -> None:
        self._flying.pop(digest, None)
        if not task.cancelled():
            task.exception()  # seen, also when every caller was cancelled

    async def _obtain(self, call: Call, max_tokens: int) -> Reply:
        known = await self.ledger.find(call.digest)
        if known is not None:
            return replace(known, from_ledger=True)
        self._breaker.check()
        entry = _Entry(call, self.ledger, self._budget, self._estimate(call, max_tokens))
        try:
            reply = await self._unless_elsewhere(entry, max_tokens)
        except BaseException as error:
            await entry.failed(error)
            raise
        if not reply.from_ledger:
            await entry.answered(reply)
        return reply

    async def _unless_elsewhere(self, entry: _Entry, max_tokens: int) -> Reply:
        """Leave a call to another process that makes it just now, for as long as the ledger says so."""
        while True:
            try:
                return await self._persist(entry, max_tokens)
            except BegunElsewhere:
                await self._sleep(ELSEWHERE_S)

    async def _persist(self, entry: _Entry, max_tokens: int) -> Reply:
        """Make attempts until one is answered or the call's time is over; waiting for a place takes none of it."""
        call = entry.call
        tries, unusable, used = 0, 0, 0.0
        while True:
            tries += 1
            async with self.limiter.slot(first=tries > 1) as place, self._breaker.attempt():
                known = await entry.begin()
                if known is not None:
                    return known
                started = self._clock()
                sent()
                entry.in_flight = True
                try:
                    reply = await self._transport.send(
                        self.config, [dict(message) for message in call.messages], call.schema, max_tokens
                    )
                except AttemptError as error:
                    entry.in_flight = False
                    not_answered()
                    failure = error
                    unusable = unusable + 1 if isinstance(failure, Unusable) else 0
                    pause = self._learn(failure, tries, place)  # before the place is given to another call
                else:
                    self._breaker.succeeded()
                    place.succeeded()
                    return _without_keys(replace(plausible(reply), tries=tries), self.config.subject)
            self._breaker.check()  # a call that finds the judge down does not wait to find it down again
            if unusable >= UNUSABLE:
                raise JudgeUnparseable(f"{self.config.subject} was asked {tries} times: {failure.message}.")
            used += self._clock() - started + pause
            if used > self.config.deadline_s:
                raise self._breaker.given_up(
                    f"gave no reply in {count(tries, 'attempt')}", failure.message, answered=_answered(failure)
                )
            await self._sleep(pause)

    def _learn(self, failure: AttemptError, tries: int, place: Slot) -> float:
        """Draw the conclusions of a failed attempt, and return the seconds until the next one.

        They grow exponentially, with jitter, above what the server asked for; a server that says when to come back is
        taken at its word, and the first of them is short.

        Raises:
            JudgeError: There is no point in another one.
        """
        if isinstance(failure, Refused):
            if failure.every:
                self._breaker.refused(failure.message)
            kind = QuestionTooLong if _TOO_LONG.search(failure.message) else JudgeRefused
            raise kind(f"{self.config.subject} refused the call: {failure.message}.")
        asked = failure.retry_after if isinstance(failure, Throttled | Transient) else None
        if asked is not None and asked > self.config.deadline_s:
            self._breaker.asked_to_wait(failure.message)
            raise JudgeUnavailable(f"{self.config.subject} asks for a pause of {asked:g} s: {failure.message}.")
        if isinstance(failure, Throttled):
            place.refused(asked)
            self._breaker.throttled(failure.message)
        else:
            if isinstance(failure, Transient) and failure.overloaded:
                place.refused(asked)
            self._breaker.failed(failure.message, answered=_answered(failure))
        first = FIRST_PAUSE_S / 5 if asked else FIRST_PAUSE_S
        longest = min(LONGEST_PAUSE_S, first * 2.0 ** min(tries - 1, 16))
        return (asked or 0.0) + longest * self._random.uniform(0.5, 1.0)

    def _estimate(self, call: Call, max_tokens: int) -> float | None:
        """Return the most that a call is likely to cost, ``None`` when the price is unknown."""
        if self._price is None:
            return self._call_cost
        tokens = sum(len(message["content"]) for message in call.messages) / CHARACTERS_PER_TOKEN
        return float(tokens * self._price[0] + max_tokens * self._price[1])


def _answered(failure: AttemptError) -> bool:
    return isinstance(failure, Throttled | Unusable) or (isinstance(failure, Transient) and failure.answered)


class _Entry:
    """A call in the books: budget and ledger. It enters them when its turn has come, not while it waits.

    Attributes:
        in_flight: Whether it was sent, and it is not known yet what became of it.
    """

    def __init__(self, call: Call, ledger: Ledger, budget: Budget, estimate: float | None) -> None:
        self.call = call
        self._ledger = ledger
        self._budget = budget
        self._estimate = estimate
        self._reserved: float | None = None
        self.in_flight = False

    async def begin(self) -> Reply | None:
        """Enter the call, once; returns the reply if another process got it meanwhile.

        Raises:
            BudgetSpent: The call cannot be afforded.
            BegunElsewhere: Another process makes it.
        """
        if self._reserved is not None:
            return None
        self._reserved = self._budget.reserve(self._estimate)
        try:
            known = await self._ledger.intend(self.call, Charge(self._estimate))
        except (BudgetSpent, BegunElsewhere):
            self._withdraw()
            raise
        if known is not None:
            self._withdraw()
        return known

    def _withdraw(self) -> None:
        """Take the call out of the budget: it was not made."""
        self._budget.release(self._reserved or 0.0)
        self._reserved = None

    async def answered(self, reply: Reply) -> None:
        """Enter the reply."""
        self._budget.settle(self._reserved or 0.0, reply.cost_usd)
        await self._ledger.answered(self.call, reply)

    async def failed(self, error: BaseException) -> None:
        """Enter that there will be none; what was set aside for a call that is given up in flight counts as spent."""
        if self._reserved is None:
            return
        if isinstance(error, Exception):
            self._budget.release(self._reserved)
            await self._ledger.failed(self.call, str(error))
        elif self.in_flight:
            self._budget.settle(self._reserved, None)
            await self._ledger.failed(self.call, "Given up in flight: it may have been paid for.", spent=True)
        else:
            self._budget.release(self._reserved)
            await self._ledger.failed(self.call, "Given up while it waited.")


def _without_keys(reply: Reply, subject: str) -> Reply:
    """Return a reply without the keys of this process: a server that repeats what it was sent puts none on record.

    Args:
        subject: Who gave it.
    """
    served, fingerprint = (masked(name, shortest=LONG) for name in (reply.served_model, reply.fingerprint))
    if (served, fingerprint) != (reply.served_model, reply.fingerprint):
        reply = replace(reply, served_model=served, fingerprint=fingerprint)
    text = masked(reply.text, shortest=LONG)
    if text == reply.text:
        return reply
    variable = variable_in(reply.text) or "a variable"
    if variable not in _told:
        _told.add(variable)
        log.warning("%s repeats the secret in %s in its replies, where %s stands for it", subject, variable, MASK)
    return replace(reply, text=text)


def _forget() -> None:
    """Start afresh in a forked process, in which neither the judges' loop nor its calls exist."""
    for client in list(_clients):
        client.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def client_for(config: JudgeConfig, *, settings: Settings, ledger: Ledger | None, budget: Budget | None) -> JudgeClient:
    """Return a client for use in the judges' loop.

    Args:
        settings: The run's settings, for a local judge.
        ledger: Where calls are recorded; ``None`` for in memory only.
        budget: What may be spent; ``None`` for no limit.

    Raises:
        JudgeRefused: What is needed to ask this kind of judge is not installed.
    """
    if isinstance(config, JuryConfig):
        raise JudgeRefused(
            f"{config.key} is a jury, which judges rows and writes no text.", hint="Name one of its judges."
        )
    if config.kind == "local":
        from leadline.evaluators.judge_client.local_judge import LocalTransport

        transport: Transport = LocalTransport(settings)
    else:
        transport = remote_transport(config)
    ledger = ledger or MemoryLedger()
    return JudgeClient(
        config,
        transport=transport,
        ledger=ledger,
        budget=budget,
        gate=shared_gate(config, ledger.server_limits),
        identity=identity_of(config, settings),
    )


def identity_of(config: JudgeConfig, settings: Settings) -> dict[str, Json]:
    """Return what of a judge a verdict depends on; of a local one its very weights.

    Args:
        settings: The run's settings, for the number format of a local judge.
    """
    if isinstance(config, JuryConfig):
        return config.identity_with([identity_of(member, settings) for member in config.members])
    if config.kind != "local":
        return config.identity()
    from leadline.evaluators.judge_client.local_judge import local_identity

    return local_identity(config, settings)
