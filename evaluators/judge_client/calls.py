"""Calls to a judge, their replies, the errors of those without one, and the ledger that records both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from leadline.evaluators.data import Json, Reason
from leadline.evaluators.ground import ErrorCode, LeadlineError


class JudgeError(LeadlineError):
    """A judge gave no verdict; the rows that needed it are unscored."""

    code = ErrorCode.JUDGE_UNAVAILABLE
    reason: ClassVar[Reason] = Reason.JUDGE_UNAVAILABLE


class JudgeUnavailable(JudgeError):
    """The judge could not be reached, or kept failing until the deadline; later it may answer."""


class JudgeRefused(JudgeError):
    """The judge will not answer this call, however often it is asked: a wrong key, a question that is too long."""

    code = ErrorCode.JUDGE_REFUSED
    reason = Reason.JUDGE_REFUSED


class QuestionTooLong(JudgeRefused):
    """The question is longer than what the judge reads; nothing of it is left out, so this judge cannot measure it."""

    reason = Reason.UNSCORABLE


class JudgeTruncated(JudgeError):
    """The reply was cut off at the token limit."""

    code = ErrorCode.JUDGE_TRUNCATED
    reason = Reason.JUDGE_TRUNCATED


class JudgeUnparseable(JudgeError):
    """The reply does not hold the verdict that was asked for, and neither did the second one."""

    code = ErrorCode.JUDGE_UNPARSEABLE
    reason = Reason.JUDGE_UNPARSEABLE


class BudgetSpent(JudgeError):
    """The run's budget does not allow another call."""

    code = ErrorCode.JUDGE_BUDGET
    reason = Reason.BUDGET


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a judge.

    Attributes:
        judge: Identity of the judge.
        purpose: Who asks and what for: ``evaluator:prompt``. No part of the digest: equal questions of several
            evaluators are one call.
        messages: What is sent, with the fence drawn for this call.
        canonical: What is sent, apart from the fence: equal questions are equal here, others never.
        schema: JSON schema of the reply, or ``None`` for free text.
        trial: Which repetition.
        attempt: 0, or more when an unreadable reply is asked for again.
        cache_salt: Makes a question new although it was asked before; ``""`` where an earlier reply may be reused.
        digest: What identifies the question: 32 hex digits over the judge, the text, the schema, trial, attempt and
            cache_salt.
    """

    judge: Mapping[str, Json]
    purpose: str
    messages: tuple[Mapping[str, str], ...]
    canonical: str
    schema: Mapping[str, Any] | None = None
    trial: int = 0
    attempt: int = 0
    cache_salt: str = ""
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        value = [dict(self.judge), self.canonical, self.schema, self.trial, self.attempt]
        value += [self.cache_salt] if self.cache_salt else []
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest()[:32])


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's raw reply.

    Attributes:
        finish_reason: Why it stopped; ``"length"`` is a truncated reply.
        input_tokens: Tokens of the question, ``None`` when the provider does not say.
        output_tokens: Tokens of the reply.
        cost_usd: Price, ``None`` when unknown; never 0 for unknown.
        seconds: Time of the successful attempt.
        tries: Attempts until it came.
        from_ledger: Whether it was paid for earlier.
        earlier: Whether it was given in an earlier run, so that an unreadable one may be asked for afresh.
        served_model: The model that the provider says has answered, ``""`` where it says none.
        fingerprint: What the provider says of the system that answered; another one means that it changed something.
    """

    text: str
    finish_reason: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    tries: int = 1
    from_ledger: bool = False
    earlier: bool = False
    served_model: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """The expected cost of a call.

    Attributes:
        usd: The most that it is likely to cost in US dollars; ``None`` when its price is unknown.
    """

    usd: float | None


class BegunElsewhere(Exception):
    """Another process makes the same call just now; its reply will be on record in a moment."""


class Ledger(Protocol):
    """A store in which calls outlive the process. Every method returns once what it wrote would survive ``kill -9``.

    Attributes:
        server_limits: The folder beside it in which it is kept how many calls servers take at once; ``None`` for none.
    """

    server_limits: Path | None

    async def find(self, digest: str) -> Reply | None:
        """Return the reply to a call made earlier, by whichever process."""

    async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
        """Put on record that a call is about to be made, and set aside what it may cost.

        Args:
            charge: What it may cost; ``None`` for one that does not count.

        Returns:
            ``None``, or the reply that another process brought meanwhile; then there is no call to make.

        Raises:
            BudgetSpent: The run's budget, where this ledger keeps it, does not allow the call.
            BegunElsewhere: Another process is at it.
        """

    async def answered(self, call: Call, reply: Reply) -> None:
        """Put a raw reply on record.

        Args:
            reply: Its reply, as it came.
        """

    async def failed(self, call: Call, message: str, *, spent: bool = False) -> None:
        """Put on record that a call ended without a reply; it will be made again when it is needed again.

        Args:
            message: What went wrong, in one line.
            spent: Whether it may have been paid for all the same, so that what was set aside for it is not given back.
        """

    async def judged(self, digest: str, parser: str, verdict: Json, problem: str) -> None:
        """Put on record what a reply was read as, or why it could not be.

        Args:
            digest: Digest of the call.
            parser: Version of the parser that read the reply.
            verdict: What it was read as; ``None`` when it could not be read.
            problem: Why it could not be read; ``""`` when it could.
        """


class MemoryLedger:
    """A ledger that is gone with the process: for tests and for a plain Python shell."""

    server_limits: Path | None = None

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.intents: dict[str, Call] = {}
        self.failures: dict[str, str] = {}
        self.verdicts: dict[str, tuple[str, Json, str]] = {}

    async def find(self, digest: str) -> Reply | None:
        """See :class:`Ledger`."""
        return self.replies.get(digest)

    async def intend(self, call: Call, charge: Charge | None = None) -> Reply | None:
        """See :class:`Ledger`."""
        self.intents[call.digest] = call
        return None

    async def answered(self, call: Call, reply: Reply) -> None:
        """See :class:`Ledger`."""
        self.replies[call.digest] = reply

    async def failed(self, call: Call, message: str, *, spent: bool = False) -> None:
        """See :class:`Ledger`."""
        self.failures[call.digest] = message

    async def judged(self, digest: str, parser: str, verdict: Json, problem: str) -> None:
        """See :class:`Ledger`."""
        self.verdicts[digest] = (parser, verdict, problem)
