"""Versions of a dataset over its runs: the cases that came, went and were edited, and the words that came or went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from leadline.tasks.analyse.text_clusters import words
from leadline.tasks.db import connect, records, sql
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.statistics.statistics import benjamini_hochberg, fisher_exact
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_QUESTIONS: Final = 4_000
"""Questions of a version that are read for the words in them, those of the same cases in each version."""

LEAST: Final = 5
"""Questions of both versions together that have a word, for it to be looked at."""

SHARE_OF_CHANCE: Final = 0.05
"""Share of the words told that is expected to be chance, as if questions had been drawn."""

MOST_WORDS: Final = 12


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """Runs of a dataset, one after the other, that had the same cases; the answers may differ.

    Attributes:
        digest: Of the dataset of the last run.
    """

    digest: str
    first: RunLine
    last: RunLine
    runs: int


class WordShift(NamedTuple):
    """A word whose share of the questions changed.

    Attributes:
        before: Share of the questions that had it.
        after: Share of those that have it.
    """

    word: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class CaseChanges:
    """Numbers of cases that differ between two versions."""

    added: int
    removed: int
    edited: int


def versions_of(runs: Iterable[RunLine], dataset: str) -> list[DatasetVersion]:
    """Return the versions of the datasets of a name, the newest first.

    Args:
        runs: Newest first.
    """
    found: list[DatasetVersion] = []
    state = ""
    for run in runs:
        if run.dataset != dataset or not run.dataset_digest:
            continue
        if found and run.cases == state:
            known = found[-1]
            found[-1] = DatasetVersion(known.digest, run, known.last, known.runs + 1)
        else:
            found.append(DatasetVersion(run.dataset_digest, run, run, 1))
        state = run.cases
    return found


def case_changes(store: Store, before: str, after: str) -> CaseChanges | None:
    """Return how many cases differ between two datasets, by their digests; ``None`` where one is gone.

    It is found out once in a process.
    """
    if not (store.has_dataset(before) and store.has_dataset(after)):
        return None
    return _changes(_cases(store, before), _cases(store, after))


@lru_cache(maxsize=4)
def _compared(before: str, after: str) -> DuckDBPyConnection:
    """Return a database with the table ``changed`` of two versions, from which all their pages are read.

    It is in memory, some tens of bytes a case that changed, so that few are kept.
    """
    connection = connect()
    connection.execute(sql("dataset_versions/changed"), {"before": before, "after": after})
    return connection


@lru_cache(maxsize=2_000)
def _changes(before: str, after: str) -> CaseChanges:
    with _compared(before, after).cursor() as connection:
        counts = dict(connection.execute(sql("dataset_versions/counts")).fetchall())
    return CaseChanges(**{kind: counts.get(kind, 0) for kind in ("added", "removed", "edited")})


def changed_cases(
    store: Store, before: str, after: str, *, kind: str | None, limit: int, offset: int
) -> list[dict[str, Any]]:
    """Return a page of the cases that differ, edited ones first: ``kind``, ``case`` and the questions.

    Args:
        before: Digest of the earlier dataset, which is in the store.
        after: Digest of the later one.
        kind: Only those ``added``, ``removed`` or ``edited``.
        limit: Cases at most.
    """
    return [dict(line) for line in _changed(_cases(store, before), _cases(store, after), kind, limit, offset)]


@lru_cache(maxsize=500)
def _changed(before: str, after: str, kind: str | None, limit: int, offset: int) -> list[dict[str, Any]]:
    asked = {"before": before, "after": after, "kind": kind, "limit": limit, "offset": offset}
    with _compared(before, after).cursor() as connection:
        return records(connection, sql("dataset_versions/lines"), asked)


def shifted_words(store: Store, before: str, after: str) -> tuple[WordShift, ...]:
    """Return the words whose share of the questions drifted from one dataset to the next, the farthest first."""
    return _shifted(_cases(store, before), _cases(store, after))


@lru_cache(maxsize=200)
def _shifted(before: str, after: str) -> tuple[WordShift, ...]:
    return shifts(_questions(before), _questions(after))


def shifts(before: Sequence[str], after: Sequence[str]) -> tuple[WordShift, ...]:
    """Return the words of which two sets of questions have different shares beyond chance.

    Fisher's exact test for each word, with the share of chance findings held by Benjamini and Hochberg. Questions that
    both sets have make it careful.
    """
    old, new = (Counter(word for text in texts for word in set(words(text))) for texts in (before, after))
    seen = sorted(word for word in old.keys() | new.keys() if old[word] + new[word] >= LEAST)
    if not seen or not before or not after:
        return ()
    p = np.array([_chance(old[word], len(before), new[word], len(after)) for word in seen])
    surely = benjamini_hochberg(p) <= SHARE_OF_CHANCE
    told = [
        WordShift(word, old[word] / len(before), new[word] / len(after))
        for word, sure in zip(seen, surely, strict=True)
        if sure
    ]
    return tuple(sorted(told, key=lambda shift: (-abs(shift.after - shift.before), shift.word))[:MOST_WORDS])


def _chance(a: int, before: int, b: int, after: int) -> float:
    """Return the chance of shares that differ as much, in either direction."""
    hits, drawn = (b, after) if b * before >= a * after else (a, before)
    return min(1.0, 2 * fisher_exact(hits, a + b, drawn, before + after))


def _questions(file: str) -> list[str]:
    with connect() as connection:
        asked = {"file": file, "most": MOST_QUESTIONS}
        return [text for (text,) in connection.execute(sql("dataset_versions/questions"), asked).fetchall()]


def _cases(store: Store, dataset: str) -> str:
    return str(store.dataset(dataset) / "cases.parquet")
