"""Figures of agreement between evaluators and people, as trust cards."""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import leadline
from benchmarks.trust_sets import Answer, ComparedSet, LabelledSet, Preference
from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.selection import with_default_embedder
from leadline.tasks.publish.trust_cards import TrustCard
from leadline.tasks.statistics.agreement import agreement, bootstrap, spearman
from leadline.tasks.statistics.statistics import wilson

EXAMPLES: Final = 3
_SHOWN: Final = 90
"""Characters of an example."""

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """An evaluator's values of a set's answers.

    Attributes:
        evaluator: Its id.
        metric: Key of its primary metric.
        values: The values by answer, higher for better.
        raw: The values as the evaluator gives them.
        higher_is_better: Whether ``values`` and ``raw`` are the same.
        threshold: The metric's threshold, ``None`` if it has none.
        setting: Parameters and judge, where they are not the defaults, and the embedder.
    """

    evaluator: str
    metric: str
    values: Mapping[Answer, float]
    raw: Mapping[Answer, float]
    higher_is_better: bool
    threshold: float | None
    setting: str


@dataclass(frozen=True, slots=True)
class Access:
    """What the user has to measure with.

    Attributes:
        judge: Name of a judge, ``""`` without one.
        params: Parameters by evaluator.
    """

    judge: str
    params: Mapping[str, Mapping[str, Any]]


def today() -> str:
    """Return the day, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def card_of(evaluator: str, about: tuple[str, str], claim: str, **more: Any) -> TrustCard:
    """Return a card of an evaluator in its present version.

    Args:
        evaluator: Its id.
        about: Name and licence of the set.
        claim: What people said.
        **more: Further fields of the card.
    """
    plain = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in more.items()}
    version = get(evaluator).spec.version
    return TrustCard(evaluator, version, claim, data=about[0], licence=about[1], measured=today(), **plain)


def share_in_groups(hits: Bools, groups: Sequence[str]) -> tuple[float, float, float]:
    """Return a share with Wilson's 95 % interval, on as many items as those in groups are worth.

    Items of one group err together: their number is divided by the design effect, the ratio of the variance between
    groups to that of independent items. Where all or none hit, a group is worth one item.

    Args:
        hits: Whether each item hit, at least one item.
        groups: Group of each item.
    """
    share, n = float(hits.mean()), len(hits)
    index = np.unique(list(groups), return_inverse=True)[1]
    if share in (0.0, 1.0):
        return share, *wilson(share, float(index.max() + 1))
    size = np.bincount(index)
    residual = np.bincount(index, weights=hits.astype(float)) - share * size
    between = float((residual**2).sum()) / n**2 * len(size) / max(1, len(size) - 1)
    effect = max(1.0, between / (share * (1 - share) / n))
    return share, *wilson(share, n / effect)


def run(evaluators: Sequence[str], rows: Sequence[Mapping[str, Any]], access: Access) -> dict[str, Measured]:
    """Return the values of evaluators on a set's answers.

    Args:
        evaluators: Their ids.
        rows: The answers, as a dataset.
        access: Judge and parameters.
    """
    from leadline.api.metric_choice import MetricChoice

    metrics = [MetricChoice(evaluator, access.params.get(evaluator, {})) for evaluator in evaluators]
    asked: dict[str, Any] = {"judge": access.judge} if access.judge else {}
    with tempfile.TemporaryDirectory() as store:
        result = leadline.evaluate([*map(dict, rows)], metrics=metrics, store=store, name="trust", **asked)
        scores, aggregates = result.scores, result.aggregates
    out = {}
    for evaluator in evaluators:
        primary = aggregates[aggregates["primary"] & (aggregates["evaluator"] == evaluator)]
        metric = next(each for each in get(evaluator).spec.metrics if each.primary)
        key = primary["metric"].iloc[0] if len(primary) else metric.key
        own = scores[(scores["evaluator"] == evaluator) & (scores["metric"] == key)].dropna(subset=["value"])
        raw = {
            (str(case), str(model)): float(value)
            for case, model, value in zip(own["case"], own["model"], own["value"], strict=True)
        }
        sign = 1.0 if metric.higher_is_better else -1.0
        values = {answer: sign * value for answer, value in raw.items()}
        out[evaluator] = Measured(
            evaluator, key, values, raw, metric.higher_is_better, metric.threshold, _setting(evaluator, access)
        )
    return out


def _setting(evaluator: str, access: Access) -> str:
    """Return with which embedder, judge and parameters an evaluator ran."""
    kind = get(evaluator)
    params = access.params.get(evaluator, {})
    judge = f"judge {access.judge}" if access.judge and kind.spec.judge else ""
    built = kind(kind.parameters.build(evaluator, dict(params)))
    refs = built.models(leadline.EvalContext(with_default_embedder(Settings())))
    embedder = ", ".join(f"embedder {_plain_name(ref)}" for ref in refs if ref.kind == "embedder")
    given = ", ".join(f"{name} {_plain_name(value)}" for name, value in params.items())
    return ", ".join(part for part in (judge, embedder, given) if part)


def _plain_name(value: object) -> str:
    """Return a parameter or weights without the folders of this machine."""
    if str(value) == "offline":
        return "all-MiniLM-L6-v2"
    return str(value).rstrip("/").rpartition("/")[2] if str(value).startswith("/") else str(value)


def told_apart(found: Measured, data: LabelledSet) -> Iterator[TrustCard]:
    """Yield how well an evaluator tells apart what people tell apart, by rank and at its threshold.

    Args:
        found: Its values; the claim is true where they are bad.
        data: The set.
    """
    answers = [answer for answer in data.people if answer in found.values]
    if not answers:
        return
    true = np.array([data.people[answer] == 1 for answer in answers])
    badness = np.array([-found.values[answer] for answer in answers])
    groups = [data.groups[answer] for answer in answers]
    index = np.unique(groups, return_inverse=True)[1]
    limit = 0.5 if found.threshold is None else found.threshold
    judged = np.array([(found.raw[answer] < limit) == found.higher_is_better for answer in answers])
    about: dict[str, Any] = {
        "n": len(answers), "groups": int(index.max() + 1), "setting": found.setting,
    }  # fmt: skip
    note = _worst_kinds(data, answers, judged == true)
    low, high = bootstrap(lambda rows: _area(true[rows], badness[rows]), index)
    yield card_of(
        found.evaluator, (data.name, data.licence), data.claim, measure="area under the ROC curve",
        value=_area(true, badness), low=low, high=high, chance=0.5, headline=True, note=note, **about,
    )  # fmt: skip
    for measure, rows, hits in (
        (f"accuracy at {limit:g}", np.full(len(true), True), judged == true),
        (f"recall at {limit:g}", true, judged),
        (f"precision at {limit:g}", judged, true),
    ):
        if rows.any():
            share, low, high = share_in_groups(hits[rows], [g for g, row in zip(groups, rows, strict=True) if row])
            yield card_of(
                found.evaluator, (data.name, data.licence), data.claim, measure=measure, value=share, low=low,
                high=high, **about | {"n": int(rows.sum())},
            )  # fmt: skip


def _area(true: Bools, badness: Floats) -> float:
    """Return the chance that a case for which the claim is true has a worse value than one for which it is not."""
    from scipy.stats import rankdata

    ones, others = int(true.sum()), int((~true).sum())
    if not ones or not others:
        return math.nan
    return float((rankdata(badness)[true].sum() - ones * (ones + 1) / 2) / (ones * others))


def _worst_kinds(data: LabelledSet, answers: Sequence[Answer], right: Bools) -> str:
    """Return which kinds of texts are told worst, where the set has kinds."""
    kinds = np.array([data.kinds.get(answer, "") for answer in answers])
    shares = sorted(
        (float(right[kinds == kind].mean()), kind, int((kinds == kind).sum())) for kind in set(kinds) - {""}
    )
    told = ", ".join(f"{kind} {share:.0%} of {n}" for share, kind, n in shares[:EXAMPLES])
    return f"Told worst, as HateCheck names them: {told}." if told else ""


def ranked(found: Measured, data: LabelledSet, note: str) -> Iterator[TrustCard]:
    """Yield how far an evaluator ranks answers as people do.

    Args:
        found: Its values.
        data: The set.
        note: What to beware of.
    """
    answers = [answer for answer in data.people if answer in found.values]
    if len(answers) < 3:
        return
    values = np.array([found.values[answer] for answer in answers])
    people = np.array([data.people[answer] for answer in answers])
    index = np.unique([data.groups[answer] for answer in answers], return_inverse=True)[1]
    low, high = bootstrap(lambda rows: spearman(values[rows], people[rows]), index)
    texts = {(row["case"], row["model"]): row["actual_answer"] for row in data.rows}
    value = spearman(values, people)
    if math.isnan(value):
        note = "It gives all answers the same value."
    yield card_of(
        found.evaluator, (data.name, data.licence), data.claim, measure=f"{found.metric}: rank correlation",
        value=value, low=low, high=high, n=len(answers), groups=int(index.max() + 1), chance=0.0, people=data.ceiling,
        headline=True, setting=found.setting, note=note,
        failures=tuple(
            f"people {data.people[answer]:.1f} of 4, {found.metric} {found.raw[answer]:.2f}: “{_short(texts[answer])}”"
            for answer in _furthest(answers, values, people)
            if answer in data.printable
        ),
    )  # fmt: skip


def _furthest(answers: Sequence[Answer], values: Floats, people: Floats) -> list[Answer]:
    """Return the answers whose place among all is furthest from that which people give them."""
    from scipy.stats import rankdata

    gap = np.abs(rankdata(values) - rankdata(people))
    return [answers[at] for at in np.argsort(-gap, kind="stable")[:EXAMPLES]]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1].rstrip()}…"


def preferred(found: Measured, data: ComparedSet, note: str) -> Iterator[TrustCard]:
    """Yield how often an evaluator gives the answer that people prefer the better value.

    A tie of the evaluator is half a hit; pairs between which people are torn are left out.

    Args:
        found: Its values.
        data: The set.
        note: What to beware of.
    """
    pairs = [pair for pair in data.pairs if {(pair.case, pair.one), (pair.case, pair.other)} <= found.values.keys()]
    told = [pair for pair in pairs if pair.strength]
    if not told:
        return
    gaps = {id(pair): found.values[pair.case, pair.one] - found.values[pair.case, pair.other] for pair in pairs}
    hits = np.array([0.5 + 0.5 * np.sign(gaps[id(pair)] * pair.strength) for pair in told])
    cases = np.unique([pair.case for pair in told], return_inverse=True)[1]
    low, high = bootstrap(lambda rows: float(hits[rows].mean()), cases)
    questions = {row["case"]: row["question"] for row in data.rows}
    wrong = [pair for pair, hit in zip(told, hits, strict=True) if hit == 0 and not pair.kind.startswith("Adv")]
    ties = float((hits == 0.5).mean())
    about: dict[str, Any] = {"groups": int(cases.max() + 1), "setting": found.setting}
    yield card_of(
        found.evaluator, (data.name, data.licence), data.claim, measure=f"{found.metric}: pairs right",
        value=float(hits.mean()), low=low, high=high, n=len(told), chance=0.5, people=_raters_agree(data.pairs),
        headline=True, note=" ".join(part for part in (note, f"{ties:.0%} are ties." if ties else "") if part),
        failures=tuple(
            f"“{_short(questions[pair.case])}”: people prefer the {'first' if pair.strength > 0 else 'second'} answer, "
            f"{found.metric} {found.raw[pair.case, pair.one]:.2f} to {found.raw[pair.case, pair.other]:.2f}"
            for pair in sorted(wrong, key=lambda pair: -abs(gaps[id(pair)]))[:EXAMPLES]
        ),
        **about,
    )  # fmt: skip
    for kind in sorted({pair.kind for pair in told} - {""}):
        mine = np.array([pair.kind == kind for pair in told])
        low, high = bootstrap(lambda rows, own=hits[mine]: float(own[rows].mean()), np.arange(mine.sum()))
        yield card_of(
            found.evaluator, (data.name, data.licence), f"{data.claim}: {kind}",
            measure=f"{found.metric}: pairs right", value=float(hits[mine].mean()), low=low, high=high,
            n=int(mine.sum()), chance=0.5, **about | {"groups": int(mine.sum())},
        )  # fmt: skip
    if len({abs(pair.strength) for pair in pairs}) > 1:
        ones, others = np.array([[gaps[id(pair)], pair.strength] for pair in pairs]).T
        groups = np.unique([pair.case for pair in pairs], return_inverse=True)[1]
        low, high = bootstrap(lambda rows: spearman(ones[rows], others[rows]), groups)
        yield card_of(
            found.evaluator, (data.name, data.licence), data.claim, measure=f"{found.metric}'s gap: rank correlation",
            value=spearman(ones, others), low=low, high=high, n=len(pairs), chance=0.0,
            people=_raters_correlate(pairs), **about,
        )  # fmt: skip


def _raters_agree(pairs: Sequence[Preference]) -> float | None:
    """Return how often one person orders a pair as the other does, ties of the one being half a hit."""
    both = [(one, other) for pair in pairs if len(pair.raters) == 2 for one, other in (pair.raters, pair.raters[::-1])]
    hits = [0.5 + 0.5 * float(np.sign(one * other)) for one, other in both if other]
    return sum(hits) / len(hits) if hits else None


def _raters_correlate(pairs: Sequence[Preference]) -> float | None:
    both = [pair.raters for pair in pairs if len(pair.raters) == 2]
    if len(both) < 3:
        return None
    value = spearman(*(np.array(values) for values in zip(*both, strict=True)))
    return None if math.isnan(value) else value


def pass_fail(
    evaluator: str,
    about: tuple[str, str],
    claim: str,
    labels: Floats,
    judged: Floats,
    groups: Sequence[str],
    **more: Any,
) -> Iterator[TrustCard]:
    """Yield accuracy, recall, precision, κ and AC1 of an evaluator that says yes or no.

    Args:
        evaluator: Its id.
        about: Name and licence of the set.
        claim: What people said.
        labels: 1 where the claim is true.
        judged: 1 where the evaluator says so.
        groups: Which items hang together.
        **more: Further fields of the first card; ``setting`` is that of all.
    """
    index = np.unique(list(groups), return_inverse=True)[1]
    agreed = agreement(labels, judged)
    counts: dict[str, Any] = {"groups": int(index.max() + 1), "setting": more.pop("setting", "")}
    every = np.full(len(labels), True)
    most = float(max(labels.mean(), 1 - labels.mean()))
    for measure, rows, hits in (
        ("accuracy", every, labels == judged),
        ("recall", labels == 1, judged == 1),
        ("precision", judged == 1, labels == 1),
    ):
        if not rows.any():
            continue
        mine = [group for group, row in zip(groups, rows, strict=True) if row]
        share, low, high = share_in_groups(hits[rows], mine)
        first = {"headline": True, "chance": most, **more} if measure == "accuracy" else {}
        yield card_of(
            evaluator, about, claim, measure=measure, value=share, low=low, high=high, n=int(rows.sum()),
            **counts, **first,
        )  # fmt: skip
    for measure, value, figure in (
        ("Cohen's kappa", agreed.kappa, lambda rows: agreement(labels[rows], judged[rows]).kappa),
        ("Gwet's AC1", agreed.ac1, lambda rows: agreement(labels[rows], judged[rows]).ac1),
    ):
        low, high = bootstrap(figure, index)
        yield card_of(
            evaluator, about, claim, measure=measure, value=value, low=low, high=high, n=len(labels), chance=0.0,
            **counts,
        )  # fmt: skip


def without_figure(evaluator: str, about: tuple[str, str], claim: str, lacks: str) -> TrustCard:
    """Return the card of an evaluator whose weights are not here.

    Args:
        evaluator: Its id.
        about: Name and licence of the set.
        claim: What people said.
        lacks: The weights.
    """
    card = card_of(evaluator, about, claim, measure="not measured", headline=True, lacks=lacks)
    return replace(card, note="Measure it where these weights are.")
