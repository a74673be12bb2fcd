"""Coverage of the aggregates' 95 % intervals, and error rates and power of comparisons, by simulation.

    python -m benchmarks.coverage [--draws 4000] [--only means|copies|passes|compare|cases]

Prints the tables of docs/mechanisms/statistics.md. Of each setting, datasets with a known truth are drawn; a cell says
how often the interval contains it and, in brackets, how often it lies wholly above and wholly below: first Student's,
mean plus or minus t · s / √n (with clusters that of Cameron and Miller), then the one that aggregates have. "width" is
the mean width of the latter over that of the former, where the former contains the truth often enough.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from leadline.tasks.compare.verdicts import VerdictQuestion, judge
from leadline.tasks.statistics.paired import PairedResult, PairedSeries, cases_to_decide, measure
from leadline.tasks.statistics.statistics import Clusters, Sample, clopper_pearson, mean_interval

Numbers = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Numbers]
"""Makes datasets, one a line: source of chance, datasets, rows."""


@dataclass(frozen=True)
class Population:
    """Values of rows whose mean is known."""

    name: str
    draw: Draw
    truth: float
    low: float = 0.0
    high: float = 1.0
    share: bool = False


def ones(chance: float) -> Draw:
    """Rows that are 1 with a chance, and anything from 0 to 1 else."""
    return lambda random, k, n: np.where(random.random((k, n)) < chance, 1.0, random.random((k, n)))


def thirds(random: np.random.Generator, k: int, n: int) -> Numbers:
    return random.choice([0, 0.33, 0.67, 1.0], p=[0.05, 0.05, 0.1, 0.8], size=(k, n))


def share(chance: float) -> Population:
    def draw(random: np.random.Generator, k: int, n: int) -> Numbers:
        return (random.random((k, n)) < chance).astype(np.float64)

    return Population(f"share {chance}", draw, chance, share=True)


MEANS = (
    Population("90 % ones, 10 % uniform", ones(0.9), 0.95),
    Population("98 % ones, 2 % uniform", ones(0.98), 0.99),
    Population("judge, thirds", thirds, 0.8 + 0.67 * 0.1 + 0.33 * 0.05),
    Population("beta(8, 1)", lambda random, k, n: random.beta(8, 1, (k, n)), 8 / 9),
    Population("beta(20, 0.5)", lambda random, k, n: random.beta(20, 0.5, (k, n)), 20 / 20.5),
    Population("uniform", lambda random, k, n: random.random((k, n)), 0.5),
    Population("beta(4, 2)", lambda random, k, n: random.beta(4, 2, (k, n)), 4 / 6),
    *(share(chance) for chance in (0.02, 0.1, 0.5, 0.9, 0.98, 0.99)),
    Population(
        "lognormal, no range", lambda random, k, n: random.lognormal(0, 1, (k, n)), math.exp(0.5), -math.inf, math.inf
    ),
)


@dataclass(frozen=True)
class Covered:
    """How often intervals contained the truth, and lay wholly above and below it, and their mean width."""

    above: float
    below: float
    width: float

    @property
    def inside(self) -> float:
        """How often the truth was inside."""
        return 1 - self.above - self.below

    def __str__(self) -> str:
        return f"{100 * self.inside:.1f} ({100 * self.above:.1f}, {100 * self.below:.1f})"


def covered(low: Numbers, high: Numbers, truth: float) -> Covered:
    tiny = 1e-12
    return Covered(float((low > truth + tiny).mean()), float((high < truth - tiny).mean()), float((high - low).mean()))


def student(values: Numbers, population: Population) -> Covered:
    n = values.shape[1]
    half = stdtrit(n - 1, 0.975) * values.std(axis=1, ddof=1) / math.sqrt(n)
    low, high = values.mean(axis=1) - half, values.mean(axis=1) + half
    return covered(np.maximum(low, population.low), np.minimum(high, population.high), population.truth)


def ours(values: Numbers, population: Population, sizes: npt.NDArray[np.int64] | None = None) -> Covered:
    """Measure the product's interval; rows of a cluster of ``sizes`` stand together."""
    ends = [mean_interval(sample) for sample in samples(values, population, sizes)]
    low, high = (np.array([getattr(end, name) if end else np.nan for end in ends]) for name in ("low", "high"))
    return covered(low, high, population.truth)


def samples(values: Numbers, population: Population, sizes: npt.NDArray[np.int64] | None) -> Iterator[Sample]:
    n = values.shape[1]
    mean = values.mean(axis=1)
    deviations = values - mean[:, None]
    squares, cubes = (deviations**2).sum(axis=1), (deviations**3).sum(axis=1)
    constant = values.min(axis=1) == values.max(axis=1)
    clusters: list[Clusters | None] = [None] * len(values)
    if sizes is not None:
        sums = np.add.reduceat(deviations, np.concatenate([[0], np.cumsum(sizes)[:-1]]), axis=1)
        influences, alone = sums * n / (n - sizes), deviations * n / (n - 1)
        second = (influences**2).sum(axis=1) - (alone**2).sum(axis=1)
        third = (influences**3).sum(axis=1) - (alone**3).sum(axis=1)
        joined, square = float(n - len(sizes)), float((sizes * sizes - sizes).sum())
        within = np.maximum(0.0, squares - (sums**2 / sizes).sum(axis=1))
        each = zip(second, third, within, strict=True)
        clusters = [Clusters(joined, square, float(a), float(b), float(c)) for a, b, c in each]
    for at in range(len(values)):
        yield Sample(
            n=n,
            mean=float(mean[at]),
            squares=float(squares[at]),
            cubes=float(cubes[at]),
            constant=bool(constant[at]),
            low=population.low,
            high=population.high,
            share=population.share,
            clusters=clusters[at],
        )


def means(draws: int, rows: tuple[int, ...] = (10, 30, 100, 300, 1000)) -> None:
    print("| rows |" + "".join(f" n = {n} |" for n in rows) + "\n|---|" + "---|" * len(rows))
    for population in MEANS:
        random = np.random.default_rng(1)
        cells = []
        for n in rows:
            values = population.draw(random, draws, n)
            before, after = student(values, population), ours(values, population)
            ratio = f", width {after.width / before.width:.2f}" if holds(before) else ""
            cells.append(f" {before} → {after}{ratio} |")
        print(f"| {population.name} |" + "".join(cells), flush=True)


def holds(found: Covered) -> bool:
    return found.inside >= 0.935 and max(found.above, found.below) <= 0.04


def copied(kind: str, groups: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return sizes of clusters: four each, one to ten, Pareto's, or singles with one large one or three."""
    if kind == "Pareto":
        return np.floor(random.pareto(1.2, groups) + 1).astype(np.int64)
    if kind == "one of 20":
        return np.concatenate([[20], np.ones(groups - 1, dtype=np.int64)])
    if kind == "three of 20":
        return np.concatenate([[20] * 3, np.ones(groups - 3, dtype=np.int64)])
    if kind == "four each":
        return np.full(groups, 4)
    if kind == "1 to 10":
        return random.integers(1, 11, groups)
    return np.concatenate([[groups - 1], np.ones(groups - 1, dtype=np.int64)])


def alike(
    random: np.random.Generator, population: Population, sizes: npt.NDArray[np.int64], correlation: float, draws: int
) -> Numbers:
    """Draw rows of which two of one cluster correlate; each takes the cluster's value or one of its own."""
    together = population.draw(random, draws, len(sizes)).repeat(sizes, axis=1)
    own = population.draw(random, draws, int(sizes.sum()))
    return np.where(random.random(own.shape) < math.sqrt(correlation), together, own)


EVEN = tuple((kind, groups) for kind in ("four each", "1 to 10", "one has half") for groups in (10, 30, 100))
UNEVEN = (("Pareto", 60), ("one of 20", 51), ("three of 20", 103))
"""Clusters that outweigh others, and their number."""

COPIED = (share(0.8), Population("mean, beta(8, 2)", lambda random, k, n: random.beta(8, 2, (k, n)), 0.8))


def cluster_student(values: Numbers, sizes: npt.NDArray[np.int64], truth: float) -> Covered:
    n, groups = values.shape[1], len(sizes)
    mean = values.mean(axis=1)
    sums = np.add.reduceat(values - mean[:, None], np.concatenate([[0], np.cumsum(sizes)[:-1]]), axis=1)
    half = stdtrit(groups - 1, 0.975) * np.sqrt(groups / (groups - 1) * (sums**2).sum(axis=1)) / n
    return covered(np.maximum(0, mean - half), np.minimum(1, mean + half), truth)


Drawn = tuple[Numbers, Population, npt.NDArray[np.int64]]
"""Values of some draws, of what, and the sizes of their clusters."""


def by_copies(heading: str, draws: int, sets: int, cell: Callable[[Sequence[Drawn]], str]) -> None:
    """Print a table by the sizes and correlation of clusters, each cell of as many sets of sizes."""
    print(f"| cases and copies | correlation | {heading} |\n|---|---|---|---|")
    for kind, groups in (*EVEN, *UNEVEN):
        for correlation in (0.0, 0.5, 1.0):
            random = np.random.default_rng(2)
            cells = []
            for population in COPIED:
                found = []
                for _ in range(sets):
                    sizes = copied(kind, groups, random)
                    values = alike(random, population, sizes, correlation, max(1, draws // sets))
                    found.append((values, population, sizes))
                cells.append(f" {cell(found)} |")
            print(f"| {groups}, {kind} | {correlation} |" + "".join(cells), flush=True)


def averaged(found: Iterable[Covered]) -> Covered:
    return Covered(*np.mean([(one.above, one.below, one.width) for one in found], axis=0))


def copies(draws: int) -> None:
    def cell(drawn: Sequence[Drawn]) -> str:
        before = averaged(cluster_student(values, sizes, 0.8) for values, _, sizes in drawn)
        after = averaged(ours(*one) for one in drawn)
        return f"{before} → {after}" + (f", width {after.width / before.width:.2f}" if holds(before) else "")

    by_copies("share 0.8 | mean 0.8", draws, 5, cell)


def passed(values: Numbers, population: Population, sizes: npt.NDArray[np.int64]) -> Covered:
    """Measure the interval of a pass share of 0.8, which has the effective number of rows of the mean."""
    limit = 1.0 if population.share else float(betaincinv(8, 2, 0.2))
    shares = (values >= limit).mean(axis=1)
    each = zip(shares, samples(values, population, sizes), strict=True)
    low, high = np.array([clopper_pearson(share, sample.effective) for share, sample in each]).T
    return covered(low, high, 0.8)


def passes_of_copies(draws: int) -> None:
    def cell(drawn: Sequence[Drawn]) -> str:
        return str(averaged(passed(*one) for one in drawn))

    by_copies("share 0.8 | beta(8, 2), of which 80 % pass", draws, 20, cell)


def lost(chance: float, loss: float, noise: float = 0.01) -> Draw:
    """Differences near 0, of which a few are a loss."""
    return lambda random, k, n: random.normal(0, noise, (k, n)) - loss * (random.random((k, n)) < chance)


def noisy(random: np.random.Generator, k: int, n: int) -> Numbers:
    noise = np.where(random.random((k, n)) < 0.2, random.normal(0, 0.1, (k, n)), 0.0)
    return noise - 0.5 * (random.random((k, n)) < 0.1)


def rare(random: np.random.Generator, k: int, n: int) -> Numbers:
    return np.where(random.random((k, n)) < 0.1, -random.random((k, n)), 0.0)


def changed(worse: float, better: float) -> Draw:
    return lambda random, k, n: random.choice([-1.0, 0.0, 1.0], p=[worse, 1 - worse - better, better], size=(k, n))


@dataclass(frozen=True)
class Candidate:
    """Differences of a candidate, the margin, and the width of the metric's range."""

    name: str
    draw: Draw
    margin: float = 0.05
    width: float = 1.0
    binary: bool = False


WORSE = (
    Candidate("jitter 0.01, 5 % lose 1", lost(0.05, 1.0)),
    Candidate("jitter 0.01, 2 % lose 1, margin 0.02", lost(0.02, 1.0), 0.02),
    Candidate("jitter 0.01, 10 % lose 0.5", lost(0.1, 0.5)),
    Candidate("noise in 20 %, 10 % lose 0.5", noisy),
    Candidate("10 % lose up to 1", rare),
    Candidate("noise 0.2", lambda random, k, n: random.normal(-0.05, 0.2, (k, n))),
    Candidate("pass/fail, 80 % → 75 %", changed(0.15, 0.10), binary=True),
    Candidate("pass/fail, 100 % → 95 %", changed(0.05, 0.0), binary=True),
    Candidate(
        "lognormal loss, no range",
        lambda random, k, n: -0.05 * random.lognormal(0, 1, (k, n)) / math.exp(0.5),
        width=math.inf,
    ),
)
"""Worse by exactly the margin, so that hardly any may pass."""

EQUAL = (
    Candidate("jitter 0.01", lambda random, k, n: random.normal(0, 0.01, (k, n))),
    Candidate("noise 0.1", lambda random, k, n: random.normal(0, 0.1, (k, n))),
    Candidate("noise 0.2", lambda random, k, n: random.normal(0, 0.2, (k, n))),
    Candidate("pass/fail, 2 % change", changed(0.01, 0.01), binary=True),
    Candidate("pass/fail, 13 % change", changed(0.065, 0.065), binary=True),
)
"""As good as the baseline, so that many should pass."""


def passes(candidate: Candidate, n: int, draws: int, seed: int = 3) -> float:
    """Return the share of comparisons whose whole interval is better than the margin."""
    random = np.random.default_rng(seed)
    found = 0
    for values in candidate.draw(random, draws, n):
        clipped = np.clip(values, -candidate.width, candidate.width)
        interval = measure(PairedSeries(clipped, None, candidate.width, candidate.binary), flips=1).interval
        found += interval is not None and interval.low >= -candidate.margin
    return found / draws


def compare(draws: int, rows: tuple[int, ...] = (20, 50, 100, 200)) -> None:
    for title, candidates in (("worse by the margin", WORSE), ("equally good", EQUAL)):
        print(f"| {title} |" + "".join(f" n = {n} |" for n in rows) + "\n|---|" + "---|" * len(rows))
        for candidate in candidates:
            cells = (f" {100 * passes(candidate, n, draws):.1f} |" for n in rows)
            print(f"| {candidate.name} |" + "".join(cells), flush=True)


NEEDED = (
    Candidate("noise 0.2, equal", lambda random, k, n: random.normal(0, 0.2, (k, n))),
    Candidate("pass/fail, equal, 13 % change", changed(0.065, 0.065), binary=True),
    Candidate("pass/fail, equal, 2 % change", changed(0.009, 0.009), binary=True),
    Candidate("pass/fail, 10 points worse", changed(0.14, 0.04), binary=True),
    Candidate("pass/fail, 15 points worse", changed(0.17, 0.02), binary=True),
)


def decided(candidate: Candidate, draws: int, seen: int = 40) -> tuple[float, list[float]]:
    """Return how often as many more cases as were asked for decide, and how many these were.

    Args:
        candidate: What is compared.
        draws: Number of comparisons that the cases seen left open.
        seen: Number of cases seen.
    """
    random = np.random.default_rng(4)
    found, asked = 0, []
    while len(asked) < draws:
        (values,) = candidate.draw(random, 1, seen)
        first = measure(PairedSeries(values, None, candidate.width, candidate.binary), flips=199)
        if verdict(first, candidate) != "inconclusive":
            continue
        needed = cases_to_decide(first, candidate.margin, 0.05)
        asked.append(needed or math.inf)
        if needed and needed < 20_000:
            (more,) = candidate.draw(random, 1, needed - seen)
            both = PairedSeries(np.concatenate([values, more]), None, candidate.width, candidate.binary)
            found += verdict(measure(both, flips=199), candidate) != "inconclusive"
        else:
            found += needed is not None
    return found / draws, asked


def cases(draws: int) -> None:
    print("| | decided | median of the cases asked for |\n|---|---|---|")
    for candidate in NEEDED:
        share, asked = decided(candidate, draws)
        print(f"| {candidate.name} | {100 * share:.0f} % | {np.median(asked):,.0f} |", flush=True)


def verdict(measured: PairedResult, candidate: Candidate) -> str:
    question = VerdictQuestion(measured, candidate.margin, 1.0, measured.effect, measured.effect)
    return judge([question], 0.05)[0].verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    tables = {"means": means, "copies": copies, "passes": passes_of_copies, "compare": compare, "cases": cases}
    parser.add_argument("--only", choices=tables)
    args = parser.parse_args()
    for name, table in tables.items():
        if args.only in (None, name):
            table(args.draws // 10 if name == "cases" else args.draws)
            print()


if __name__ == "__main__":
    main()
