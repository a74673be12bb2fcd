"""A folder in which ``leadline`` is typed, with judges that answer over HTTP as a script says."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import duckdb

from leadline.cli.main import run
from tests.golden.plain import plain
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving

SETTINGS: Final = "\n".join(
    f'[judges.{name}]\nmodel = "openai/{name}"\ninput_cost_per_token = 1e-6\noutput_cost_per_token = 2e-6\n{more}'
    for name, more in (("small", "default = true\n"), ("other", ""))
)
ERRING: Final = 0.1
"""Share of the answers of which a judge does not say the truth."""

_ANSWER: Final = re.compile(r"FENCE>\n(.*?)\n</", re.DOTALL)


def drawn(question: Question) -> float:
    """Return a number in [0, 1) that is the same for a judge and a question at any time."""
    asked = f"{question.body['model']} {question.text}"
    return int.from_bytes(hashlib.sha256(asked.encode()).digest()[:4]) / 2**32


def replying(bad: float) -> Callable[[Question], str]:
    """Return a judge's script by which a share of the answers is bad."""

    def reply(question: Question) -> str:
        if "sexist" in question.text:
            (answer,) = _ANSWER.findall(question.text)
            return str(is_bad(answer) != (drawn(question) < ERRING)).lower()
        return json.dumps({"rationale": "So it says.", "rating": "no" if drawn(question) < bad else "yes"})

    return reply


def is_bad(answer: str) -> bool:
    """Say which texts that end with an answer are sexist: one in four."""
    return hashlib.sha256(answer.strip()[-20:].encode()).digest()[0] < 64


class Desk:
    """A folder in which commands are typed, one after the other, and what each step asked the judges."""

    def __init__(self, folder: Path, endpoint: JudgeEndpoint) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.steps: dict[str, dict[str, Any]] = {}
        self._told: Counter[str] = Counter()

    def typed(self, *arguments: str, codes: Sequence[int] = (0, 1)) -> str:
        """Type a command and return what it prints."""
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = run(arguments)
        assert code in codes, f"{' '.join(arguments)}: {code}\n{errors.getvalue()}{said.getvalue()}"
        return said.getvalue()

    def json(self, *arguments: str) -> Any:
        """Type a command that prints JSON and return that, the same at any time."""
        return plain(json.loads(self.typed(*arguments)), self.folder)

    def step(self, name: str, *arguments: str) -> str:
        """Type a command, and note what it asked the judges."""
        before = len(self.endpoint.log)
        said = self.typed(*arguments)
        asked = [line.question for line in self.endpoint.log[before:]]
        purposes = Counter(ask["purpose"] for ask in json.loads(self.typed("judges", "calls", "--json")))
        texts = sorted(f"{question.body['model']} {question.text}" for question in asked)
        self.steps[name] = {
            "calls": len(asked),
            "of": dict(sorted((purposes - self._told).items())),
            "questions": hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16],
        }
        self._told = purposes
        return said

    def tables(self, statements: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return what statements find in the database of the latest run."""
        place = json.loads(self.typed("show", "latest", "--json"))["run"]
        with duckdb.connect(str(self.folder / ".leadline" / "runs" / place / "run.duckdb"), read_only=True) as opened:
            found = {name: opened.sql(text).to_arrow_table().to_pylist() for name, text in statements.items()}
        return {name: [self._line(line) for line in lines] for name, lines in found.items()}

    def _line(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return a row of a table as JSON, with the JSON in it."""
        for name, value in line.items():
            if isinstance(value, str) and value[:1] in ("{", "["):
                line[name] = json.loads(value)
        return plain(json.loads(json.dumps(line, default=str)), self.folder)  # type: ignore[no-any-return]


@contextlib.contextmanager
def desk(folder: Path, bad: float = 0.25) -> Iterator[Desk]:
    """Sit down in a folder, with judges in reach and no other settings.

    The address of the judges is in a variable, as one in the settings would be part of all keys.
    """
    (folder / "leadline.toml").write_text(SETTINGS, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEADLINE_", "PREFECT_"))}
    with serving(JudgeEndpoint(replying(bad))) as endpoint:
        own = {
            "CI": "true", "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "none", "XDG_STATE_HOME": str(folder),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        with patch.dict(os.environ, kept | own, clear=True), contextlib.chdir(folder):
            yield Desk(folder, endpoint)
