"""Models and applications of which three calls in ten go wrong: every answer is the right one, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.tasks.collect import Target
from tests.support.datasets.collecting import Bench
from tests.support.judges.faulty_endpoint import FAULTS, faulty
from tests.support.judges.judge_endpoint import Question

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CASES = 200
MOST_RUNS = 6


def reply(question: Question) -> str:
    return f"Answer to {question.text}"


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ("model", ("statuses", "wire", "sizes", "silence")),
        ("model", ("content", "figures")),
        ("url", ("wire", "sizes")),
    ],
)
def test_faults_become_no_answer_and_the_next_collection_has_all(
    kind: str, groups: tuple[str, ...], tmp_path: Path
) -> None:
    faults = {name: fault for group in groups for name, fault in FAULTS[group].items()}
    bench = Bench(tmp_path, CASES)
    with faulty(faults, reply, 0.3 / len(faults)) as endpoint:
        of_kind = {"model": "openai/m", "api_base": endpoint.url} if kind == "model" else {"url": endpoint.url}
        target = Target.model_validate(
            {"key": "m", "timeout_s": 2.0, "deadline_s": 60.0, "down_after_s": 10.0, "max_in_flight": 16, **of_kind}
        )
        for _ in range(MOST_RUNS):
            done, rows = bench.collect(target)
            assert len(rows) == CASES
            for row in rows:
                assert ("error" in row) != (row.get("actual_answer") == f"Answer to {row['question']}")
                assert "Traceback" not in row.get("error", "")
            if not done.failed:
                break
    assert done.answered == CASES
    assert set(endpoint.went_wrong) == set(faults)
