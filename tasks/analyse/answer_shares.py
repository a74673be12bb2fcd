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
    connection.execute(sql("verdict/row_verdicts"), {"questions": list(DECIDED_BY_ROWS)})
    rules = {line["metric_id"]: line for line in records(connection, sql("verdict/deciding"))}
    connection.register("families", perturbation_clusters(connection))
    stopped = records(connection, sql("verdict/stopped"), {"always_valid": ALWAYS_VALID})
    lines = []
    for question in DECIDED_BY_ROWS:
        named = any(rule["named"] and rule["question"] == question for rule in rules.values())
        connection.execute(sql("verdict/asked_rows"), {"question": question})
        for asked in records(connection, sql("verdict/asked_models")):
            model = asked["model_id"]
            if asked["n_labels"]:
                share = _labelled_share(connection, model, policy)
            else:
                early = (line for line in stopped if line["question"] == question and line["model_id"] == model)
                share = _share(connection, asked, rules, policy, named=named)
                share |= next((_stopped_share(line, policy) for line in early), {})
            lines.append({"question": question, "model_id": model, **share})
    connection.execute("DROP TABLE asked_rows")
    connection.unregister("families")
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


def _share(
    connection: DuckDBPyConnection,
    asked: Mapping[str, Any],
    rules: Mapping[int, Mapping[str, Any]],
    policy: Policy,
    *,
    named: bool,
) -> dict[str, Any]:
    """Return a model's line of ``answer_shares``, without its keys.

    Args:
        connection: The run with its ``asked_rows``.
        asked: The model's line of them.
        rules: What is known of each deciding metric.
        named: Whether somebody named what decides; then it is asked only of the rows that this can score.
    """
    strata, wanted = [], 0.0
    by: defaultdict[str, int] = defaultdict(int)
    for line in records(connection, sql("verdict/asked_strata"), {"model": asked["model_id"]}):
        metrics = sorted(line["metrics"].items())
        rule = rules[metrics[0][0]]
        strata.append(
            ShareStratum(
                line["n"],
                line["n_good"],
                _effective(connection, asked["model_id"], line),
                _rates(rule) if line["place"] else None,
                borrowed=not rule["judged"] and rule["state"] != "valid",
            )
        )
        for id_, n in metrics:
            by[rules[id_]["evaluator"]] += n
            wanted = max(wanted, wanted_share(rules[id_], policy))
    n, n_good = sum(stratum.n for stratum in strata), sum(stratum.n_good for stratum in strata)
    n_asked, n_cases = n if named else asked["n_asked"], asked["n_cases"]
    value, low, high = joined(strata, n_asked - n)
    wanted = wanted or policy.good_share
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


def _effective(connection: DuckDBPyConnection, model: int, stratum: Mapping[str, Any]) -> float:
    """Return how many independent rows a stratum is worth; its rows are read only where its sizes do not say so."""
    if stratum["n_families"] == stratum["n"] or stratum["n_good"] in (0, stratum["n"]):
        return float(stratum["n_families"])
    place = {"model": model, "place": stratum["place"]}
    columns: Mapping[str, Any] = connection.execute(sql("verdict/stratum_rows"), place).fetchnumpy()
    return effective_number(columns["good"], columns["family"])


def _labelled_share(connection: DuckDBPyConnection, model: int, policy: Policy) -> dict[str, Any]:
    """Return a model's line of ``answer_shares`` by people's labels of the question, without its keys.

    Where what metrics say parts the rows, and each part has :data:`LEAST_OF_PART` labels, the share is that of the
    parts by their size (post-stratified), which is known better than by the labels alone.

    Args:
        connection: The run with its ``asked_rows``.
    """
    columns = connection.execute(sql("verdict/labelled_rows"), {"model": model}).fetchnumpy()
    labels, parts, clusters = columns["label"], columns["part"], columns["family"]
    known, said = ~np.isnan(labels), np.nan_to_num(labels)
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
