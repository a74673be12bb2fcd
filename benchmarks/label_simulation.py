"""What labels lead to: certificates of good and useless judges, and coverage of corrected numbers, simulated.

Run: ``python -m benchmarks.label_simulation [--runs 500]``. Rows are drawn, labelled and reported as the commands
do. A coverage of 95 % is known to 1.9 points with 500 runs.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
from leadline.tasks.judges.labels.label_report import LabelledModel, report_labels
from leadline.tasks.judges.labels.label_sets import Drawing, LabelSample, SampledRow
from leadline.tasks.load.label import Label


def labelled(
    values: np.ndarray,
    truth: np.ndarray,
    number: int,
    seed: int,
    *,
    binary: bool,
    how: Drawing = "uniform",
    copies: int = 1,
) -> LabelledModel:
    """Draw rows of one model, let a person label them, and report that.

    Args:
        values: The judge's scores.
        truth: What the person says of each.
        number: Rows to draw.
        seed: Seed of the drawing.
        binary: Whether rows pass or fail.
        how: How they are drawn.
        copies: Rows of each case, which follow each other.
    """
    metric = JudgedMetric("toy", "good", 0.5 if binary else None, True, 0.0, 1.0, binary, 0, "Good", "", "c")
    rows = np.arange(len(values))
    names = [str(row) for row in rows]
    judged = JudgedRows(metric, rows, names, names, ["bot"] * len(rows), rows // copies, values)
    drawn = draw(judged, number, how=how, seed=seed)
    given = tuple(SampledRow(str(row.index), str(row.index), "bot", row.stratum, row.chance) for row in drawn)
    sample = LabelSample("s", "run", metric.id, how, seed, "c", len(rows), given)
    labels = [Label(row.key, metric.id, float(truth[int(row.key)]), "anna", "", sample="s") for row in given]
    return report_labels(judged, labels, [sample], bootstrapped=False).models[0]


def states(share: float, passes: float, catches: float, number: int, runs: int, rows: int = 600) -> Counter[str]:
    """Return how often labels of a pass-fail judge lead to each state of its certificate.

    Args:
        share: Share of good answers.
        passes: Share of them that the judge passes.
        catches: Share of the bad ones that it fails.
        number: Rows to label.
        runs: Number of worlds.
        rows: Rows of the run.
    """
    found: Counter[str] = Counter()
    for seed in range(runs):
        luck = np.random.default_rng((5, seed))
        good = luck.random(rows) < share
        judge = np.where(good, luck.random(rows) < passes, luck.random(rows) > catches)
        model = labelled(judge.astype(float), good.astype(float), number, seed, binary=True)
        found[model.state] += 1
        found["covers"] += model.corrected is not None and model.corrected.low <= share <= model.corrected.high
    return found


def coverage_of_numbers(
    how: Drawing, mean: float, runs: int, *, copies: int = 1, rows: int = 600
) -> tuple[float, float]:
    """Return how often the corrected mean of numbers covers that of all such rows, and its mean width.

    Args:
        how: How 100 rows are drawn.
        mean: What is true of such rows.
        runs: Number of worlds.
        copies: Rows of each case, alike.
        rows: Rows of the run.
    """
    hits = width = 0.0
    for seed in range(runs):
        luck = np.random.default_rng((6, seed))
        truth = np.repeat(luck.beta(4 * mean, 4 * (1 - mean), rows // copies), copies)
        values = np.clip(truth + 0.05 + np.repeat(luck.normal(0, 0.1, rows // copies), copies), 0, 1)
        found = labelled(values, truth, 100, seed, binary=False, how=how, copies=copies).corrected
        assert found is not None
        hits += found.low <= mean <= found.high
        width += found.high - found.low
    return hits / runs, width / runs


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    print(f"Certificates, {runs} runs: good answers, passes good, catches bad, labels")
    for share, passes, catches, number in (
        (0.92, 0.95, 0.6, 100), (0.92, 0.95, 0.6, 111), (0.92, 0.95, 0.6, 300), (0.9, 0.85, 0.85, 100),
        (0.9, 0.9, 0.9, 100), (0.63, 0.85, 0.85, 60), (0.63, 0.85, 0.85, 100), (0.63, 0.9, 0.9, 100),
        (0.7, 0.95, 0.75, 100),
        (0.92, 0.92, 0.08, 111), (0.92, 0.5, 0.5, 111), (0.63, 0.5, 0.5, 100), (0.63, 0.8, 0.2, 100),
        (0.63, 0.6, 0.6, 100), (0.98, 0.5, 0.5, 111), (0.98, 0.95, 0.6, 111),
    ):  # fmt: skip
        found = states(share, passes, catches, number, runs)
        shown = "  ".join(f"{name} {100 * found[name] / runs:5.1f} %" for name in ("valid", "open", "failed", "few"))
        print(
            f"  {share:.0%}  {passes:.0%}  {catches:.0%}  {number:4}   {shown}"
            f"   covers {100 * found['covers'] / runs:.1f} %"
        )
    print(f"Corrected numbers, 100 labels of 600 rows, {runs} runs: coverage of what is true of such rows / width")
    for how, mean, copies in (
        ("uniform", 0.7, 1), ("uniform", 0.5, 1), ("by-score", 0.7, 1), ("balanced", 0.7, 1), ("uniform", 0.7, 5),
        ("by-score", 0.7, 5),
    ):  # fmt: skip
        covers, width = coverage_of_numbers(how, mean, runs, copies=copies)  # type: ignore[arg-type]
        print(f"  {how}, mean {mean:g}, copies {copies}: {100 * covers:.1f} % / {100 * width:.1f}")


if __name__ == "__main__":
    main()
