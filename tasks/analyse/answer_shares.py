"""The share of good answers per model, for the questions that rows decide: are they right, are they supported?

People's labels of the question itself decide it where there are some. Else each row is decided by the best metric that
was made for it. A metric that errs is allowed for: what it passes is
corrected by how often it passes right answers and fails wrong ones
(:func:`leadline.tasks.statistics.label_correction.rogan_gladen`). Rows that nothing decided may be good or bad, which
widens the interval to both sides.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import records, replace_lines, sql
from leadline.tasks.policy.policy import Policy
from leadline.tasks.policy.questions import DECIDED_BY_ROWS
from leadline.tasks.statistics.early_stopping import ALWAYS_VALID
from leadline.tasks.statistics.label_correction import ErrorRates, rogan_gladen
from leadline.tasks.statistics.statistics import clopper_pearson, effective_number

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

LEAST_CASES: Final = 8
"""Distinct cases from which answers are a sample; of fewer only that all of them are good can be said."""

_MANY: Final = 1e9
"""Answers from which a rate is as good as known."""

LEAST_OF_PART: Final = 3
"""Labels of each part of the rows from which the parts are told apart: each part's interval is exact, however few."""

ShareOutcome: TypeAlias = Literal["pass", "fail", "open"]


@dataclass(frozen=True, slots=True)
class ShareStratum:
    """Rows of a model that one metric decides, or several that do not err.

    Attributes:
        n: Their number.
        n_good: How many of them it passes.
        effective: How many independent rows they are worth.
        rates: How often it errs; ``None`` for what does not.
        borrowed: Whether the rates were measured on other systems' answers.
    """

    n: int
    n_good: float
    effective: float
    rates: ErrorRates | None
    borrowed: bool = False

    def share(self) -> tuple[float, float, float]:
        """Return the share of good rows and its 95 % interval."""
        return good_share(self.n_good / self.n, self.effective, self.rates, borrowed=self.borrowed)


def good_share(
    passed: float, n: float, rates: ErrorRates | None, *, borrowed: bool = False
) -> tuple[float, float, float]:
    """Return the share of good answers and its 95 % interval.

    How many right answers a rule does not recognise differs between systems: none of one that answers in the words of
    the reference. Where the rates are borrowed from others, an answer that fails may thus be wrong or not recognised,
    and the lower end takes it for wrong.

    Args:
        passed: Share of the answers that pass.
        n: How many independent answers they are worth.
        rates: How often what decides them errs; ``None`` where it does not.
        borrowed: Whether the rates were measured on other systems' answers.
    """
    if rates is None:
        return passed, *clopper_pearson(passed, n)
    found = rogan_gladen(passed, n, rates)
    if found is None:
        return passed, 0.0, 1.0
    low = found.low
    if borrowed and (strict := rogan_gladen(passed, n, replace(rates, sensitivity=1.0, good=_MANY))):
        low = min(low, strict.low)
    # Where more pass than of right answers do, all seem right: but so few answers say no more than if that were known.
    return found.value, min(low, clopper_pearson(1.0, n)[0]), max(found.high, clopper_pearson(0.0, n)[1])


def joined(strata: Sequence[ShareStratum], undecided: int) -> tuple[float | None, float, float]:
    """Return the share of good rows over all strata, with its interval; undecided rows may be good or bad."""
    decided = sum(stratum.n for stratum in strata)
    if not decided:
        return None, 0.0, 1.0
    value, low, high = weighted(strata, [stratum.n for stratum in strata])
    known = decided / (decided + undecided)
    return value, low * known, high * known + 1 - known


def weighted(strata: Sequence[ShareStratum], sizes: Sequence[float]) -> tuple[float, float, float]:
    """Return the share of good rows over strata of some sizes, with its 95 % interval.

    The intervals are joined by the method of variance estimates recovery (Zou and Donner 2008).

    Args:
        sizes: The rows that each stands for.
    """
    value = below = above = 0.0
    for stratum, size in zip(strata, sizes, strict=True):
        weight = size / sum(sizes)
        share, low, high = stratum.share()
        value += weight * share
        below += (weight * (share - low)) ** 2
        above += (weight * (high - share)) ** 2
    return value, max(0.0, value - math.sqrt(below)), min(1.0, value + math.sqrt(above))


def measure_shares(connection: DuckDBPyConnection, policy: Policy) -> int:
    """Fill the table ``answer_shares`` and return its number of lines; the table ``row_verdicts`` stays for others.

    Args:
        connection: The run, aggregated, with its ``targets``.
    """
    asked = {"questions": list(DECIDED_BY_ROWS)}
    connection.execute(sql("verdict/row_verdicts"), asked)
    rules = {line["metric_id"]: line for line in records(connection, sql("verdict/deciding"))}
    families = perturbation_clusters(connection)
    labelled: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for line in records(connection, "SELECT * FROM question_labels"):
        labelled[line["question"]][line["row_id"]] = line["good"]
    stopped = records(connection, sql("verdict/stopped"), {"always_valid": ALWAYS_VALID})
    lines = []
    for question in DECIDED_BY_ROWS:
        named = any(rule["named"] and rule["question"] == question for rule in rules.values())
        columns = connection.execute(sql("verdict/asked_rows"), {"question": question}).fetchnumpy()
        for model in np.unique(columns["model_id"]).tolist():
            chosen = columns["model_id"] == model
            part = {name: values[chosen] for name, values in columns.items()}
            clusters = _families_of(part["case_id"], families)
            labels = _labels_of(part["row_id"], labelled[question])
            said = not np.isnan(labels).all()
            share = (
                _labelled_share(part, labels, clusters, policy)
                if said
                else _share(part, rules, clusters, policy, named=named)
            )
            early = (line for line in stopped if line["question"] == question and line["model_id"] == model)
            share |= {} if said else next((_stopped_share(line, policy) for line in early), {})
            lines.append({"question": question, "model_id": model, **share})
    return replace_lines(connection, "answer_shares", lines)


def _stopped_share(line: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return what a model's line of ``answer_shares`` has instead where judging stopped early."""
    rates, n = None if line["proof"] == "exact" else policy_rates(line), line["n_scored"]
    value, low, high = (good_share(line[end], n, rates) for end in ("pass_share", "pass_low", "pass_high"))
    return {
        "n_asked": line["n_scored"],
        "n_decided": line["n_scored"],
        "n_good": line["n_pass"],
        "exact": rates is None,
        "value": value[0],
        "ci_low": low[1] if rates else low[0],
        "ci_high": high[2] if rates else high[0],
        "wanted": wanted_share(line, policy),
        "outcome": line["decision"],
        "evaluators": [line["evaluator"]],
    }


def _families_of(cases: npt.NDArray[Any], families: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Return the family of each case; one without copies is a family of its own, below 0."""
    known, alone = families["case_id"], -1 - cases.astype(np.int64)
    if not len(known):
        return alone
    place = np.minimum(np.searchsorted(known, cases), len(known) - 1)
    return np.where(known[place] == cases, families["family"][place], alone)


def _labels_of(rows: npt.NDArray[Any], labelled: Mapping[int, float]) -> npt.NDArray[np.float64]:
    """Return what people said of each row, 1 for good and NaN where they said nothing."""
    labels = np.full(len(rows), np.nan)
    said, good = np.array(list(labelled), dtype=np.int64), np.array(list(labelled.values()), dtype=float)
    _, of_rows, of_said = np.intersect1d(rows, said, assume_unique=True, return_indices=True)
    labels[of_rows] = good[of_said]
    return labels


def _share(
    columns: Mapping[str, npt.NDArray[Any]],
    rules: Mapping[int, Mapping[str, Any]],
    clusters: npt.NDArray[np.int64],
    policy: Policy,
    *,
    named: bool,
) -> dict[str, Any]:
    """Return a model's line of ``answer_shares``, without its keys.

    Args:
        columns: The model's rows that the question can be asked of.
        rules: What is known of each deciding metric.
        clusters: The family of each row's case.
        named: Whether somebody named what decides; then it is asked only of the rows that this can score.
    """
    decided = ~np.ma.getmaskarray(columns["place"])
    place, good = np.ma.getdata(columns["place"]), np.ma.getdata(columns["good"]).astype(float)
    metric = np.ma.getdata(columns["metric_id"])
    strata, wanted = [], 0.0
    by: defaultdict[str, int] = defaultdict(int)
    for kind in np.unique(place[decided]).tolist():
        chosen = decided & (place == kind)
        ids = np.unique(metric[chosen]).tolist()
        rule = rules[ids[0]]
        strata.append(
            ShareStratum(
                int(chosen.sum()),
                int(good[chosen].sum()),
                effective_number(good[chosen], clusters[chosen]),
                _rates(rule) if kind else None,
                borrowed=not rule["judged"] and rule["state"] != "valid",
            )
        )
        for id_ in ids:
            n = int((chosen & (metric == id_)).sum())
            by[rules[id_]["evaluator"]] += n
            wanted = max(wanted, wanted_share(rules[id_], policy))
    n, n_good = sum(stratum.n for stratum in strata), sum(stratum.n_good for stratum in strata)
    n_asked = n if named else len(decided)
    value, low, high = joined(strata, n_asked - n)
    wanted = wanted or policy.good_share
    n_cases = len(np.unique(clusters[decided]))
    exact = all(stratum.rates is None for stratum in strata)
    return {
        "n_asked": n_asked,
        "n_decided": n,
        "n_good": n_good,
        "n_cases": n_cases,
        "exact": exact,
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "wanted": wanted,
        "outcome": _outcome(
            low, high, wanted, all_good=exact and n_good == n == n_asked, sample=n_cases >= LEAST_CASES
        ),
        "n_labels": 0,
        "evaluators": [name for name, _ in sorted(by.items(), key=lambda item: -item[1])],
    }


def _labelled_share(
    columns: Mapping[str, npt.NDArray[Any]],
    labels: npt.NDArray[np.float64],
    clusters: npt.NDArray[np.int64],
    policy: Policy,
) -> dict[str, Any]:
    """Return a model's line of ``answer_shares`` by people's labels of the question, without its keys.

    Where what metrics say parts the rows, and each part has :data:`LEAST_OF_PART` labels, the share is that of the
    parts by their size (post-stratified), which is known better than by the labels alone.

    Args:
        labels: What people said of each, 1 for good and NaN for nothing.
        clusters: The family of each row's case.
    """
    known, said = ~np.isnan(labels), np.nan_to_num(labels)
    decided = ~np.ma.getmaskarray(columns["place"])
    parts = np.where(decided, np.ma.getdata(columns["good"]).astype(int), -1)
    if any((known & (parts == part)).sum() < LEAST_OF_PART for part in np.unique(parts)):
        parts = np.zeros(len(parts), dtype=int)
    strata, sizes = [], []
    for part in np.unique(parts):
        chosen = known & (parts == part)
        effective = effective_number(said[chosen], clusters[chosen])
        strata.append(ShareStratum(int(chosen.sum()), float(said[chosen].sum()), effective, None))
        sizes.append(int((parts == part).sum()))
    value, low, high = weighted(strata, sizes)
    n, n_good, n_cases = int(known.sum()), float(said.sum()), len(np.unique(clusters[known]))
    return {
        "n_asked": len(labels),
        "n_decided": n,
        "n_good": int(n_good),
        "n_cases": n_cases,
        "exact": True,
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "wanted": policy.good_share,
        "outcome": _outcome(
            low, high, policy.good_share, all_good=n_good == len(labels), sample=n_cases >= LEAST_CASES
        ),
        "n_labels": n,
        "evaluators": [],
    }


def rows_decide(rule: Mapping[str, Any]) -> bool:
    """Return whether a metric's rows decide a question, not its mean."""
    by_rows = rule["proof"] in ("exact", "estimate") and rule["question"] in DECIDED_BY_ROWS
    return by_rows and not rule["dataset_level"]


def _outcome(low: float, high: float, wanted: float, *, all_good: bool, sample: bool) -> ShareOutcome:
    if high < wanted:
        return "fail"
    return "pass" if all_good or (sample and low >= wanted) else "open"


def wanted_share(rule: Mapping[str, Any], policy: Policy) -> float:
    """Return the share of good answers that a metric asks for: its threshold where its mean is that share."""
    if rule["role"] == "must" or not rule["is_share"] or rule["threshold"] is None:
        return policy.good_share
    return float(rule["threshold"] if rule["higher_is_better"] else 1 - rule["threshold"])


def _rates(rule: Mapping[str, Any]) -> ErrorRates:
    """Return how often a metric errs: by people's labels in this store, else by the policy."""
    passes, fails = rule["recall_pass"], rule["recall_fail"]
    if rule["state"] == "valid" and passes is not None and fails is not None:
        differ = passes - fails
        bad = (passes - rule["accuracy"]) / differ if differ else 0.5
        n = float(rule["n_labels"])
        return ErrorRates(passes, n * (1 - min(1.0, max(0.0, bad))), fails, n * min(1.0, max(0.0, bad)))
    return policy_rates(rule)


def policy_rates(rule: Mapping[str, Any]) -> ErrorRates:
    """Return how often a metric errs by the policy."""
    (hits, right), (rejected, wrong) = rule["right_that_pass"], rule["wrong_that_fail"]
    return ErrorRates(hits / right if right else 0.5, right, rejected / wrong if wrong else 0.5, wrong)
