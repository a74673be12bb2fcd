"""The answer that a marked test is about, as the fixture ``leadline_case`` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.api.failure_text import AnswerTexts


@dataclass(frozen=True, slots=True)
class AnswerUnderTest:
    """The answer that a marked test is about.

    Attributes:
        case: Key of the case.
        model: Key of the model.
        texts: Question, answer, expected answers, contexts and condition.
        scores: Value by ``evaluator.metric``, ``None`` where it is unscored or does not apply.
        run: Id of the run.
    """

    case: str
    model: str
    texts: AnswerTexts
    scores: Mapping[str, float | None]
    run: str

    @property
    def question(self) -> str | None:
        """The question."""
        return self.texts.question

    @property
    def answer(self) -> str | None:
        """The answer."""
        return self.texts.answer

    @property
    def expected(self) -> tuple[str, ...]:
        """The acceptable answers."""
        return self.texts.expected

    @property
    def context(self) -> tuple[str, ...]:
        """The retrieved texts in rank order."""
        return self.texts.context
