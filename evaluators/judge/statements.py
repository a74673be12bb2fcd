"""The statements of a text: what judge evaluators of several families take texts apart into."""

from __future__ import annotations

from typing import Final

from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply

STATEMENTS: Final = prompt_beside(__file__, "statements.jinja")
"""The prompt that takes a text apart; equal texts are taken apart once, whichever evaluators need them."""

SOURCE: Final = "Striveworks Valor, metrics reference, text generation metrics (LLM-guided)"


class Statements(JudgeReply):
    """The statements of a text."""

    statements: tuple[str, ...]


async def statements_of(judge: Judge, text: str) -> tuple[str, ...]:
    """Return the statements of a text by the prompt ``statements``; a blank text has none, and nothing is asked.

    Args:
        judge: The judge; its evaluator has a prompt ``statements``.
        text: The text to take apart.
    """
    if not text.strip():
        return ()
    return filled((await judge.ask("statements", Statements, text=text)).statements)


def filled(items: tuple[str, ...]) -> tuple[str, ...]:
    """Return the items that are not blank."""
    return tuple(item for item in items if item.strip())


def share(part: int, whole: int, *, of_nothing: float) -> float:
    """Return part / whole, or a value of the metric's own where the whole is 0.

    Args:
        part: How many of them count.
        whole: How many there are.
        of_nothing: The value when there are none.
    """
    return part / whole if whole else of_nothing
