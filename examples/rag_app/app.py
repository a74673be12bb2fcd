# app.py
"""The help desk of a library: it finds the passages nearest to a question, and answers with the best sentence."""

import math
import re
from typing import Any

HANDBOOK = {
    "loans.md": "Books are lent for four weeks. Films are lent for one week. A loan can be renewed twice, unless "
    "somebody waits for the item.",
    "fines.md": "A late book costs 20 cents a day. A late film costs 1 euro a day. Children under 12 pay no fines.",
    "cards.md": "A library card costs 10 euros a year. Students get a card for free. A lost card costs 5 euros.",
    "hours.md": "The library opens at 9 on weekdays. On Saturdays it opens at 10. It is closed on Sundays.",
    "rooms.md": "A study room is free for two hours a day. Groups book the large room at the front desk.",
    "printing.md": "A printed page costs 5 cents. A page in colour costs 25 cents. Scanning is free.",
}
PASSAGES = 2


def words(text: str) -> set[str]:
    """Return the words of a text, without their endings."""
    return {word.rstrip("s") for word in re.findall(r"\w+", text.lower())}


def likeness(question: str, text: str) -> float:
    """Return how many words a text shares with a question; those that few passages have count more."""
    shared = words(question) & words(text)
    return sum(math.log(len(HANDBOOK) / how_often(word)) for word in shared)


def how_often(word: str) -> int:
    """Return the number of passages with a word."""
    return sum(word in words(text) for text in HANDBOOK.values()) or 1


def answer(case: Any) -> dict[str, Any]:
    """Answer a case: the best sentence of the nearest passages, and these passages."""
    found = sorted(HANDBOOK, key=lambda name: -likeness(case.question, HANDBOOK[name]))[:PASSAGES]
    sentences = [sentence for name in found for sentence in re.findall(r"[^.]+\.", HANDBOOK[name])]
    best = max(sentences, key=lambda sentence: likeness(case.question, sentence))
    return {
        "answer": best.strip(),
        "retrieved_context": [{"content": HANDBOOK[name], "doc_uri": name} for name in found],
    }
