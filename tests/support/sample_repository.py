"""A user's repository whose answers are tested by the plugin of pytest: a good state, and a change that breaks answers.

It has modules and packages of the names that Leadline's rooms have, as users' repositories may.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GOOD: Final[Mapping[str, str]] = {
    "opening hours": "The desk opens at seven and closes at nine.",
    "refund": "Refunds take five days. Write to the desk.",
    "pump": "The pump starts at seven.",
    "cellar": "The pump is in the cellar.",
    "night": "Nobody is there at night.",
    "parking": "I do not know.",
}
"""Answers by case. That of "parking" fails its condition, as it always did."""

BAD: Final[Mapping[str, str]] = {
    "refund": "Refunds take five days. Write to bob.miller@acme.com.",
    "pump": "The pump starts at noon.",
}
"""Answers of the change that breaks two cases: one gives away an address, the other is wrong."""

CONDITIONS: Final[Mapping[str, str]] = {
    "opening hours": '"seven" AND "nine"',
    "refund": '"five days"',
    "pump": '"seven"',
    "cellar": '"cellar"',
    "night": '"Nobody"',
    "parking": '"yard"',
}

TESTS: Final = '''"""The answers of the desk."""

import pytest

import tasks


@pytest.mark.leadline("../answers.jsonl", metrics=["pii_leakage", "text_matching"])
def test_answers(leadline_case):
    assert len(leadline_case.answer) < tasks.LONGEST
'''


@dataclass(frozen=True)
class SampleRepository:
    """The repository.

    Attributes:
        root: Its folder.
    """

    root: Path

    def write(self, *, tests: str = TESTS) -> SampleRepository:
        """Write the repository in its good state.

        Args:
            tests: What its module of tests holds.
        """
        for folder in ("tests", "flows"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            (self.root / folder / "__init__.py").write_text("")
        (self.root / "tasks.py").write_text("LONGEST = 200\n")
        (self.root / "flows" / "desk.py").write_text("import tasks\n")
        (self.root / ".gitignore").write_text(".leadline/\n__pycache__/\n.pytest_cache/\n")
        (self.root / "tests" / "test_answers.py").write_text(tests)
        (self.root / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        return self.answer(GOOD)

    def answer(self, answers: Mapping[str, str]) -> SampleRepository:
        """Write the file of answers.

        Args:
            answers: Answers by case; a case that has no condition is asked for none.
        """
        lines = [
            {"case": case, "question": f"About: {case}?", "actual_answer": answer, "condition": CONDITIONS.get(case)}
            for case, answer in answers.items()
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.root / "answers.jsonl").write_text(text, encoding="utf-8")
        return self

    def break_answers(self) -> SampleRepository:
        """Make the bad change."""
        return self.answer({**GOOD, **BAD})

    def commit(self, message: str, *, branch: str = "") -> str:
        """Commit all files, and return the commit; the first call makes the repository.

        Args:
            message: The message.
            branch: The branch, which is made if it is new.
        """
        if not (self.root / ".git").exists():
            self._git("init", "-q", "-b", "main")
        if branch:
            self._git("checkout", "-q", "-B", branch)
        self._git("add", "--all")
        self._git("commit", "-q", "-m", message)
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        who: Sequence[str] = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.root, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()
