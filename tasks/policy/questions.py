"""The questions that are asked of a run, and their words.

Whoever only tells of a run needs them without the policy, which imports all that is known of evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Question(StrEnum):
    """A question about the answers of a run."""

    SAFE = "safe"
    RIGHT = "right"
    GROUNDED = "grounded"
    GOAL = "goal"
    FORM = "form"
    FAST = "fast"


IN_WORDS: Final[Mapping[Question, str]] = {
    Question.SAFE: "Are the answers safe?",
    Question.RIGHT: "Are the answers right?",
    Question.GROUNDED: "Do they rest on what was retrieved?",
    Question.GOAL: "Did it reach the goal by allowed steps?",
    Question.FORM: "Do they have the right form?",
    Question.FAST: "Are they fast and cheap enough?",
}

DECIDED_BY_ROWS: Final = (Question.RIGHT, Question.GROUNDED)
"""Questions that are decided by the share of good answers, each row by the best metric that was made for it."""

OF_AGENTS: Final = (Question.GOAL,)
"""Questions that are told of only in runs that look for an answer: most datasets have no tools and no goals."""
