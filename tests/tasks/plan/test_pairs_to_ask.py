"""Estimated calls of an evaluator that compares models: each pair of answers once, in both orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.pairwise.preference import Preference
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.pipeline import plan_run
from leadline.tasks.plan.cost import estimate
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.plan.selection import choose
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_jsonl, load

SETTINGS = Settings(judges=(JudgeConfig(model="scripted"),))


def calls(folder: Path, models: int, *, trials: int = 1, **params: Any) -> int:
    """Return the estimated calls for four cases that so many models answered, two of them with the same text once."""
    records = [
        {"case": f"c{case}", "model": f"m{model}", "question": f"Question {case}?", "answer": f"Answer {case} {model}"}
        for case in range(4)
        for model in range(models)
    ]
    records[1] |= {"answer": records[0]["answer"]}
    jobs = make_jobs([Preference(Preference.parameters.build("pairwise.preference", params))], SETTINGS, trials=trials)
    with connect() as connection:
        attach_dataset(connection, load(folder, "d.jsonl", as_jsonl(records)).path)
        plan(connection, Store.open(folder / "store"), jobs)
        found = estimate(connection, jobs[0], SETTINGS)
    return found.calls


@pytest.mark.parametrize(
    ("models", "params", "pairs"),
    [
        (1, {}, 0),
        (2, {}, 3),
        (3, {}, 10),  # of three models two with the same answer to one case are one to the third
        (3, {"baseline": "m2"}, 7),
        (6, {"most_rivals": 2}, 4 * 6 - 2),
    ],
)
def test_each_pair_of_different_answers_counts_once(
    tmp_path: Path, models: int, params: dict[str, Any], pairs: int
) -> None:
    assert calls(tmp_path, models, **params) == pytest.approx(2 * pairs, abs=2 if models > 5 else 0)


def test_each_trial_asks_again(tmp_path: Path) -> None:
    assert calls(tmp_path, 3, trials=2) == 2 * calls(tmp_path, 3)


def test_a_baseline_that_the_dataset_has_no_answers_of_is_refused(tmp_path: Path) -> None:
    records = [{"case": "c", "model": model, "question": "Who?", "answer": model} for model in ("small", "large")]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    choice = choose(None, ["pairwise.preference"], {"pairwise.preference": {"baseline": "huge"}}, SETTINGS)
    with pytest.raises(UsageError, match=r"no model called 'huge'. Its models: small, large"):
        plan_run(Store.open(tmp_path / "store"), loaded, choice, SETTINGS, model_keys=(), processes=1, config={})
