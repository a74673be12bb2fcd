"""Aggregation: the SQL against plain Python, trials, missing rows, dataset-level metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leadline.evaluators.core import Evaluator, Metric, Spec, registry
from leadline.evaluators.data import Json, Row, RowField, RowScore
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.db import open_run
from tests.support.stores.run_factory import (
    BOARD,
    VALUE,
    Basis,
    Given,
    Toy,
    answer,
    board_scores,
    fill,
    make_run,
    table,
)

OPEN = Metric("open", "Open", higher_is_better=False, range=(0, math.inf), threshold=2.0)
PLAIN = Metric("plain", "Plain", higher_is_better=True, threshold=None)


def aggregates(folder: Path, scores: Sequence[Given], *, evaluators: Sequence[Toy], rows=None, evidence=()):
    rows = rows or [answer(case, model) for case, model in dict.fromkeys((g.case, g.model) for g in scores)]
    store, run = make_run(folder, rows=rows, evaluators=evaluators, scores=scores, evidence=evidence)
    with open_run(store, run) as connection:
        return by_name(connection)


def by_name(connection):
    aggregate(connection)
    models = {line["model_id"]: line["model_key"] for line in table(connection, "models")}
    metrics = {line["metric_id"]: line["metric"] for line in table(connection, "metrics")}
    return {(metrics[line["metric_id"]], models[line["model_id"]]): line for line in table(connection, "aggregates")}


VALUES = {
    "value": st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.75, 1.0])),
    "open": st.one_of(st.floats(0, 1e9), st.sampled_from([0.0, 2.0, math.inf])),
    "plain": st.floats(0, 1),
}


@st.composite
def lines(draw) -> list[Given]:
    out = []
    for metric, values in VALUES.items():
        for model in ("a", "b"):
            for case in range(draw(st.integers(0, 6))):
                for trial in range(draw(st.sampled_from([1, 1, 3]))):
                    out.append(
                        Given(f"c{case}", model, draw(st.one_of(values, st.sampled_from(["", "timeout"]))), metric,
                              trial=trial)
                    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """An open run of six cases and two models, for many scorings in turn."""
    rows = [answer(f"c{case}", model) for case in range(6) for model in ("a", "b")]
    store, run = make_run(tmp_path_factory.mktemp("grid"), rows=rows)
    with open_run(store, run) as connection:
        yield connection


@settings(max_examples=60, deadline=None)
@given(scores=lines())
def test_the_sql_equals_plain_python(grid, scores):
    fill(grid, [Toy(metrics=(VALUE, OPEN, PLAIN))], scores)
    found = by_name(grid)
    models = {given_.model for given_ in scores} or {"a", "b"}
    assert {model for _, model in found} == models
    for metric in (VALUE, OPEN, PLAIN):
        for model in models:
            check(found[metric.key, model], metric, [g for g in scores if (g.metric, g.model) == (metric.key, model)])


def check(line: dict[str, Any], metric: Metric, scores: list[Given]) -> None:
    cases: dict[str, list[float | str]] = {}
    for given_ in scores:
        cases.setdefault(given_.case, []).append(given_.value)
    means = []
    unscored = not_applicable = 0
    for trials in cases.values():
        numbers = [value for value in trials if not isinstance(value, str)]
        if numbers:
            means.append(sum(numbers) / len(numbers))
        elif "timeout" in trials:
            unscored += 1
        else:
            not_applicable += 1
    assert (line["n_rows"], line["n_scored"], line["n_unscored"], line["n_not_applicable"]) == (
        6, len(means), unscored, not_applicable,
    )  # fmt: skip
    assert line["reasons"] == ({"timeout": unscored} if unscored else {})
    if not means:
        assert line["value"] is None
        assert line["ci_low"] is None
        return
    assert line["value"] == pytest.approx(sum(means) / len(means), rel=1e-9)
    assert (line["minimum"], line["maximum"]) == pytest.approx((min(means), max(means)), rel=1e-12)
    if len(means) > 1 and math.isfinite(max(means)):
        assert line["std"] == pytest.approx(statistics.stdev(means), rel=1e-6, abs=1e-12)
    else:
        assert line["std"] is None
    if metric.threshold is None:
        assert line["verdict"] is line["n_pass"] is line["pass_share"] is None
    elif len(cases) and all(len(trials) == 1 for trials in cases.values()):  # a mean of trials may round across
        passed = sum(bool(metric.passes(mean)) for mean in means)
        assert line["n_pass"] == passed
        assert line["pass_share"] == passed / len(means)
        assert line["pass_low"] <= line["pass_share"] <= line["pass_high"]
    if unscored and metric is not OPEN:
        total = len(means) + unscored
        assert line["if_worst"] == pytest.approx(sum(means) / total)
        assert line["if_best"] == pytest.approx((sum(means) + unscored) / total)
    if unscored and metric is OPEN:
        assert line["if_worst"] is None


def test_the_interval_is_students_over_row_means_not_over_trials(tmp_path: Path) -> None:
    scores = [
        Given(f"c{case}", "a", min(1, 0.2 * case + 0.1 * trial), trial=trial) for case in range(4) for trial in range(3)
    ]
    line = aggregates(tmp_path, scores, evaluators=[Toy()])["value", "a"]
    means = [np.mean([g.value for g in scores if g.case == f"c{case}"]) for case in range(4)]
    low, high = stats.t.interval(0.95, 3, np.mean(means), stats.sem(means))
    assert line["n_scored"] == 4
    assert (line["ci_low"], line["ci_high"]) == pytest.approx((max(low, 0), min(high, 1)))
    assert line["ci_method"] == "bounded"


def test_shares_have_exact_intervals(tmp_path: Path) -> None:
    scores = [given_ for case in range(10) for given_ in board_scores(f"c{case}", "a", generation=case < 3)]
    line = aggregates(tmp_path, scores, evaluators=[Toy(metrics=BOARD, leaderboard="bool")])["passes", "a"]
    expected = stats.binomtest(7, 10).proportion_ci(method="exact")
    assert line["value"] == 0.7
    assert (line["ci_low"], line["ci_high"], line["ci_method"]) == (
        pytest.approx(expected.low), pytest.approx(expected.high), "exact",
    )  # fmt: skip
    assert (line["pass_low"], line["pass_high"]) == pytest.approx((expected.low, expected.high))


def test_large_values_that_hardly_vary_keep_their_spread(tmp_path: Path) -> None:
    values = [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]
    line = aggregates(
        tmp_path, [Given(f"c{n}", "a", v, "open") for n, v in enumerate(values)], evaluators=[Toy(metrics=(OPEN,))]
    )["open", "a"]
    assert line["std"] == pytest.approx(statistics.stdev([0, 1, 2, 3]), rel=1e-9)


def test_an_infinite_value_makes_the_mean_infinite_and_the_verdict_plain(tmp_path: Path) -> None:
    scores = [Given("c0", "a", 1.0, "open"), Given("c1", "a", math.inf, "open")]
    line = aggregates(tmp_path, scores, evaluators=[Toy(metrics=(OPEN,))])["open", "a"]
    assert line["value"] == math.inf
    assert line["ci_low"] is None
    assert line["n_pass"] == 1
    assert line["verdict"] == "fail"


def test_perturbed_copies_widen_the_interval_instead_of_narrowing_it(tmp_path: Path) -> None:
    values = [0.2, 0.9, 0.5, 0.7, 0.8]
    alone = aggregates(tmp_path / "alone", [Given(f"c{n}", "a", v) for n, v in enumerate(values)], evaluators=[Toy()])[
        "value", "a"
    ]
    rows = [answer(f"c{n}", "a") for n in range(5)] + [answer(f"p{n}", "a", original=f"c{n}") for n in range(5)]
    scores = [Given(f"{kind}{n}", "a", v) for kind in "cp" for n, v in enumerate(values)]
    copied = aggregates(tmp_path / "copied", scores, evaluators=[Toy()], rows=rows)["value", "a"]
    assert copied["n_scored"] == 10
    assert (copied["ci_low"], copied["ci_high"]) == pytest.approx((alone["ci_low"], alone["ci_high"]))


def test_copies_of_copies_belong_to_the_same_case(tmp_path: Path) -> None:
    rows = [answer("c", "a"), answer("p", "a", original="c"), answer("q", "a", original="p"), answer("d", "a")]
    scores = [Given(case, "a", value) for case, value in (("c", 0.1), ("p", 0.1), ("q", 0.1), ("d", 0.9))]
    line = aggregates(tmp_path, scores, evaluators=[Toy()], rows=rows)["value", "a"]
    assert line["ci_low"] == 0.0
    assert line["ci_high"] == 1.0  # two cases, one degree of freedom
    assert line["n_scored"] == 4


def test_low_coverage_makes_a_verdict_inconclusive(tmp_path: Path) -> None:
    sure = [Given(f"c{n}", "a", 0.95 + n % 2 / 100) for n in range(20)]
    missing = [Given(f"m{n}", "a", "judge_unavailable") for n in range(20)]
    evaluators = [Toy()]
    assert aggregates(tmp_path / "1", sure, evaluators=evaluators)["value", "a"]["verdict"] == "pass"
    line = aggregates(tmp_path / "2", sure + missing, evaluators=evaluators)["value", "a"]
    assert line["verdict"] == "inconclusive"
    assert line["if_worst"] < 0.75 < line["if_best"]


def test_models_that_took_no_part_have_no_aggregates_and_idle_metrics_have_empty_ones(tmp_path: Path) -> None:
    rows = [answer("c", "a"), answer("c", "b")]
    found = aggregates(tmp_path, [Given("c", "a", 1.0)], evaluators=[Toy(), Toy("idle", metrics=(OPEN,))], rows=rows)
    assert set(found) == {("value", "a"), ("open", "a")}
    assert found["open", "a"]["n_scored"] == 0
    assert found["open", "a"]["value"] is None
    assert found["open", "a"]["verdict"] == "inconclusive"


def test_aggregating_again_replaces_what_was_there(tmp_path: Path) -> None:
    store, run = make_run(tmp_path, rows=[answer("c", "a")], scores=[Given("c", "a", 1.0)])
    with open_run(store, run) as connection:
        assert aggregate(connection) == 1
        first = table(connection, "aggregates")
        assert aggregate(connection) == 1
        assert table(connection, "aggregates") == first


class Ratio(Evaluator):
    """A dataset-level metric: the share of true positives among predicted ones."""

    spec = Spec(
        id="test.ratio",
        name="Ratio",
        family="classification",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric("hit", "Hit", higher_is_better=True, primary=True, share=True),
            Metric("ratio", "Ratio", higher_is_better=True, threshold=0.4, dataset_level=True),
        ),
    )

    def score(self, rows: Sequence[Row], ctx: object) -> list[RowScore]:
        raise AssertionError("not asked for")

    def aggregate(self, payloads: Sequence[Json], weights: np.ndarray) -> dict[str, np.ndarray]:
        assert weights.ndim == 2
        if ["boom"] in payloads:
            raise ValueError("cannot stand this")
        said = np.array([payload[0] for payload in payloads], dtype=float)
        right = np.array([payload[1] for payload in payloads], dtype=float)
        total = weights @ said
        return {"ratio": np.divide(weights @ (said * right), total, out=np.zeros_like(total), where=total > 0)}


@pytest.fixture
def _ratio() -> Iterator[None]:
    registry.all_evaluators()
    registry.register(Ratio)
    yield
    registry._registered.pop("test.ratio")


def ratio_run(folder: Path, payloads: list[Any], **more: Any) -> dict[str, Any]:
    cases = [f"c{n}" for n in range(len(payloads))]
    scores = [Given(case, "a", 1.0, "hit", "test.ratio") for case in cases]
    evidence = [Basis(case, "a", "test.ratio", payload=payload) for case, payload in zip(cases, payloads, strict=True)]
    toy = Toy("test.ratio", metrics=Ratio.spec.metrics)
    return aggregates(folder, scores, evaluators=[toy], evidence=evidence, **more)["ratio", "a"]


@pytest.mark.usefixtures("_ratio")
def test_dataset_level_metrics_have_their_value_and_a_bootstrap_interval(tmp_path: Path) -> None:
    payloads = [[1, 1]] * 60 + [[1, 0]] * 20 + [[0, 1]] * 20
    line = ratio_run(tmp_path, payloads)
    assert line["value"] == 0.75
    assert line["n_scored"] == 100
    assert line["ci_method"] == "bootstrap"
    # The interval of a ratio of 60 to 80 is near that of a share of 80 trials.
    low, high = stats.binomtest(60, 80).proportion_ci(method="wilson")
    assert (line["ci_low"], line["ci_high"]) == pytest.approx((low, high), abs=0.02)
    assert line["verdict"] == "pass"
    assert line["std"] is line["n_pass"] is None
    assert ratio_run(tmp_path / "again", payloads)["ci_low"] == line["ci_low"]


@pytest.mark.usefixtures("_ratio")
def test_a_dataset_level_metric_without_any_variation_is_not_called_certain(tmp_path: Path) -> None:
    line = ratio_run(tmp_path, [[1, 1]] * 20)
    assert line["value"] == 1.0
    assert line["ci_method"] == "bounded"
    assert line["ci_low"] == pytest.approx(0.04 ** (1 / 20))


@pytest.mark.usefixtures("_ratio")
def test_an_evaluator_that_crashes_in_aggregation_is_unscored_not_fatal(tmp_path: Path) -> None:
    line = ratio_run(tmp_path, [[1, 1], ["boom"]])
    assert line["value"] is None
    assert (line["n_scored"], line["n_unscored"]) == (0, 2)
    assert line["reasons"] == {"evaluator_error": 2}


@pytest.mark.usefixtures("_ratio")
def test_copies_widen_bootstrap_intervals_too(tmp_path: Path) -> None:
    payloads = [[1, n % 3 > 0] for n in range(40)]
    rows = [answer(f"c{n}", "a", **({"original": f"c{n - 20}"} if n >= 20 else {})) for n in range(40)]
    alone, copied = ratio_run(tmp_path / "1", payloads), ratio_run(tmp_path / "2", payloads, rows=rows)
    assert copied["ci_high"] - copied["ci_low"] > 1.2 * (alone["ci_high"] - alone["ci_low"])
