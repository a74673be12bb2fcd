"""Corrected values of runs with perturbed copies: the copies of a case are no new cases, and intervals know that."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.judges.labels.label_report import LabelledModel, report_labels
from leadline.tasks.judges.labels.label_sets import Drawing, LabelSample, SampledRow
from leadline.tasks.load.label import Label
from leadline.tasks.statistics.agreement import agreement

CASES, COPIES, RUNS = 100, 5, 200


def _metric(*, binary: bool) -> JudgedMetric:
    return JudgedMetric("toy", "good", 0.5 if binary else None, True, 0.0, 1.0, False, 0, "Good", "", "c")


def _labelled(
    metric: JudgedMetric, values: np.ndarray, truth: np.ndarray, how: Drawing, labelled: int, seed: int
) -> LabelledModel:
    """Draw rows of a run in which an original and its copies are alike, let a person label them, and report that."""
    rows = np.arange(CASES * COPIES)
    names = [str(row) for row in rows]
    judged = JudgedRows(metric, rows, names, names, ["bot"] * len(rows), rows // COPIES, values)
    drawn = draw(judged, labelled * COPIES, how=how, seed=seed)
    given = tuple(SampledRow(str(row.index), str(row.index), "bot", row.stratum, row.chance) for row in drawn)
    sample = LabelSample("s", "run", metric.id, how, seed, "c", len(rows), given)
    labels = [Label(row.key, metric.id, float(truth[int(row.key)]), "anna", "", sample="s") for row in given]
    return report_labels(judged, labels, [sample], bootstrapped=False).models[0]


@pytest.mark.parametrize(
    ("binary", "how", "labelled"), [(True, "uniform", 90), (False, "uniform", 60), (False, "by-score", 50)]
)
def test_corrected_values_of_cases_with_copies_cover_what_is_true_of_such_cases(
    binary: bool, how: Drawing, labelled: int
) -> None:
    hits = 0
    for seed in range(RUNS):
        luck = np.random.default_rng(seed)
        quality = luck.normal(0.6, 0.2, CASES)
        if binary:
            good = luck.random(CASES) < 0.6
            seen = good ^ (luck.random(CASES) < 0.15)
            truth, values = (np.repeat(part, COPIES).astype(float) for part in (good, seen))
        else:
            truth = np.repeat(quality, COPIES) + luck.normal(0, 0.03, CASES * COPIES)
            values = truth + np.repeat(luck.normal(0.05, 0.08, CASES), COPIES)
        found = _labelled(_metric(binary=binary), values, truth, how, labelled, seed).corrected
        assert found is not None
        hits += found.low <= 0.6 <= found.high
    assert hits >= 0.91 * RUNS


def test_agreement_on_copies_is_no_surer_than_on_their_originals() -> None:
    luck = np.random.default_rng(3)
    good = luck.random(40) < 0.6
    passed = good ^ (luck.random(40) < 0.2)
    alike = [part.astype(float) for part in (good, passed)]
    once, copied = agreement(*alike), [np.repeat(part, 6) for part in alike]
    known = agreement(copied[0], copied[1], clusters=np.repeat(np.arange(40), 6))
    assert (known.kappa_low, known.accuracy.low) == pytest.approx((once.kappa_low, once.accuracy.low))
    assert agreement(copied[0], copied[1]).kappa_low > once.kappa_low + 0.05
