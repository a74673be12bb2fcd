"""The wire to a judge: one attempt of one call, and what its failure means.

The client is the one owner of retries, so no transport makes a second attempt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from leadline.evaluators.ground import LONGEST, visible
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.settings import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates

_REFUSES_ALL: Final = frozenset({401, 402, 403, 404})
"""A wrong key, an empty purse, a model that is not there."""

NO_TEXT: Final = "no_text"
"""The end of a reply whose content is a number, an object or nothing: no empty answer, and nothing to be read."""

CONVERSATION: Final = "conversation"
"""Role of a message that stands for a whole conversation: its content are ``messages`` and ``tools`` in OpenAI's form,
as JSON. The reply is the assistant's message, as JSON too, since it may call tools."""

MOST_TOKENS: Final = 100_000_000
"""Ten times the longest context of any model: no question or reply has more."""

_OVERLOADED: Final = frozenset({408, 503, 529})
_MAY_PASS: Final = frozenset({408, 409, 425, 429})
"""Client errors after which another attempt may do."""

UNUSABLE: Final = 3
"""Attempts of one call after which replies that nobody can use are final."""

LONGEST_PAUSE_ASKED_S: Final = 31 * 86_400.0
"""The longest pause that a server can mean: until the next month. A ``Retry-After`` above it says nothing."""


class AttemptError(Exception):
    """One attempt of a call failed.

    Args:
        message: What happened, free of secrets.

    Attributes:
        status: The HTTP status that said so, if one did.
    """

    status: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Throttled(AttemptError):
    """The provider answered 429; ``retry_after`` are the seconds that it asked for, if it did."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(AttemptError):
    """Another attempt may do: a server error, a lost connection.

    Args:
        message: What happened.
        overloaded: Too much at once may be the cause: silence, 503.
        retry_after: Seconds that the server asked for.
        answered: The server is up: something came that is no answer to a question.
    """

    def __init__(
        self, message: str, *, overloaded: bool = False, retry_after: float | None = None, answered: bool = False
    ) -> None:
        super().__init__(message)
        self.overloaded = overloaded
        self.retry_after = retry_after
        self.answered = answered


class Unusable(AttemptError):
    """Something came that nobody can use as a reply: too much of it, in a form that was not asked for, a redirect.

    A further attempt or two may bring a proper one; :data:`UNUSABLE` of them in a row are final for the call.
    """


class Refused(AttemptError):
    """Another attempt of this call will not do: a question that is too long, or against the provider's rules.

    Args:
        message: What happened.
        every: No other call will do either: a wrong key, an unknown model.
    """

    def __init__(self, message: str, *, every: bool = False) -> None:
        super().__init__(message)
        self.every = every


class Transport(Protocol):
    """Sends one attempt."""

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """Send a question and return the reply.

        Args:
            config: The judge: model, address, sampling, timeout.
            messages: The conversation as dictionaries of ``role`` and ``content``.
            schema: JSON schema of the reply; ``None`` for free text.
            max_tokens: Most tokens that the reply may have.

        Raises:
            AttemptError: There is none.
        """


def text_of(content: object) -> str:
    """Return a message's content as text: itself, or the texts of its parts.

    What has no text is ``""``, which no parser takes for a verdict: the judge is up, but cannot be understood.
    """
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return without_surrogates(content) if isinstance(content, str) else ""


def request_of(messages: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], bool]:
    """Return messages as a request's parameters, and whether they are a conversation whose reply may call tools."""
    if messages[0]["role"] != CONVERSATION:
        return {"messages": messages}, False
    return {name: value for name, value in json.loads(messages[0]["content"]).items() if value}, True


def with_calls(text: str, calls: object) -> str:
    """Return the assistant's message as JSON: its text, and the tools that it calls."""
    return json.dumps({"content": text, "tool_calls": calls if isinstance(calls, list) else []}, ensure_ascii=False)


def end_of(finish_reason: str, text: str, content: object) -> str:
    """Return why a reply ended: :data:`NO_TEXT` where it ended by itself, and what it holds instead of a text is none.

    Args:
        finish_reason: What the server says.
        text: The reply's text.
        content: The message's content, of which an empty text is one.
    """
    return NO_TEXT if finish_reason == "stop" and not text and not isinstance(content, str) else finish_reason


def tokens_of(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the tokens of question and reply as far as the server reported them."""
    sent, replied = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
    # No question is empty: 0 is the word of a server that does not count, and LiteLLM's for it.
    return (sent, replied) if sent else (None, replied or None)


def plausible(reply: Reply) -> Reply:
    """Return a reply in which figures that cannot be true are unknown, since a server may say anything.

    An unknown cost counts against a budget as what was set aside, so no reply can raise what a run may spend.
    """
    return replace(
        reply,
        finish_reason=visible(without_surrogates(reply.finish_reason)[:LONGEST]),
        input_tokens=_tokens(reply.input_tokens),
        output_tokens=_tokens(reply.output_tokens),
        cost_usd=_price(reply.cost_usd),
        served_model=name_of(reply.served_model),
        fingerprint=name_of(reply.fingerprint),
    )


def name_of(value: object) -> str:
    """Return a name that a server gives itself, in one line of bounded length; ``""`` where it is no text."""
    return visible(without_surrogates(value)[:LONGEST]) if isinstance(value, str) else ""


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _price(value: object) -> float | None:
    """Return an amount of money, ``None`` for one that is negative or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= sys.float_info.max else None


def failure_of(status: int | None, message: str, retry_after: float | None) -> AttemptError:
    """Say what an HTTP status other than 200 means for the call; ``None`` where there is no status at all.

    Args:
        message: What happened, free of secrets.
        retry_after: Seconds that the server asked for.
    """
    failure: AttemptError
    if status == 429:
        failure = Throttled(message, retry_after)
    elif status is not None and 300 <= status < 400:
        failure = Unusable(message)
    elif status is not None and 400 <= status < 500 and status not in _MAY_PASS:
        failure = Refused(message, every=status in _REFUSES_ALL)
    else:
        overloaded = status in _OVERLOADED
        failure = Transient(message, overloaded=overloaded, retry_after=retry_after if overloaded else None)
    failure.status = status
    return failure


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds of a ``Retry-After`` header; a date, or what no server can mean, is left to the back-off."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_PAUSE_ASKED_S else None
