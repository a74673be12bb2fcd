"""Reports of what labels say of a judge: scores corrected, agreement with people, and the threshold they advise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from leadline.tasks.db import CertificateState
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.labels.drawing import strata_of
from leadline.tasks.judges.labels.label_sets import holding_all, labels_by_key, row_chances
from leadline.tasks.load.label import ADJUDICATED, TIE, Label, consensus
from leadline.tasks.statistics.agreement import (
    Agreement,
    ThresholdAdvice,
    advise_threshold,
    agreement,
    bootstrap,
    krippendorff_alpha,
    spearman,
    weighted_kappa,
)
from leadline.tasks.statistics.label_correction import (
    LEAST_YOUDEN,
    Corrected,
    PassFailLabels,
    Stratum,
    actively_sampled,
    more_until,
    post_stratified,
    prediction_powered,
    stratified,
)
from leadline.tasks.statistics.statistics import Z, difference, effective_number, wilson

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows
    from leadline.tasks.judges.labels.label_sets import LabelSample
    from leadline.tasks.statistics.bounded_mean import Floats, Ints


LEAST_LABELS: Final = 50
LEAST_SENSE: Final = LEAST_YOUDEN
"""Least that a judge must surely have of what tells good from bad: Youden's J, or the rank correlation of numbers."""
USEFUL: Final = 0.4
"""What a useful judge has of that, as a share of what people reach among themselves; a judge surely below it failed."""
WIDEST: Final = 0.25
"""Widest interval of a corrected value, as a share of the metric's range, that is of use to a decision."""
LEAST_GROUPS: Final = 5
"""Cases below which a rank correlation has no interval."""
LEAST_SHARED: Final = 10
"""Rows that two people or more labelled, below which nothing is told of how far people agree."""


@dataclass(frozen=True, slots=True)
class LabelledModel:
    """A judge's scores of one model beside people's labels.

    Attributes:
        independent: Independent rows that these are worth: copies of a case, which are judged alike, are few.
        judge: What the judge says of them: the share that passes, or the mean.
        groups: Independent cases among them: an original and its copies are one.
        untold: Rows of which every person said that they can't tell.
        corrected: The share or mean as people would have judged it; ``None`` where labels do not tell.
        labels_alone: The same from the labels alone, with no judge.
        agreed: Agreement of passes and fails; ``None`` for numbers, and with under two labels.
        rank_correlation: Spearman's, of the judge's scores with the labels.
        scale_kappa: Cohen's κ with quadratic weights, for numbers.
        state: Whether the labels certify the judge: ``none`` and ``few`` (under 50) cannot, ``not drawn`` are not from
            a random sample. ``valid``: it surely tells good from bad (:data:`LEAST_SENSE`), and the corrected value's
            interval is narrow (:data:`WIDEST`). ``failed``: it surely does so too little (:data:`USEFUL`). ``open``:
            neither can be told yet.
        more_labels: About how many labels more would tell where that is ``open`` or they are ``few``; ``None`` if they
            would be very many.
        sense: By how much it tells good from bad: Youden's J (share of the good answers that it passes, less that of
            the bad ones), or the rank correlation of numbers.
        sense_low: Lower end of its 95 % interval.
    """

    model: str
    judged: int
    independent: float
    judge: float
    labels: int
    people: int
    groups: int
    untold: int
    corrected: Corrected | None
    labels_alone: Corrected | None
    agreed: Agreement | None
    rank_correlation: float
    scale_kappa: float
    state: CertificateState
    more_labels: int | None
    sense: float
    sense_low: float
    sense_high: float


@dataclass(frozen=True, slots=True)
class LabelReport:
    """Findings of a set of labels on a metric of a run.

    Attributes:
        question: ``EVALUATOR.METRIC``.
        config: Digest of the evaluator's configuration.
        binary: Whether rows pass or fail; otherwise they have numbers.
        models: Each model, the last one ``""`` for all together that have labels where there are several.
        tied: Rows on which people are tied: they tell nothing of the judge until one is decided.
        stale: Labelled rows that this run does not have: their text differs, or the judge was not asked about them.
        people_alpha: Krippendorff's alpha between people, the most that a judge can reach; not a number where fewer
            than :data:`LEAST_SHARED` rows have labels of several.
        people_alpha_low: Lower end of its 95 % interval.
        people_alpha_high: Upper end of its 95 % interval.
        labelled_from: Time of the first label of this run's rows, or ``""``.
        advice: Which threshold fits the labels; ``None`` where they are too few or rows have no threshold.
    """

    question: str
    config: str
    binary: bool
    models: tuple[LabelledModel, ...]
    tied: int
    stale: int
    people_alpha: float
    people_alpha_low: float
    people_alpha_high: float
    saw_judge: int
    labelled_from: str
    labelled_to: str
    labels_digest: str
    advice: ThresholdAdvice | None


@dataclass(frozen=True, slots=True)
class _Joined:
    """Labelled rows.

    Attributes:
        places: Their places in the judged rows.
        chances: The chance with which each was drawn; not a number where it was not.
        sample: A sample that has them all, if it was drawn from these very scores.
    """

    places: Ints
    values: Floats
    chances: Floats
    people: Sequence[frozenset[str]]
    sample: LabelSample | None

    def of(self, rows: Ints) -> _Joined:
        """Return those among some of the judged rows; where any were drawn, those that were.

        A row may have a label since another model gave the same answer and was drawn.
        """
        among = np.isin(self.places, rows)
        drawn = among & ~np.isnan(self.chances)
        inside = np.flatnonzero(drawn if drawn.any() else among)
        people = [self.people[place] for place in inside.tolist()]
        return _Joined(self.places[inside], self.values[inside], self.chances[inside], people, self.sample)

    @property
    def random(self) -> bool:
        """Say whether all were drawn at random."""
        return bool(len(self.places)) and not np.isnan(self.chances).any()


def report_labels(
    judged: JudgedRows, labels: Sequence[Label], samples: Sequence[LabelSample], *, bootstrapped: bool = True
) -> LabelReport:
    """Return what labels say of a metric of a run.

    Args:
        labels: The last label of each person on each row.
        bootstrapped: Give what takes a thousand samples too: the interval of the people's alpha and the advice.
    """
    metric = judged.metric
    binary = metric.is_binary
    known = set(judged.keys)
    current = [label for label in labels if label.key in known]
    joined = _join(judged, current, samples, binary=binary)
    names = sorted(set(judged.models))
    models = np.array(judged.models)
    parts = [(name, np.flatnonzero(models == name)) for name in names]
    if len(names) > 1:
        every = np.arange(len(models))
        labelled = np.isin(models, models[joined.of(every).places])
        parts.append(("", np.flatnonzero(labelled) if labelled.any() else every))
    told = {label.key for label in current if label.value is not None}
    untold = {label.key for label in current} - told
    low, alpha, high = _between_people(current, binary=binary, interval=bootstrapped)
    return LabelReport(
        question=metric.id,
        config=metric.config,
        binary=binary,
        models=tuple(_of_model(judged, joined, name, rows, untold, alpha, binary=binary) for name, rows in parts),
        tied=len({judged.keys[place] for place in joined.places[joined.values == TIE]}) if binary else 0,
        stale=len({label.key for label in labels} - known),
        people_alpha=alpha,
        people_alpha_low=low,
        people_alpha_high=high,
        saw_judge=sum(label.saw_judge for label in current),
        labelled_from=min((label.at for label in current if label.at), default=""),
        labelled_to=max((label.at for label in current), default=""),
        labels_digest=digest(sorted([label.key, label.person, label.value] for label in current)),
        advice=_advice(judged, joined) if bootstrapped and binary and not metric.is_share else None,
    )


def _join(judged: JudgedRows, labels: Sequence[Label], samples: Sequence[LabelSample], *, binary: bool) -> _Joined:
    """Return the labelled rows; several people's labels of a row become one."""
    drawn = row_chances(judged, samples)
    by_key = labels_by_key(labels)
    places, values, chances, people = [], [], [], []
    rows = set()
    for place, key in enumerate(judged.keys):
        value = consensus(by_key[key], binary=binary) if key in by_key else None
        if value is None:
            continue
        row = key, judged.models[place]
        if row in drawn:
            rows.add(row)
        places.append(place)
        values.append(value)
        chances.append(drawn[row].chance if row in drawn else math.nan)
        people.append(frozenset(label.person for label in by_key[key]) - {ADJUDICATED} or frozenset({ADJUDICATED}))
    these = [each for each in samples if each.config == judged.metric.config and each.judged == len(judged.rows)]
    only = holding_all(these, rows)
    return _Joined(np.array(places, dtype=np.int64), np.array(values, float), np.array(chances, float), people, only)


def _of_model(
    judged: JudgedRows, joined: _Joined, name: str, rows: Ints, untold: set[str], ceiling: float, *, binary: bool
) -> LabelledModel:
    """Return one model's scores beside its labels."""
    scores = judged.metric.passes(judged.values).astype(float) if binary else judged.values
    own = joined.of(rows)
    told = own.values != TIE if binary else np.ones(len(own.values), dtype=bool)
    agreed = None
    if binary and told.sum() > 1:
        weights = 1 / own.chances[told] if own.random else None
        clusters = judged.clusters[own.places[told]]
        agreed = agreement(own.values[told], scores[own.places[told]], weights, clusters)
    nothing = np.zeros(0)
    alone = prediction_powered(own.values, np.zeros(len(own.values)), nothing, judged.clusters[own.places])
    correct = _correct_shares if binary else _correct_numbers
    corrected = correct(judged, scores, rows, own) if own.random and len(own.places) > 1 else None
    correlation = spearman(own.values, judged.values[own.places])
    groups = len(np.unique(judged.clusters[own.places]))
    sense = _Sense(agreed, correlation, groups)
    state, more = _state(len(own.places), own.random, sense, corrected, judged.metric, ceiling)
    low, high = sense.interval()
    return LabelledModel(
        model=name,
        judged=len(rows),
        independent=effective_number(scores[rows], judged.clusters[rows]),
        judge=float(scores[rows].mean()),
        labels=len(own.places),
        people=len(frozenset().union(*own.people)),
        groups=groups,
        untold=sum(judged.keys[row] in untold for row in rows),
        corrected=corrected,
        labels_alone=alone if own.random else None,
        agreed=agreed,
        rank_correlation=correlation,
        scale_kappa=math.nan if binary or len(own.values) < 2 else weighted_kappa(own.values, scores[own.places]),
        state=state,
        more_labels=more,
        sense=sense.value,
        sense_low=low,
        sense_high=high,
    )


def _correct_shares(judged: JudgedRows, scores: Floats, rows: Ints, own: _Joined) -> Corrected:
    """Return the share of good answers; labels drawn by an older judge's verdicts count by their chances."""

    def counted(verdict: float) -> tuple[float, float]:
        side = scores[own.places] == verdict
        weights = 1 / own.chances[side]
        effective = _effective(weights, judged.clusters[own.places][side])
        share = float((weights * own.values[side]).sum() / weights.sum()) if side.any() else 0.0
        return share * effective, effective

    independent = effective_number(scores[rows], judged.clusters[rows])
    passed = float(scores[rows].mean()) * independent
    return post_stratified(PassFailLabels(*counted(1.0), *counted(0.0), passed, independent))


def _correct_numbers(judged: JudgedRows, scores: Floats, rows: Ints, own: _Joined) -> Corrected | None:
    """Return the mean of all rows as people would give it, by how the labelled ones were drawn."""
    given, clusters = scores[own.places], judged.clusters[own.places]
    if np.ptp(own.chances) < 1e-9:
        rest = np.setdiff1d(rows, own.places)
        return prediction_powered(own.values, given, scores[rest], clusters, judged.clusters[rest])
    if own.sample is None or len(np.unique(clusters)) < len(clusters):  # strata know of no copies
        return actively_sampled(own.values, given, own.chances, scores[rows], clusters, judged.clusters[rows])
    models = np.array(judged.models)[rows]
    strata = np.empty(len(judged.rows), dtype=object)
    for model in np.unique(models):
        of_model = rows[models == model]
        strata[of_model] = strata_of(judged, of_model, own.sample.how)
    return stratified(
        [
            Stratum(own.values[labelled], given[labelled], scores[rows[strata[rows] == part]])
            for part in np.unique(strata[rows].astype(str))
            for labelled in [strata[own.places] == part]
        ]
    )


def _effective(weights: Floats, clusters: Ints) -> float:
    """Return for how many independent labels these count: of unequal weights, and of copies of one case."""
    if not len(weights):
        return 0.0
    groups = np.bincount(np.unique(clusters, return_inverse=True)[1], weights)
    return float(groups.sum() ** 2 / (groups**2).sum())


@dataclass(frozen=True, slots=True)
class _Sense:
    """The extent to which a judge tells good from bad, which is what a correction needs of it.

    Attributes:
        agreed: Agreement of passes and fails; ``None`` for numbers.
        correlation: The rank correlation, which counts for numbers.
    """

    agreed: Agreement | None
    correlation: float
    groups: int

    @property
    def value(self) -> float:
        if self.agreed is None:
            return self.correlation
        return self.agreed.recall_pass.value + self.agreed.recall_fail.value - 1

    def interval(self, times: float = 1.0) -> tuple[float, float]:
        """Return the 95 % interval with so many times the labels; all that is possible where nothing is known."""
        if self.agreed is not None:
            good, bad = self.agreed.recall_pass, self.agreed.recall_fail
            if not (good.n and bad.n):
                return -1.0, 1.0
            wrong = 1 - bad.value
            of_good, of_wrong = wilson(good.value, times * good.n), wilson(wrong, times * bad.n)
            return difference(good.value, of_good, wrong, of_wrong)
        if math.isnan(self.correlation) or self.groups < LEAST_GROUPS:
            return -1.0, 1.0
        # Fisher's transformation, with the error that Bonett and Wright (2000) give for ranks
        centre = math.atanh(max(-0.9999, min(0.9999, self.correlation)))
        reach = Z * math.sqrt((1 + self.correlation**2 / 2) / (times * self.groups - 3))
        return math.tanh(centre - reach), math.tanh(centre + reach)


def _state(
    labels: int, random: bool, sense: _Sense, corrected: Corrected | None, metric: JudgedMetric, ceiling: float
) -> tuple[CertificateState, int | None]:
    """Return whether labels certify a judge, and about how many more would tell where they do not yet."""

    def told(times: float) -> CertificateState:
        low, high = sense.interval(times)
        span = 1.0 if sense.agreed is not None else metric.high - metric.low
        width = (corrected.high - corrected.low) / math.sqrt(times) if corrected else math.inf
        if low > LEAST_SENSE and (width <= WIDEST * span or math.isinf(span)):
            return "valid"
        return "failed" if high < USEFUL * (1.0 if math.isnan(ceiling) else max(0.0, ceiling)) else "open"

    if not labels:
        return "none", None
    if labels < LEAST_LABELS:
        return "few", max(10, 10 * math.ceil((LEAST_LABELS - labels) / 10))
    if not random:
        return "not drawn", None
    state = told(1.0)
    return state, more_until(labels, lambda times: told(times) != "open") if state == "open" else None


def _between_people(labels: Sequence[Label], *, binary: bool, interval: bool) -> tuple[float, float, float]:
    """Return Krippendorff's alpha between people, with its interval if it is wanted; low, value and high."""
    people = sorted({label.person for label in labels if label.person != ADJUDICATED})
    keys = sorted({label.key for label in labels})
    ratings = np.full((len(people), len(keys)), math.nan)
    row_of, column_of = {who: row for row, who in enumerate(people)}, {key: column for column, key in enumerate(keys)}
    for label in labels:
        if label.person in row_of and label.value is not None:
            said = consensus([label], binary=binary)
            ratings[row_of[label.person], column_of[label.key]] = math.nan if said is None else said
    shared = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
    level: Literal["nominal", "interval"] = "nominal" if binary else "interval"
    alpha = krippendorff_alpha(shared, level) if shared.shape[1] >= LEAST_SHARED else math.nan
    if math.isnan(alpha) or not interval:
        return math.nan, alpha, math.nan
    low, high = bootstrap(lambda units: krippendorff_alpha(shared[:, units], level), np.arange(shared.shape[1]))
    return low, alpha, high


def _advice(judged: JudgedRows, joined: _Joined) -> ThresholdAdvice | None:
    """Return which threshold the labels advise."""
    told = joined.values != TIE
    metric = judged.metric
    if metric.threshold is None:
        return None
    return advise_threshold(
        joined.values[told],
        judged.values[joined.places[told]],
        judged.clusters[joined.places[told]],
        metric.threshold,
        higher_is_better=metric.higher_is_better,
    )
