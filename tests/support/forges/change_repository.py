"""A user's repository with a check in ``leadline.toml``, and changes to it that are good or bad."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ANSWERS: Final = {
    "tides": ("How high is the tide?", '"5.4"', "It is 5.4 metres."),
    "berths": ("How many berths are there?", '"Seven"', "Seven berths."),
    "pilot": ("Who books the pilot?", '"agent"', "The agent does."),
    "dues": ("When are dues paid?", '"arrival"', "On departure."),
}
"""Question, condition and answer of each case; the last answer is wrong from the beginning."""

SETTINGS: Final = """\
[ci]
dataset = "eval/answers.csv"
evaluators = ["text_matching"]
"""


class ChangeRepository:
    """A repository in a folder.

    Args:
        folder: The folder; made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, settings: str = SETTINGS) -> None:
        """Make the repository with a first commit on ``main``.

        Args:
            settings: Content of ``leadline.toml``.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main")
        (self.folder / ".gitignore").write_text(".leadline/\nleadline-ci/\n", encoding="utf-8")
        (self.folder / "leadline.toml").write_text(settings, encoding="utf-8")
        self.answer({})
        self.commit("The bot answers")

    def answer(self, changed: Mapping[str, str]) -> None:
        """Write the dataset.

        Args:
            changed: Answers by case that replace the first ones.
        """
        table = io.StringIO()
        writer = csv.writer(table)
        writer.writerow(["case", "model", "question", "condition", "actual_answer"])
        for case, (question, condition, text) in ANSWERS.items():
            writer.writerow([case, "harbour-bot", question, condition, changed.get(case, text)])
        file = self.folder / "eval" / "answers.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(table.getvalue(), encoding="utf-8")

    def commit(self, subject: str) -> str:
        """Commit all that is there; returns the commit.

        Args:
            subject: Its message.
        """
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run Git and return what it prints."""
        identity = ("-c", "user.name=Quay", "-c", "user.email=quay@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()
