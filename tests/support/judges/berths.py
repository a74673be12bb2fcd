"""Answers about berths, and a judge that finds a share of them right, in the form of Databricks' evaluators."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from tests.support.judges.judge_endpoint import Question


def write_berths(path: Path, rows: int, models: tuple[str, ...] = ("m",)) -> Path:
    """Write a case a line for each model; every answer is another text."""
    lines = [
        {"case": f"c{n:04d}", "model": model, "question": f"How deep is berth {n}?", "expected_answer": f"{n} m",
         "actual_answer": f"{model}: It is {n} m."}
        for n in range(rows)
        for model in models
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_talks(path: Path, conversations: int) -> Path:
    """Write conversations of two turns about berths, one a line."""
    lines = [
        {
            "case": f"t{n:04d}",
            "model": "m",
            "messages": [
                {"role": role, "content": text}
                for turn in ("berth", "quay")
                for role, text in (("user", f"How deep is {turn} {n}?"), ("assistant", f"The {turn} is {n} m deep."))
            ],
        }
        for n in range(conversations)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def passing(share: float) -> Callable[[Question], str]:
    """Return a judge's script by which a share of the answers, drawn by their texts, is right."""

    def reply(question: Question) -> str:
        drawn = int.from_bytes(hashlib.sha256(question.text.encode()).digest()[:4]) / 2**32
        return json.dumps({"rationale": "Because of the harbour.", "rating": "yes" if drawn < share else "no"})

    return reply
