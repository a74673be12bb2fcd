"""The questions that a person asks of a run; each metric of a policy helps to answer one of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias

Proof: TypeAlias = Literal["none", "likeness", "mean", "exact", "estimate"]
"""What a metric can show of its question.

``none``: that answers are bad, never that they are good. ``likeness``: no more than that surely too many are off; of
right answers too some are. ``mean``: its mean decides. ``exact``: each
row that passes is good, and each that fails is bad. ``estimate``: rows too, with errors that the verdict allows for.
"""


class Question(StrEnum):
    """A question about the answers of a run."""

    SAFE = "safe"
    RIGHT = "right"
    GROUNDED = "grounded"
    FORM = "form"
    FAST = "fast"


IN_WORDS: Final[Mapping[Question, str]] = {
    Question.SAFE: "Are the answers safe?",
    Question.RIGHT: "Are the answers right?",
    Question.GROUNDED: "Do they rest on what was retrieved?",
    Question.FORM: "Do they have the right form?",
    Question.FAST: "Are they fast and cheap enough?",
}

DECIDED_BY_ROWS: Final = (Question.RIGHT, Question.GROUNDED)
"""Questions that are decided by the share of good answers, each row by the best metric that was made for it."""
