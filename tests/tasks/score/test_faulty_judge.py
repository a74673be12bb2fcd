"""A judge whose replies go wrong in every way: the scores are those of the undisturbed run, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.store.store import Store
from tests.support.judges.faulty_endpoint import FAULTS, Fault, faulty
from tests.support.judges.judged_run import CALLS_PER_ROW, evaluate, judge_at, reply, write_rows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROWS = 50
HASTY: dict[str, Any] = {"timeout_s": 2.0, "deadline_s": 60.0, "down_after_s": 10.0}
INSTRUMENT = {"judge_unparseable", "judge_truncated", "judge_unavailable"}
MOST_RUNS = 6


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with faulty({}, reply, 0) as endpoint:
        scores = evaluate(Store.open(folder), write_rows(folder / "rows.jsonl", ROWS), [judge_at(endpoint.url)])[
            "scores"
        ]
        assert endpoint.asked.total() == ROWS * CALLS_PER_ROW
    assert {status for _, _, _, status, _, _ in scores} == {"scored"}
    return list(scores)


TOGETHER = {
    "calls that fail": ("statuses", "wire", "sizes", "silence"),
    "replies that cannot be used": ("content", "form", "figures"),
}
"""Groups of faults that one run meets together, by what the engine makes of them."""


@pytest.mark.parametrize("kind", TOGETHER)
def test_faults_change_no_score_and_are_never_the_models(kind: str, undisturbed: list[Any], tmp_path: Path) -> None:
    faults = {name: fault for group in TOGETHER[kind] for name, fault in FAULTS[group].items()}
    went_wrong = disturbed(faults, 0.3 / len(faults), undisturbed, tmp_path)
    assert set(went_wrong) == set(faults)


def test_every_fault_is_met_by_one_of_the_runs() -> None:
    assert {group for groups in TOGETHER.values() for group in groups} == set(FAULTS)


@pytest.mark.soak
@pytest.mark.parametrize(("group", "fault"), [(group, fault) for group, faults in FAULTS.items() for fault in faults])
def test_a_fault_alone_changes_no_score(group: str, fault: str, undisturbed: list[Any], tmp_path: Path) -> None:
    went_wrong = disturbed({fault: FAULTS[group][fault]}, 0.1, undisturbed, tmp_path)
    assert went_wrong[fault] > ROWS * CALLS_PER_ROW / 20


def disturbed(faults: Mapping[str, Fault], share: float, undisturbed: list[Any], folder: Path) -> Counter[str]:
    """Evaluate until all is scored, each fault hitting a share of the calls; return how many calls met which."""
    dataset = write_rows(folder / "rows.jsonl", ROWS)
    with faulty(faults, reply, share) as endpoint:
        for _ in range(MOST_RUNS):
            done = evaluate(Store.open(folder / "store"), dataset, [judge_at(endpoint.url, **HASTY)])
            assert not done["down"]
            for right, found in zip(undisturbed, done["scores"], strict=True):
                metric, row, trial, status, reason, value = found
                assert found == right or (
                    [metric, row, trial, status, value] == [*right[:3], "unscored", None] and reason in INSTRUMENT
                )
            if done["scores"] == undisturbed:
                break
    assert done["scores"] == undisturbed
    return endpoint.went_wrong
