"""Whose flips they are, told apart in pairs of which the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.tasks.analyse.flip_causes import ThirdTrials, causes_of

PAIRS = 400
SHARE = 0.3


def drawn(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """Return two trials of rows that a judge passes with these chances."""
    return (rng.random((len(chances), 2)) < chances[:, None]).astype(float)


def sampled(rng: np.random.Generator, p: np.ndarray, r: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """Return both parts where the pairs that turned in the first trial and a share of the others are judged again."""
    originals, copies, thirds = drawn(rng, p), drawn(rng, q), drawn(rng, r)
    turned = originals[:, 0] != copies[:, 0]
    others = np.flatnonzero(~turned)
    chosen = rng.choice(others, size=int(SHARE * len(others)), replace=False)
    weights = turned.astype(float)
    weights[chosen] = len(others) / len(chosen)
    for trials in (originals, copies):
        trials[weights == 0, 1] = np.nan
    thirds[weights == 0] = np.nan
    no = np.zeros(PAIRS, bool)
    found = causes_of(ThirdTrials(originals, thirds, copies, no, no), np.arange(PAIRS), weights)
    return found.answer.net, found.question.net


@pytest.mark.parametrize(
    ("by_answer", "by_question"),
    [(0.0, 0.0), (0.2, 0.0), (0.0, 0.2), (0.1, 0.1)],
    ids=["nobody", "the model changes", "the judge reads otherwise", "both"],
)
def test_changes_of_answers_and_of_readings_are_told_apart_whatever_the_judges_noise(by_answer, by_question) -> None:
    rng = np.random.default_rng(3)
    p = np.where(rng.random(PAIRS) < 0.3, rng.beta(0.8, 0.8, PAIRS), 1.0)
    kind = rng.random(PAIRS)
    r = np.where(kind < by_answer, 0.0, p)
    q = np.where((kind >= by_answer) & (kind < by_answer + by_question), 0.0, r)
    found = np.mean([sampled(rng, p, r, q) for _ in range(300)], axis=0)
    assert found[0] == pytest.approx(np.mean((p - r) ** 2), abs=0.006)
    assert found[1] == pytest.approx(np.mean((r - q) ** 2), abs=0.006)


def test_rows_that_share_a_score_do_not_differ() -> None:
    ones, zeros = np.ones((4, 2)), np.zeros((4, 2))
    yes, no = np.ones(4, bool), np.zeros(4, bool)
    found = causes_of(ThirdTrials(ones, np.full((4, 2), np.nan), zeros, yes, yes), np.arange(4), np.ones(4))
    assert (found.answer.net, found.question.net) == (0.0, 0.0)
    found = causes_of(ThirdTrials(ones, ones, zeros, yes, no), np.arange(4), np.ones(4))
    assert (found.answer.net, found.question.net) == (0.0, 1.0)
    assert causes_of(ThirdTrials(ones, ones, zeros, no, no), np.arange(4), np.zeros(4)) is None
