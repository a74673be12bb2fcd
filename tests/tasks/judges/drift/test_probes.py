"""Which rows of a run a judge is probed with."""

import dataclasses
from pathlib import Path

import pytest

from leadline.tasks.judges.drift.enrolment import ProbedMetric
from leadline.tasks.judges.drift.probes import drawn
from leadline.tasks.judges.labels.judged_rows import read_judged_rows
from tests.support.stores.run_factory import Given, Toy, answer, make_run


@pytest.mark.parametrize(("threshold", "limit"), [(None, 3.0), (2.0, 2.0)])
def test_half_of_the_probes_are_near_the_limit_of_their_verdicts_and_either_verdict_has_its_share(
    tmp_path: Path, threshold: float | None, limit: float
) -> None:
    scores = [1 + 4 * number / 99 for number in range(100)]
    rows = [answer(f"c{number}", "bot") for number in range(100)]
    given = [Given(f"c{number}", "bot", score) for number, score in enumerate(scores)]
    store, run = make_run(tmp_path, rows=rows, evaluators=[Toy(judged=True)], scores=given)
    judged = read_judged_rows(store, run, "toy")
    judged = dataclasses.replace(judged, metric=dataclasses.replace(judged.metric, threshold=None, low=1.0, high=5.0))
    metric = ProbedMetric(
        "toy", "value", threshold, higher_is_better=True, low=1.0, high=5.0, is_share=False, params={}
    )
    values = judged.values[drawn(judged, metric, 40)]
    near = 4 * 10.5 / 99
    assert sum(abs(values - limit) <= near) >= 20
    assert 10 <= sum(values < limit) <= 30
