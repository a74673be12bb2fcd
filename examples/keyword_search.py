"""An application under test in a few lines: it answers with the passage that shares most words with the question.

``leadline collect examples/harbour.json --targets examples/targets.toml --model keyword-search`` asks it, from the
repository's root. The passages are those that the sample's assistants found.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any


@cache
def passages() -> dict[str, str]:
    """Return the passages of the port's handbook, each with its document."""
    sample = json.loads(Path(__file__).with_name("harbour.json").read_text(encoding="utf-8"))
    answers = [answer for case in sample["cases"] for answer in case.get("answers", [])] + sample.get("answers", [])
    chunks = [chunk for answer in answers for chunk in answer.get("retrieved_context") or []]
    return {chunk["content"]: chunk.get("doc_uri", "") for chunk in chunks if isinstance(chunk, dict)}


def answer(case: Any) -> dict[str, Any]:
    """Answer a case: the three nearest passages, and the best of them as the answer."""
    asked = words(case.question)
    found = sorted(passages().items(), key=lambda passage: -len(asked & words(passage[0])))[:3]
    return {
        "answer": found[0][0],
        "retrieved_context": [{"content": content, "doc_uri": uri} for content, uri in found],
        "cost_usd": 0.0,
    }


def words(text: str) -> set[str]:
    """Return the longer words of a text."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}
