"""Insights on which model to choose: by the policy's checks, and against what its answers cost and how long they take.

An answer is *sound* if it passes every check that the policy counts: the threshold of each metric that must or should
be good. The share of sound answers compares models in one number that a reader can picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import count, listing, nouns, percent
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.analyse.findings.finding import Finding
from leadline.tasks.db import records, sql
from leadline.tasks.statistics.statistics import Differences, Interval, Sample, clopper_pearson, differ, mean_interval

if TYPE_CHECKING:
    from leadline.tasks.analyse.findings.finding import RunView

RECOMMENDATION: Final = "recommendation"
"""Type of the insight that says which model to choose; it stands first."""
MOST_EXAMPLES: Final = 20
"""Rows that an insight on models links to."""
NOTABLE: Final = 1.2
"""Ratio of two models' cost or time from which it is worth a sentence."""

Spent: TypeAlias = Literal["cost_usd", "duration_s"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A model by the checks of the policy.

    Attributes:
        n: Its answers that some check could judge.
        n_sound: Those that pass every check.
        interval: Interval of their share.
        blocking: Its problems of high severity.
    """

    model_id: int
    n: int
    n_sound: int
    interval: Interval
    blocking: int

    @property
    def share(self) -> float:
        """Share of sound answers."""
        return self.n_sound / self.n


@dataclass(frozen=True)
class Contest:
    """The models of a run compared by the share of sound answers."""

    view: RunView

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """The models that some check could judge: those without problems of high severity first, then the better."""
        connection = self.view.connection
        connection.register("families", perturbation_clusters(connection))
        connection.execute(sql("insights/sound_rows"))
        connection.unregister("families")
        found = [
            Standing(
                line["model_id"],
                line["n"],
                line["n_sound"],
                Interval(*clopper_pearson(line["n_sound"] / line["n"], line["n_cases"]), "exact"),
                line["blocking"],
            )
            for line in records(connection, sql("insights/standings"))
        ]
        return tuple(sorted(found, key=lambda one: (one.blocking > 0, -one.share, one.model_id)))

    @cached_property
    def pairs(self) -> dict[tuple[int, int], Differences]:
        """The differences of two models on the cases that both answered."""
        leaders = [one.model_id for one in self.standings[:8]]
        lines = records(self.view.connection, sql("insights/sound_pairs"), {"leaders": leaders})
        return {(line.pop("leader"), line.pop("model_id")): Differences(**line) for line in lines}

    def distinct(self, one: Standing, other: Standing) -> bool:
        """Return whether two models differ by more than chance: on their common cases, else by their intervals."""
        pairs = self.pairs.get((one.model_id, other.model_id)) or self.pairs.get((other.model_id, one.model_id))
        if pairs is not None and pairs.n >= min(one.n, other.n) / 2:
            return differ(pairs, comparisons=max(1, len(self.standings) - 1))
        return one.interval.low > other.interval.high or other.interval.low > one.interval.high

    def name(self, one: Standing) -> str:
        """Return the name of a model."""
        return self.view.model_name(one.model_id)

    def named(self, several: Sequence[Standing]) -> str:
        """Return the names of models with their shares."""
        return listing((f"{self.name(one)} ({percent(one.share)})" for one in several), most=4)


def recommendation(view: RunView) -> Iterator[Finding]:
    """Yield in one sentence which model to choose by the policy, and whether chance could have put it first."""
    contest = Contest(view)
    every = contest.standings
    if len(every) < 2:
        return
    ready = [one for one in every if not one.blocking]
    field = ready or list(every)
    best, *others = field
    alike = [one for one in others if not contest.distinct(best, one)]
    worse = [one for one in others if one not in alike]
    yield view.finding(
        type=RECOMMENDATION,
        harm=math.inf,
        description=_sentence(contest, best, alike, worse, ready),
        actions=_advice(bool(ready), bool(alike)),
        row_ids=_failing(view, best),
        model_id=None if alike else best.model_id,
        candidates=[contest.name(one) for one in (best, *alike)],
        ready=[contest.name(one) for one in ready],
        sound_shares={contest.name(one): one.share for one in every},
    )


def _sentence(
    contest: Contest, best: Standing, alike: Sequence[Standing], worse: Sequence[Standing], ready: Sequence[Standing]
) -> str:
    every = contest.standings
    blocked = [one for one in every if one.blocking]
    behind = f", surely more than of {contest.named(worse)}" if worse else ""
    if alike:
        sentence = f"{_candidates(contest, [best, *alike], bool(ready))}{behind}{_cheapest(contest, [best, *alike])}"
    else:
        noun = contest.view.noun
        share = (
            f"{percent(best.share)} of its {noun}s pass every check of the policy ({count(best.n, noun)}"
            f"{_range(best.interval)})"
        )
        head = f"Ship {contest.name(best)}" if ready else f"None is ready to ship; {contest.name(best)} comes nearest"
        sentence = f"{head}: {share}{behind}"
    if ready and blocked:
        names = listing((contest.name(one) for one in blocked), most=4)
        sentence += f"; {names} {nouns(len(blocked), 'has', 'have')} problems of high severity"
    elif blocked:
        sentence += f"; {'both' if len(blocked) == 2 else f'all {len(blocked)}'} have problems of high severity"
    return f"{sentence}."


def _candidates(contest: Contest, together: Sequence[Standing], ready: bool) -> str:
    """Return a clause on models that cannot be told apart, with the shares of their answers that pass every check."""
    if len(together) == len(contest.standings) > 2 or len(together) > 4:
        low, high = min(one.share for one in together), max(one.share for one in together)
        who = f"{'all' if len(together) == len(contest.standings) else 'the best'} {len(together)} models"
        shares = f"{percent(low)} to {percent(high)}" if percent(low) != percent(high) else percent(low)
    else:
        who = listing(map(contest.name, together))
        shares = listing(dict.fromkeys(percent(one.share) for one in together))
    head = f"Choose between {who} by other needs" if ready else f"None is ready to ship; nearest come {who}"
    passing = f"{head}: {shares} of their {contest.view.noun}s pass every check of the policy"
    if len({one.share for one in together}) == 1:
        return passing
    difference = "a difference that may be chance" if len(together) == 2 else "differences that may be chance"
    return f"{passing}, {difference}"


def _cheapest(contest: Contest, together: Sequence[Standing]) -> str:
    """Return a clause on the cheapest and the fastest of models that cannot be told apart."""
    spending = _spending(contest.view)
    found = []
    words = ("cheapest", "fastest") if len(together) > 2 else ("cheaper", "faster")
    for what, word in zip(("cost_usd", "duration_s"), words, strict=True):
        spent = {one: value for one in together if (value := spending.get(one.model_id, {}).get(what))}
        if len(spent) == len(together) and max(spent.values()) >= NOTABLE * min(spent.values()):
            found.append((contest.name(min(spent, key=spent.__getitem__)), word))
    if not found:
        return ""
    if len(found) == 2 and found[0][0] == found[1][0]:
        return f"; {found[0][0]} is the {' and '.join(words)} of them"
    return "".join(f"; {name} is the {word} of them" for name, word in found)


def _advice(ready: bool, alike: bool) -> str:
    if not ready:
        return "Mend the problems of high severity first, then run again."
    if alike:
        return "Take the cheaper or faster one, or add cases that set them apart."
    return "Read the answers that still fail a check before shipping."


def _failing(view: RunView, one: Standing) -> list[int]:
    """Return rows of a model that are not sound."""
    params = {"model": one.model_id, "most": MOST_EXAMPLES}
    return [line["row_id"] for line in records(view.connection, sql("insights/unsound"), params)]


# Against cost and time


def trade_offs(view: RunView) -> Iterator[Finding]:
    """Yield for cost and for time which models are worth considering: none is better without spending more."""
    contest = Contest(view)
    spending = _spending(view)
    for what, words in (("cost_usd", ("cost", "cheaper")), ("duration_s", ("time", "faster"))):
        points = [one for one in contest.standings if spending.get(one.model_id, {}).get(what)]
        spent = {one.model_id: float(spending[one.model_id][what]) for one in points}
        if len(points) > 1 and max(spent.values()) >= NOTABLE * min(spent.values()):
            yield _trade_off(contest, points, spending, what, words)


def _spending(view: RunView) -> dict[int, dict[str, Any]]:
    return {line["model_id"]: line for line in records(view.connection, sql("insights/spending"))}


def _trade_off(
    contest: Contest,
    points: Sequence[Standing],
    spending: Mapping[int, Mapping[str, Any]],
    what: Any,
    words: tuple[str, str],
) -> Finding:
    view = contest.view
    spent = {one.model_id: float(spending[one.model_id][what]) for one in points}
    ordered = sorted(points, key=lambda one: (spent[one.model_id], -one.share))
    front: list[Standing] = []
    for one in ordered:
        if not front or one.share > front[-1].share:
            front.append(one)
    shown = {
        one.model_id: f"{contest.name(one)} ({percent(one.share)}{_range(one.interval)}; "
        f"{_amount(spent[one.model_id], what, contest.view.noun)})"
        for one in points
    }
    noun, adjective = words
    if len(front) == 1:
        rest = listing((shown[one.model_id] for one in ordered[1:]), most=4)
        text = f"{shown[front[0].model_id]} passes every check most often and is {adjective} than all others: {rest}."
        advice = "Nothing is to be traded: prefer it."
    else:
        names = listing((shown[one.model_id] for one in front), most=5)
        text = (
            f"{contest.view.noun.capitalize()}s that pass every check, against {noun}: worth considering are {names}."
        )
        text += _steps(contest, front, spent)
        off = [one for one in points if one not in front]
        if off:
            text += f" Another is at least as good and {adjective} than {listing(map(contest.name, off), most=4)}."
        advice = f"Choose by what a better {contest.view.noun} is worth against {noun}."
    return view.finding(
        type="trade-off",
        harm=0.9 if what == "cost_usd" else 0.8,
        description=text,
        actions=advice,
        row_ids=_failing(view, front[-1]),
        spent=what,
        front=[contest.name(one) for one in front],
        points=[
            {
                "model_name": contest.name(one),
                "sound_share": one.share,
                "sound_low": one.interval.low,
                "sound_high": one.interval.high,
                "mean": spent[one.model_id],
                **_spent_interval(spending[one.model_id], what),
            }
            for one in ordered
        ],
    )


def _range(interval: Interval) -> str:
    return f", 95 % interval {percent(interval.low)} to {percent(interval.high)}"


def _steps(contest: Contest, front: Sequence[Standing], spent: Mapping[int, float]) -> str:
    """Return what the best costs against the next cheaper one on the front, and whether it surely is better."""
    best, next_one = front[-1], front[-2]
    ratio = spent[best.model_id] / spent[next_one.model_id]
    times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")
    if not contest.distinct(best, next_one):
        return (
            f" {contest.name(best)} takes {times} times as much as {contest.name(next_one)} and is not surely better."
        )
    points = f"{100 * (best.share - next_one.share):.0f}"
    return f" {contest.name(best)} has {points} points more than {contest.name(next_one)} for {times} times as much."


def _spent_interval(line: Mapping[str, Any], what: Spent) -> dict[str, float | None]:
    n, std = line[f"{what}_n"], line[f"{what}_std"]
    if n < 2 or std is None:
        return {"low": None, "high": None}
    squares = std * std * (n - 1)
    cubes = (line[f"{what}_skewness"] or 0.0) * squares * math.sqrt(squares / n)
    found = mean_interval(
        Sample(n=n, mean=line[what], squares=squares, cubes=cubes, constant=std == 0, low=0.0, high=math.inf)
    )
    return {"low": found.low, "high": found.high} if found else {"low": None, "high": None}


def _amount(value: float, what: Spent, noun: str) -> str:
    """Return a mean in words; costs are so small that they are given per thousand answers or conversations."""
    return f"{1000 * value:.3g} USD per 1,000 {noun}s" if what == "cost_usd" else f"{value:.3g} s per {noun}"


def dearest_and_slowest(view: RunView) -> Iterator[Finding]:
    """Yield the slowest and the dearest model, with the answers that took and cost most."""
    spending = _spending(view)
    for what, words, type_ in (
        ("duration_s", ("slowest", "fastest"), "performance"),
        ("cost_usd", ("dearest", "cheapest"), "cost"),
    ):
        means = {model: line[what] for model, line in spending.items() if line[what] and model in view.models}
        if not means:
            continue
        top, low = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        line, ratio = spending[top], means[top] / means[low]
        tail = line[f"{what}_p95"] / line[f"{what}_p50"] if line[f"{what}_p50"] else 1.0
        if ratio < NOTABLE and not (tail >= 2 and line[f"{what}_n"] >= 20):
            continue
        yield _spender(view, what, words, type_, (top, low), line)


def _spender(
    view: RunView, what: Any, words: tuple[str, str], type_: str, ends: tuple[int, int], line: Mapping[str, Any]
) -> Finding:
    top, low = ends
    mean, other, half, most = (
        _amount(value, what, view.noun)
        for value in (line[what], _spending(view)[low][what], line[f"{what}_p50"], line[f"{what}_p95"])
    )
    if top == low:
        text = f"The {view.noun}s of {view.model_name(top)} take {mean} on average"
    else:
        text = f"{view.model_name(top)} is the {words[0]} model: {mean} on average, against {other} of "
        text += f"{view.model_name(low)}, the {words[1]}"
    if line[f"{what}_n"] >= 20 and line[f"{what}_p50"] < line[f"{what}_p95"]:
        text += f"; half of its {view.noun}s stay within {half}, one in twenty is above {most}"
    elif line[f"{what}_n"] >= 20 and line[f"{what}_p95"] < line[what]:
        text += f"; nearly all of its {view.noun}s stay within {most}"
    rows = records(view.connection, sql("insights/most_spent").format(what=what), {"model": top, "most": 10})
    return Finding(
        type=type_,
        harm=0.2,
        model_id=top,
        description=f"{text}.",
        actions=f"Look at the {view.noun}s named: long contexts, long answers and retries are the usual causes.",
        attrs=view.attrs(model_id=top)
        | {f"{words[0]}_model_name": view.model_name(top), f"{words[1]}_model_name": view.model_name(low)}
        | {name: line[name] for name in (what, f"{what}_p50", f"{what}_p95")},
        row_ids=[each["row_id"] for each in rows],
    )
