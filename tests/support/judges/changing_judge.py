"""A judge over real HTTP that changes: from some night on it takes another view of some answers, and says so."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.support.judges.judge_endpoint import JudgeEndpoint, Question


class ChangingJudge(JudgeEndpoint):
    """Answers as :func:`tests.support.judges.judged_run.reply` does, until it changes.

    Attributes:
        changed: The share of the questions that it answers the other way round.
        noise: The share of the questions that it answers as it likes, each time anew.
        fingerprint: Of the system that answers.
        model: The model that answers.
    """

    def __init__(self, **script: Any) -> None:
        super().__init__(self._say, **script)
        self.changed, self.noise, self.fingerprint, self.model = 0.0, 0.0, "fp_a1", "judge-1"

    def envelope(self, question: Question, text: str, finish_reason: str) -> dict[str, Any]:
        """See :class:`JudgeEndpoint`."""
        told = {"system_fingerprint": self.fingerprint, "model": self.model}
        return super().envelope(question, text, finish_reason) | told

    def _say(self, question: Question) -> str:
        from tests.support.judges.judged_run import reply

        said = reply(question)
        if question.text.startswith("List"):
            return said
        digest = hashlib.sha256(question.text.split("\nYour last reply")[0].encode()).digest()
        if digest[1] < 256 * self.noise:
            return "yes" if question.number % 2 else "no"
        if digest[2] < 256 * self.changed:
            return "no" if said == "yes" else "yes"
        return said
