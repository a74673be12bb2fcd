"""The statements, claims and opinions of a text: what judge evaluators of several families take texts apart into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply

STATEMENTS: Final = prompt_beside(__file__, "statements.jinja")
"""The prompt that takes a text apart; equal texts are taken apart once, whichever evaluators need them."""

SOURCE: Final = "Striveworks Valor, metrics reference, text generation metrics (LLM-guided)"


class Statements(JudgeReply):
    """The statements of a text."""

    statements: tuple[str, ...]


class Claims(JudgeReply):
    """The claims of a text."""

    claims: tuple[str, ...]


class Opinions(JudgeReply):
    """The opinions of a text's author."""

    opinions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A way to take a text apart.

    Attributes:
        prompt: The prompt that lists the parts of ``text``.
        reply: The judge's reply, whose only field holds them.
    """

    prompt: Path
    reply: type[JudgeReply]


PARTS: Final[Mapping[str, Parts]] = MappingProxyType(
    {
        "statements": Parts(STATEMENTS, Statements),
        "claims": Parts(prompt_beside(__file__, "claims.jinja"), Claims),
        "opinions": Parts(prompt_beside(__file__, "opinions.jinja"), Opinions),
    }
)


async def statements_of(judge: Judge, text: str) -> tuple[str, ...]:
    """Return the statements of a text by the prompt ``statements``; a blank text has none, and nothing is asked.

    Args:
        judge: The judge; its evaluator has a prompt ``statements``.
        text: The text to take apart.
    """
    return await parts_of(judge, "statements", text)


async def parts_of(judge: Judge, name: str, text: str) -> tuple[str, ...]:
    """Return the parts of a text that are not blank; a blank text has none, and nothing is asked.

    Args:
        judge: The judge; its evaluator has a prompt of this name.
        name: One of :data:`PARTS`.
        text: The text to take apart.
    """
    if not text.strip():
        return ()
    reply = await judge.ask(name, PARTS[name].reply, text=text)
    return tuple(item for item in getattr(reply, name) if item.strip())
