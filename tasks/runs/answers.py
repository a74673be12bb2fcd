"""A run's answers to the questions that a person asks of it, as its record and every screen have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from leadline.tasks.policy.policy import IN_WORDS, Question

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive", "not looked at"]

SYMBOLS: Final[Mapping[str, str]] = {"pass": "✓", "fail": "✗", "inconclusive": "≈", "not looked at": "?"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's answer to one question.

    Attributes:
        asked: Whether it must be decided for the gate to pass.
        outcome: The answer.
        reason: Why, in a sentence or two.
        remedy: What would decide it: options of ``leadline evaluate``, or a command; ``""`` where it is decided.
    """

    question: Question
    asked: bool
    outcome: Outcome
    reason: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """The question as a person asks it."""
        return IN_WORDS[self.question]

    @property
    def shown(self) -> str:
        """The outcome as it stands on screens."""
        return self.outcome if self.outcome == "not looked at" else self.outcome.upper()

    @property
    def line(self) -> str:
        """Outcome, reason and remedy in one line; a question that could have kept the gate open says if it need not."""
        aside = " (not asked)" if self.outcome == "inconclusive" and not self.asked else ""
        return f"{self.shown}{aside}: {self.reason}{f' To decide it: {self.remedy}.' if self.remedy else ''}"


def answers_of(record: Mapping[str, Any]) -> tuple[Answer, ...]:
    """Return what a run's record answers to the questions; nothing for a run that was judged as H2O Sonar does.

    Args:
        record: The record; of one that an earlier version wrote, it may lack the questions.
    """
    lines = record.get("questions") or ()
    return tuple(Answer(**{**line, "question": Question(line["question"])}) for line in lines)


def says_all(answers: tuple[Answer, ...]) -> bool:
    """Return whether the answers say why the gate decided, so that its reason need not be repeated beside them."""
    return any(answer.asked for answer in answers)
