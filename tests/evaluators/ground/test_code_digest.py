"""Digests of functions: one of its own for other code, and the same again for the same code and what it refers to."""

from __future__ import annotations

import functools
import logging
import math
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from leadline.evaluators.data import Row
from leadline.evaluators.ground.code_digest import code_digest, is_installed

SOURCE = """
import math, re
WORDS = {words}
PATTERN = re.compile({pattern!r}, re.I)
class Rule:
    weight = {weight}
    def __init__(self, name): self.name = name
    def matches(self, text): return self.name in text
RULES = (Rule("a"), Rule({rule!r}))
def helper(text, unit={unit}):
    return math.sqrt(len(text)) * unit
def metric(row):
    hits = [rule for rule in RULES if rule.matches(row)]
    return helper(row) + any(word in row for word in WORDS) + bool(PATTERN.search(row)) + len(hits) * {factor}
"""
PLAIN = {"words": {"please", "thanks"}, "pattern": "x+", "weight": 1, "rule": "b", "unit": 2.0, "factor": 3}


def built(**changes: Any) -> Callable[..., Any]:
    known: dict[str, Any] = {"__name__": "notebook"}
    exec(SOURCE.format(**PLAIN | changes), known)
    found: Callable[..., Any] = known["metric"]
    return found


def test_the_same_code_has_the_same_digest() -> None:
    first, second = code_digest(built()), code_digest(built())
    assert first == second
    assert first.untold == ()


@pytest.mark.parametrize(
    "change",
    [
        {"words": {"please"}},
        {"pattern": "y+"},
        {"weight": 2},
        {"rule": "c"},
        {"unit": 2.5},
        {"factor": 4},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_the_code_refers_to_is_part_of_the_digest(change: dict[str, Any]) -> None:
    assert code_digest(built(**change)).digest != code_digest(built()).digest


def test_a_closure_is_told_by_what_it_holds() -> None:
    def above(limit: object) -> Callable[[Any], Any]:
        return lambda row: (len(row), limit)

    values = [1, 1.0, True, "1", b"1", None, (1,), [1], {1: 1}, {1}, range(1), np.ones(1), np.zeros(1), len, math.pi]
    digests = [code_digest(above(value)).digest for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [code_digest(above(value)).digest for value in values]


class Point(NamedTuple):
    x: int


@dataclass(frozen=True)
class Limits:
    low: float
    words: frozenset[str] = frozenset({"a", "b"})


class Model(BaseModel):
    size: int = 3


class Scorer:
    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.me = self

    def __call__(self, row: Row) -> float:
        return self.weight

    def score(self, row: Row) -> float:
        return self.weight


POINTS = (Point(1), Point(2))
SIZES = (Model(), Model(size=4))


@functools.cache
def cached(text: str) -> int:
    return len(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scorer(1.0), Scorer(2.0)),
        (Scorer(1.0).score, Scorer(2.0).score),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (lambda row: Point(1), lambda row: Point(2)),
        (lambda row, at=POINTS[0]: at, lambda row, at=POINTS[1]: at),
        (lambda row, at=Limits(1): at, lambda row, at=Limits(2): at),
        (lambda row, at=SIZES[0]: at, lambda row, at=SIZES[1]: at),
        (lambda row, at=re.compile("a"): at, lambda row, at=re.compile("a", re.I): at),
        (lambda row, at=Path("a"): at, lambda row, at=Path("b"): at),
        (lambda row: cached("a"), lambda row: cached("b")),
        (lambda row: math.floor(1.5), lambda row: math.ceil(1.5)),
    ]
)  # fmt: skip
def test_values_of_many_kinds_are_told_apart_and_found_again(one: Any, other: Any) -> None:
    assert code_digest(one) == code_digest(one)
    assert not code_digest(one).untold
    assert code_digest(one).digest != code_digest(other).digest


@pytest.mark.parametrize("state", [threading.Lock(), iter([1]), (each for each in [1]), memoryview(b"a")])
def test_what_cannot_be_told_is_never_found_again(state: object) -> None:
    def score(row: Row) -> float:
        return 1.0 if state else 0.0

    first, second = code_digest(score), code_digest(score)
    assert first.untold == ("state",)
    assert first.digest != second.digest


def test_a_logger_changes_no_value() -> None:
    log = logging.getLogger("mine")

    def score(row: Row) -> float:
        log.info("scored")
        return 1.0

    assert not code_digest(score).untold


def test_it_is_the_same_in_another_process_and_follows_a_module_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("import inner\ndef polite(text): return inner.KEY in text\n")
    (tmp_path / "inner.py").write_text("KEY = 'please'\n")
    script = (
        "import words\n"
        "from leadline.evaluators.ground.code_digest import code_digest\n"
        "def metric(row):\n    import json\n    return words.polite(row) or {'a', 'b', 'c'} - {row}\n"
        "print(code_digest(metric).digest)\n"
    )

    def printed() -> str:
        done = subprocess.run(
            [sys.executable, "-B", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    first = printed()
    assert printed() == first
    (tmp_path / "inner.py").write_text("KEY = 'thanks'\n")
    assert printed() != first


def test_installed_code_is_known_by_its_version() -> None:
    assert is_installed(Path)
    assert is_installed(np.ndarray)
    assert is_installed(Row)
    assert not is_installed(Scorer)
