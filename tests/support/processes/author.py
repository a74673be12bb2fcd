"""A scripted judge that asks about what it is shown: a question per sentence, answered by that sentence."""

from __future__ import annotations

import json
import re
from typing import Final

from tests.support.judges.judge_endpoint import Question

_CONTEXT: Final = re.compile(r"<context-FENCE>\n(.*)\n</context-FENCE>", re.DOTALL)
_QUERY: Final = re.compile(r"<query-FENCE>\n(.*)\n</query-FENCE>", re.DOTALL)
_COUNT: Final = re.compile(r"set up to (\d+) question")
_ASKED: Final = "What is said of: "


def author(question: Question) -> str:
    """Reply to a question of ``leadline data generate``."""
    sentences = re.findall(r"[^\n]+?[.!?](?=\s|$)", shown(question))
    query = _QUERY.search(question.text)
    if query is None:
        count = _COUNT.search(question.text)
        assert count
        return json.dumps({"questions": [f"{_ASKED}{one.strip()[:-1]}?" for one in sentences][: int(count[1])]})
    asked = query[1].removeprefix(_ASKED).removesuffix("?")
    answers = [one.strip() for one in sentences if one.strip()[:-1] == asked]
    return json.dumps({"answerable": bool(answers), "answer": answers[0] if answers else ""})


def shown(question: Question) -> str:
    """Return the chunk that a question of ``leadline data generate`` shows."""
    context = _CONTEXT.search(question.text)
    assert context
    return context[1]


def asks_for_questions(question: Question) -> bool:
    """Return whether it is questions that are asked for."""
    return _QUERY.search(question.text) is None
