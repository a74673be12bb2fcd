"""A judge each of whose faults hits one call in ten: the scores are those of the undisturbed run, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.store.store import Store
from tests.support.judges.faulty_endpoint import FAULTS, faulty
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


@pytest.mark.parametrize(("group", "fault"), [(group, fault) for group, faults in FAULTS.items() for fault in faults])
def test_a_fault_changes_no_score_and_is_never_the_models(
    group: str, fault: str, undisturbed: list[Any], tmp_path: Path
) -> None:
    dataset = write_rows(tmp_path / "rows.jsonl", ROWS)
    with faulty({fault: FAULTS[group][fault]}, reply, 0.1) as endpoint:
        for _ in range(MOST_RUNS):
            done = evaluate(Store.open(tmp_path / "store"), dataset, [judge_at(endpoint.url, **HASTY)])
            assert not done["down"]
            for right, found in zip(undisturbed, done["scores"], strict=True):
                metric, row, trial, status, reason, value = found
                assert found == right or (
                    [metric, row, trial, status, value] == [*right[:3], "unscored", None] and reason in INSTRUMENT
                )
            if done["scores"] == undisturbed:
                break
    assert done["scores"] == undisturbed
    assert endpoint.went_wrong[fault] > ROWS * CALLS_PER_ROW / 20
