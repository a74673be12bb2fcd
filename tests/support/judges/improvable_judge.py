"""A judge over real HTTP that instructions make better or worse, and a teacher that proposes them."""

from __future__ import annotations

import json
import re
from typing import Final

from tests.support.judges.judge_endpoint import JudgeEndpoint, Question
from tests.support.judges.labelled_answers import draw

ACCURACY: Final = {"Heed the tone.": 0.98, "Think twice.": 0.7, "Pass all.": 0.0, "": 0.7}
"""Shares of answers of which the judge says the truth, by the instructions that it has."""


class Improvable(JudgeEndpoint):
    """A judge that instructions make better or worse, and a teacher that proposes them.

    Args:
        proposed: What the teacher proposes.
    """

    def __init__(self, proposed: str) -> None:
        super().__init__(reply=self._reply)
        self.proposed = proposed

    @property
    def proposals(self) -> list[str]:
        """What the teacher was asked."""
        return [line.question.raw for line in self.log if line.question.body["model"] == "teacher"]

    def _reply(self, question: Question) -> str:
        if question.body["model"] == "teacher":
            return json.dumps({"instructions": self.proposed, "examples": [1, 2]})
        found = re.search(r"Answer (\d+) is (fine|vile)", question.text)
        assert found is not None
        given = next(words for words in ACCURACY if words in question.system)
        bad = found[2] == "vile"
        return str(bad == (draw(given, int(found[1])) < ACCURACY[given])).lower()
