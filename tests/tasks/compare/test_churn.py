"""Churn of a judge's verdicts from run to run, net of its own noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leadline.tasks.compare import compare
from leadline.tasks.compare.results import Churn
from leadline.tasks.db import open_run
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy
from tests.tasks.compare.two_runs import SCORE, cases, completed

CASES = 200
JUDGE = Toy(metrics=(SCORE,), judged=True)


def verdicts(seed: int, *, changed: float = 0.0, trials: int = 2) -> np.ndarray:
    """Return what a judge says that is in two minds about a fifth of the answers, by case and trial."""
    always = np.random.default_rng(0)
    unsure, good, turned = always.random(CASES) < 0.2, always.random(CASES) < 0.7, always.random(CASES) < changed
    chance = np.where(unsure, 0.5, np.where(turned, ~good, good))
    return (np.random.default_rng(seed).random((CASES, trials)) < chance[:, None]).astype(float)


def made(root: Path, said: np.ndarray, *, again: int = 0, judge: Toy = JUDGE, by: str = "m") -> Run:
    """Make a run of such verdicts; with ``again`` the second trials of so many rows measure only the noise."""
    rows = [row | {"answer": f"{row['case']} by {by}"} for row in cases(CASES)]
    width = 1 if again else said.shape[1]
    scores = [
        Given(row["case"], "m", said[number, trial], SCORE.key, trial=trial)
        for number, row in enumerate(rows)
        for trial in range(width)
    ]
    run = completed(root, scores, rows=rows, evaluators=[judge])
    if again:
        with open_run(Store.open(root / "store"), run) as connection:
            lines = [(0, number, 1, said[number, 1]) for number in range(again)]
            connection.executemany("INSERT INTO repeats VALUES (?, ?, ?, ?, NULL)", lines)
    return run


def churn(root: Path, before: Run, after: Run) -> Churn | None:
    (found,) = compare(Store.open(root / "store"), before.id, after.id).metrics
    return found.churn


def test_noise_alone_is_no_churn_and_a_change_is(tmp_path: Path) -> None:
    before, same, other = (
        made(tmp_path, verdicts(seed, changed=share), by=f"m{seed}") for seed, share in ((1, 0), (2, 0), (3, 0.15))
    )
    noise, change = churn(tmp_path, before, same), churn(tmp_path, before, other)
    assert noise is not None
    assert change is not None
    assert noise.rate > 0.05
    assert noise.net_low is not None
    assert noise.net_high is not None
    assert noise.net_low < 0 < noise.net_high
    assert "not told from the judge's noise" in noise.in_words
    assert change.method == "trials"
    assert change.net_low is not None
    assert change.net_low > 0
    assert change.in_words.endswith(": changed")


def test_rows_of_one_run_that_were_judged_again_tell_the_noise(tmp_path: Path) -> None:
    before = made(tmp_path, verdicts(1, trials=1), by="m1")
    after = made(tmp_path, verdicts(2, changed=0.3), again=150, by="m2")
    found = churn(tmp_path, before, after)
    assert found is not None
    assert found.method == "sub-sample"
    assert found.net_low is not None
    assert found.net_low > 0
    assert found.noise == pytest.approx(0.1, abs=0.06)


def test_without_a_second_trial_nothing_is_told(tmp_path: Path) -> None:
    before, after = (made(tmp_path, verdicts(seed, trials=1), by=f"m{seed}") for seed in (1, 2))
    found = churn(tmp_path, before, after)
    assert found is not None
    assert (found.net, found.method) == (None, "")
    assert found.in_words.endswith("the judge's own noise was not measured")


def test_equal_answers_share_their_scores_and_do_not_change(tmp_path: Path) -> None:
    said = verdicts(1)
    found = churn(tmp_path, made(tmp_path, said), made(tmp_path, said))
    assert found is not None
    assert (found.rate, found.noise, found.net) == (0, 0, 0)


def test_metrics_that_ask_no_judge_have_no_churn_to_explain(tmp_path: Path) -> None:
    before, after = (
        made(tmp_path, verdicts(seed, trials=1), judge=Toy(metrics=(SCORE,)), by=f"m{seed}") for seed in (1, 2)
    )
    assert churn(tmp_path, before, after) is None
