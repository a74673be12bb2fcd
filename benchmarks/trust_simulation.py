"""Whether corrected scores cover, noise is told from change, drift is found and stopping is right: simulated.

Run: ``python -m benchmarks.trust_simulation [--runs 600]``. Each line stands beside what the design expects; with 600
runs a coverage of 95 % is known to 1.8 points. All worlds are drawn anew from fixed seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from leadline.tasks.analyse.statistics import clopper_pearson
from leadline.tasks.trust.correction import PassFailLabels, post_stratified, prediction_powered
from leadline.tasks.trust.early_stopping import log_wealth
from leadline.tasks.trust.judge_drift import repeated_verdict_drift, verdict_drift
from leadline.tasks.trust.judge_noise import net_rate, pair_noise

ROWS: Final = 2_000
NOISY: Final = 0.2
"""Share of rows on which a judge disagrees with itself."""


def _line(*cells: object) -> None:
    print("  ".join(f"{cell:>14}" if number else f"{cell:<34}" for number, cell in enumerate(cells)))


def _worlds(runs: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng((7, seed)) for seed in range(runs))


def corrections(runs: int) -> None:
    """Print how often intervals of a corrected share hold the truth, and how wide they are."""
    print(f"\nCorrected shares: coverage / width in points, {ROWS:,} rows judged, {runs} runs")
    _line("share, accuracy, labels", "judge alone", "PPI++ (t)", "post-strat.", "expected")
    for share, right, labels, expected in (
        (0.7, (0.8, 0.8), 50, "95 / 20.9"),
        (0.7, (0.9, 0.9), 50, "96 / 18.1"),
        (0.7, (0.9, 0.9), 100, "95 / 12.5"),
        (0.7, (0.9, 0.9), 200, "94 / 8.9"),
        (0.95, (0.9, 0.9), 50, "94 / 12.0"),
        (0.95, (0.9, 0.9), 100, "97 / 8.0"),
        (0.9, (0.97, 0.6), 100, "96 / 9.9"),
    ):
        hits, widths = np.zeros(3), np.zeros(3)
        for draw in _worlds(runs):
            truth = draw.random(ROWS) < share
            judge = np.where(truth, draw.random(ROWS) < right[0], draw.random(ROWS) > right[1])
            rows = draw.choice(ROWS, labels, replace=False)
            good, passed = truth[rows], judge[rows]
            counts = PassFailLabels(
                int((good & passed).sum()), int(passed.sum()), int((good & ~passed).sum()), int((~passed).sum()),
                int(judge.sum()), ROWS,
            )  # fmt: skip
            rest = np.delete(judge, rows).astype(float)
            powered = prediction_powered(good.astype(float), passed.astype(float), rest)
            post = post_stratified(counts)
            assert powered is not None
            alone = clopper_pearson(judge.mean(), ROWS)
            for place, (low, high) in enumerate((alone, (powered.low, powered.high), (post.low, post.high))):
                hits[place] += low <= share <= high
                widths[place] += high - low
        shown = [f"{100 * hit / runs:.0f} / {100 * width / runs:.1f}" for hit, width in zip(hits, widths, strict=True)]
        _line(f"{share:.0%}, {right[0]:g} and {right[1]:g}, {labels}", *shown, expected)


def _chances(draw: np.random.Generator, rows: int) -> np.ndarray:
    """Return the chances that a judge passes each row, some of which it is not sure of."""
    unsure = draw.random(rows) < NOISY
    return np.where(unsure, draw.beta(0.8, 0.8, rows), (draw.random(rows) < 0.7).astype(float))


def noise(runs: int, pairs: int = 300) -> None:
    """Print how often the net rate of changes covers, and how often noise alone is taken for change."""
    print(f"\nChanges net of noise, {pairs} pairs, {runs} runs: coverage / width in points / shown as change")
    _line("changed copies", "flips alone", "two trials", "two-phase", "extra calls", "expected (two-phase)")
    for changed, expected in ((0.0, "95 / 3.5 / 3 %"), (0.03, "94 / 5.1 / 57 %"), (0.1, "96 / 7.3 / 100 %")):
        found, flips, calls = np.zeros((2, 3)), 0.0, 0.0
        for draw in _worlds(runs):
            p = _chances(draw, pairs)
            q = np.where(draw.random(pairs) < changed, 1 - p, p)
            ones = (draw.random((pairs, 2)) < p[:, None]).astype(float)
            others = (draw.random((pairs, 2)) < q[:, None]).astype(float)
            flipped = ones[:, 0] != others[:, 0]
            chances = np.where(flipped, 1.0, 0.3)
            again = draw.random(pairs) < chances
            rates = (
                net_rate(pair_noise(ones, others), np.arange(pairs)),
                net_rate(
                    pair_noise(ones[again], others[again]), np.flatnonzero(again), chances[again], all_pairs=pairs
                ),
            )
            truth = ((p - q) ** 2).mean()
            flips += flipped.mean()
            calls += 2 * again.sum()
            for place, rate in enumerate(rates):
                assert rate is not None
                found[place] += (rate.low <= truth <= rate.high, rate.high - rate.low, rate.changed)
        shown = [f"{100 * hit:.0f} / {100 * width:.1f} / {100 * told:.0f} %" for hit, width, told in found / runs]
        _line(f"{changed:.0%}", f"{100 * flips / runs:.1f} %", *shown, f"{calls / runs:.0f}", expected)


def drift(runs: int, days: int = 30) -> None:
    """Print how often a judge that changed is found, and one that did not is suspected."""
    print(f"\nDrift in two steps (p ≤ 0.01, then p ≤ 0.001 of as many replies again), {days} days, {runs} runs")
    _line("probes, replies, changed", "first day", f"in {days} days", "expected (one step)")
    for probes, replies, changed, expected in (
        (100, 4, 0.0, "1 / 2 %"),
        (100, 4, 0.05, "54 / 69 %"),
        (100, 4, 0.1, "96 / 98 %"),
        (100, 4, 0.2, "100 / 100 %"),
        (50, 4, 0.1, "74 / 79 %"),
    ):
        alarms = np.zeros(days)
        for draw in _worlds(runs):
            p = _chances(draw, probes)
            q = np.where(draw.random(probes) < changed, 1 - p, p)
            enrolled = (draw.random((probes, replies)) < p[:, None]).astype(int)
            for day in range(days):
                if verdict_drift(enrolled, (draw.random(probes) < q).astype(int)).p > 0.01:
                    continue
                again = (draw.random((probes, replies)) < q[:, None]).astype(int)
                if repeated_verdict_drift(enrolled, again).p <= 0.001:
                    alarms[day:] += 1
                    break
        shown = [f"{100 * alarms[day] / runs:.1f} %" for day in (0, days - 1)]
        _line(f"{probes}, {replies}, {changed:.0%}", *shown, expected)


def stopping(runs: int, threshold: float = 0.75, looks: int = 20) -> None:
    """Print how many rows a gate needs, and how often it decides wrongly."""
    print(f"\nGate at {threshold}, {looks} looks, {runs} runs: rows judged / wrong decisions")
    _line("rows, mean less threshold", "e-processes", "looking at 95 % intervals", "expected")
    enough = math.log(20)
    for rows, ahead, expected in (
        (2_000, 0.0, "98 % / 2.3 %"),
        (2_000, 0.02, "71 % / 0.3 %"),
        (500, 0.05, "56 % / 0 %"),
        (2_000, 0.05, "31 % / 0 %"),
        (2_000, 0.15, "5 % / 0 %"),
        (10_000, 0.05, "11 % / 0 %"),
    ):
        judged, wrong = np.zeros(2), np.zeros(2)
        good = round((threshold + ahead) * rows)
        for draw in _worlds(runs):
            values = draw.permutation((np.arange(rows) < good).astype(float))
            above, below = log_wealth(values, threshold, rows), log_wealth(1 - values, 1 - threshold, rows)
            for place in range(2):
                for look in range(1, looks + 1):
                    seen = rows * look // looks
                    if place == 0:
                        decided = above[:seen].max() >= enough, below[:seen].max() >= enough
                    else:
                        low, high = clopper_pearson(values[:seen].mean(), seen)
                        decided = low >= threshold, high < threshold
                    if any(decided):
                        break
                judged[place] += seen / rows
                wrong[place] += seen < rows and (decided[1] if good >= threshold * rows else decided[0])
        shown = [
            f"{100 * part:.0f} % / {100 * bad:.1f} %" for part, bad in zip(judged / runs, wrong / runs, strict=True)
        ]
        _line(f"{rows:,}, {ahead:+.2f}", *shown, expected)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    runs = parser.parse_args().runs
    corrections(runs)
    noise(runs)
    drift(runs)
    stopping(runs)


if __name__ == "__main__":
    main()
