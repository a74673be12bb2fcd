"""Whether corrected scores cover, noise is told from change, drift is found and stopping is right: simulated.

Run: ``python -m benchmarks.trust_simulation [--runs 600]``. Each line stands beside what the design expects; with 600
runs a coverage of 95 % is known to 1.8 points. All worlds are drawn anew from fixed seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np

from leadline.tasks.compare.run_changes import CHANGE_LEVEL, LAST_CONFIDENCE
from leadline.tasks.statistics.judge_stability import (
    CERTAIN,
    POOLED_CHECKS,
    SUSPICIOUS,
    net_of_sample,
    net_rate,
    pair_noise,
    verdict_drift,
)
from leadline.tasks.statistics.label_correction import PassFailLabels, post_stratified, prediction_powered
from leadline.tasks.statistics.paired import PairedSeries, measure
from leadline.tasks.statistics.statistics import clopper_pearson
from leadline.tasks.stopping.looks import GateQuestion, Seen, judge_evidence
from leadline.tasks.stopping.waves import number_of_waves

ROWS: Final = 2_000
_Decided: TypeAlias = tuple[float, str]
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


def _disagreeing(draw: np.random.Generator, trials: np.ndarray, rows: int) -> int:
    """Return how many of some rows drawn at random have two different trials."""
    drawn = trials[draw.choice(len(trials), rows, replace=False)]
    return int((drawn[:, 0] != drawn[:, 1]).sum())


def noise(runs: int, pairs: int = 300) -> None:
    """Print how often the net rate of changes covers, and how often noise alone is taken for change."""
    print(f"\nChanges net of noise, {pairs} pairs, {runs} runs: coverage / width in points / shown as change")
    headings = "flips alone", "two trials", "two-phase", "200 rows again", "extra calls", "expected (two-phase)"
    _line("changed copies", *headings)
    for changed, expected in ((0.0, "95 / 3.5 / 3 %"), (0.03, "94 / 5.1 / 57 %"), (0.1, "96 / 7.3 / 100 %")):
        found, flips, calls = np.zeros((3, 3)), 0.0, 0.0
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
                net_rate(pair_noise(ones, others), np.arange(pairs), np.where(again, 1 / chances, 0.0)),
                net_of_sample(flipped.sum(), pairs, _disagreeing(draw, np.concatenate([ones, others]), 200), 200),
            )
            truth = ((p - q) ** 2).mean()
            flips += flipped.mean()
            calls += 2 * again.sum()
            for place, rate in enumerate(rates):
                assert rate is not None
                found[place] += (rate.low <= truth <= rate.high, rate.high - rate.low, rate.changed)
        shown = [f"{100 * hit:.0f} / {100 * width:.1f} / {100 * told:.0f} %" for hit, width, told in found / runs]
        _line(f"{changed:.0%}", f"{100 * flips / runs:.1f} %", *shown, f"{calls / runs:.0f}", expected)


def drift(runs: int, days: int = 365) -> None:
    """Print how often a judge that changed is found, and one that did not is suspected or said to have changed.

    A check is suspicious where the p-value of its own replies, or of those of the last four checks together, is at
    most 0.01; then as many replies as at enrolment are asked for, and those alone decide at 0.001.
    """
    print(f"\nDrift in two steps, {runs} runs")
    _line("probes, replies, changed", "first day", "in 7 days", "in 30 days", f"in {days} days", "asked twice, days")
    for probes, replies, changed, until in (
        (100, 4, 0.0, days),
        (50, 4, 0.0, days),
        (100, 4, 0.05, 30),
        (100, 4, 0.1, 30),
        (100, 4, 0.2, 30),
        (50, 4, 0.1, 30),
    ):
        alarms, again_days = np.zeros(days), 0
        for draw in _worlds(runs):
            p = _chances(draw, probes)
            q = np.where(draw.random(probes) < changed, 1 - p, p)
            enrolled = (draw.random((probes, replies)) < p[:, None]).astype(int)
            checks: list[np.ndarray] = []
            for day in range(until):
                checks.append((draw.random(probes) < q).astype(int))
                pooled = np.column_stack(checks[-POOLED_CHECKS:])
                if (
                    verdict_drift(enrolled, checks[-1]).p > SUSPICIOUS
                    and verdict_drift(enrolled, pooled).p > SUSPICIOUS
                ):
                    continue
                again_days += 1
                again = (draw.random((probes, replies)) < q[:, None]).astype(int)
                if verdict_drift(enrolled, again).p <= CERTAIN:
                    alarms[day:] += 1
                    break
        shown = [f"{100 * alarms[day - 1] / runs:.1f} %" if day <= until else "" for day in (1, 7, 30, days)]
        _line(f"{probes}, {replies}, {changed:.0%}", *shown, f"{again_days / runs:.1f}" if not changed else "")


def stopping(runs: int, threshold: float = 0.75, looks: int = 20) -> None:
    """Print how many rows a gate needs, and how often what it decides at a look is wrong."""
    print(f"\nGate at {threshold}, {looks} looks, {runs} runs: rows judged / wrong decisions")
    _line("rows, mean less threshold", "e-processes", "looking at 95 % intervals", "expected")
    question = GateQuestion(0, 0, "", True, threshold, threshold, 1, 0.0)
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
            one = np.ones(rows)
            for place in range(2):
                for look in range(1, looks + 1):
                    seen = rows * look // looks
                    if place == 0:
                        look = judge_evidence([question], [_seen(values, one, seen, rows, 1)])
                        decided = look.decision == "pass", look.decision == "fail"
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


def _first_decision(questions: list[GateQuestion], looks: Iterator[tuple[float, list[Seen]]], level: float) -> _Decided:
    """Return the share judged and the decision of the first look that decides; all and ``open`` if none does."""
    for share, seen in looks:
        look = judge_evidence(questions, seen, level=level)
        if look.decision != "open":
            return share, look.decision
    return 1.0, "open"


def _seen(good: np.ndarray, counts: np.ndarray, clusters: int, all_clusters: int | None, largest: int) -> Seen:
    none = np.zeros(clusters)
    return Seen(good[:clusters], counts[:clusters], none, none, all_clusters, largest)


def gate_of_copies(runs: int, threshold: float = 0.75, clusters: int = 500, metrics: int = 4) -> None:
    """Print how often a gate of several metrics is decided wrongly where cases have copies, in the waves of a run."""
    print(f"\nGate of {metrics} metrics at {threshold}, {clusters} cases of 1 to 7 copies, {runs} runs")
    _line("means less threshold", "judged", "PASS", "FAIL", "expected")
    parts, first = number_of_waves(clusters)
    ends = [clusters * (wave + 1) // parts for wave in range(first - 1, parts - 1)]
    questions = [GateQuestion(0, 0, "", True, threshold, threshold, 1, 0.0) for _ in range(metrics)]
    for ahead, expected in ((0.0, "wrong in at most 5 %"), (0.05, "PASS"), (0.15, "PASS"), (-0.15, "FAIL")):
        judged, told = 0.0, {"pass": 0, "fail": 0, "open": 0}
        for draw in _worlds(runs):
            sizes = draw.integers(1, 8, clusters).astype(float)
            goods = []
            for _ in range(metrics):
                chance = np.where(
                    draw.random(clusters) < threshold + ahead, 0.98, 0.02
                )  # copies stand and fall together
                good = draw.binomial(sizes.astype(int), chance).astype(float)
                goods.append(_brought_to(good, sizes, threshold + ahead, draw))
            share, decision = _first_decision(
                questions,
                ((end / clusters, [_seen(good, sizes, end, clusters, 7) for good in goods]) for end in ends),
                0.05,
            )
            judged += share
            told[decision] += 1
        shown = (f"{100 * told[name] / runs:.1f} %" for name in ("pass", "fail"))
        _line(f"{ahead:+.2f}", f"{100 * judged / runs:.0f} %", *shown, expected)


def _brought_to(good: np.ndarray, sizes: np.ndarray, mean: float, draw: np.random.Generator) -> np.ndarray:
    """Return the sums of clusters changed, row by row, until the mean of all rows is as wanted."""
    wanted = round(mean * float(sizes.sum()))
    while (missing := wanted - int(good.sum())) != 0:
        room = np.flatnonzero(good < sizes if missing > 0 else good > 0)
        chosen = draw.choice(room, min(abs(missing), len(room)), replace=False)
        good[chosen] += np.sign(missing)
    return good


def comparison(runs: int, rows: int = 1_000, margin: float = 0.05) -> None:
    """Print how soon a comparison is decided, with the ordinary verdict at its end, and what it says."""
    print(f"\nComparison of {rows:,} cases, margin {margin}, 20 % of cases change, {runs} runs: judged / PASS / FAIL")
    _line("true effect", "judged", "PASS", "FAIL", "expected")
    limit = (1 - margin) / 2
    question = GateQuestion(0, 0, "", False, limit, limit, 1, 0.0)
    parts, first = number_of_waves(rows)
    ends = [rows * (wave + 1) // parts for wave in range(first - 1, parts - 1)]
    for effect, expected in (
        (margin, "29 / 100 / 0"),
        (0.0, "80 / 90 / 0"),
        (-margin, "100 / 1.3 / 1.0"),
        (-2 * margin, "78 / 0 / 91"),
        (-3 * margin, "25 / 0 / 100"),
    ):
        judged, told = 0.0, {"pass": 0, "fail": 0, "open": 0}
        for draw in _worlds(runs):
            changes = draw.random(rows) < 0.2
            differences = np.where(changes, np.where(draw.random(rows) < (1 + effect / 0.2) / 2, 1.0, -1.0), 0.0)
            good = (differences + 1) / 2
            share, decision = _first_decision(
                [question], ((end / rows, [_seen(good, np.ones(rows), end, None, 1)]) for end in ends), CHANGE_LEVEL
            )
            if decision == "open":
                found = measure(PairedSeries(differences, width=1.0, binary=True), confidence=LAST_CONFIDENCE).interval
                assert found is not None
                decision = "pass" if found.low > -margin else "fail" if found.high < -margin else "open"
            judged += share
            told[decision] += 1
        shown = (f"{100 * told[name] / runs:.1f} %" for name in ("pass", "fail"))
        _line(f"{effect:+.2f}", f"{100 * judged / runs:.0f} %", *shown, expected)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    runs = parser.parse_args().runs
    corrections(runs)
    noise(runs)
    drift(runs)
    stopping(runs)
    gate_of_copies(runs)
    comparison(runs)


if __name__ == "__main__":
    main()
