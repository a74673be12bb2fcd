"""Flips against brute force, and at the edges where others get them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import Metric
from leadline.tasks.analyse import flips as module
from leadline.tasks.analyse.flips import find_flips
from leadline.tasks.db import open_run
from tests.support.stores.run_factory import BOARD, VALUE, Given, Toy, answer, board_scores, fill, make_run, table

LOWER = Metric("lower", "Lower", higher_is_better=False, threshold=0.25)
FREE = Metric("free", "Free", higher_is_better=True, threshold=None)

COPIES = {"p0": ("c0", "typo"), "q0": ("c0", "comma"), "p1": ("c1", "typo"), "p2": ("c2", ""), "r0": ("p0", "typo")}
CASES = ["c0", "c1", "c2", *COPIES]


def rows() -> list[dict]:
    out = []
    for case in CASES:
        extra = {"original": COPIES[case][0], "perturbation": COPIES[case][1]} if case in COPIES else {}
        out += [answer(case, model, **extra) for model in ("a", "b")]
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    store, made = make_run(tmp_path_factory.mktemp("flips"), rows=rows())
    with open_run(store, made) as connection:
        yield connection


def found(connection: duckdb.DuckDBPyConnection) -> set[tuple]:
    return set(
        connection.execute(
            """
            SELECT metric, model_key, original.case_key, perturbed.case_key, original_value, perturbed_value,
                   direction, coalesce(perturbation, '')
            FROM flips
            JOIN metrics USING (metric_id)
            JOIN models USING (model_id)
            JOIN cases AS original ON original.case_id = original_case_id
            JOIN cases AS perturbed ON perturbed.case_id = perturbed_case_id
            """
        ).fetchall()
    )


values = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1))


@settings(max_examples=60, deadline=None)
@given(
    scores=st.dictionaries(
        st.tuples(st.sampled_from(["value", "lower", "free"]), st.sampled_from(CASES), st.sampled_from(["a", "b"])),
        values,
    ),
    threshold=st.sampled_from([0.0, 0.5, 0.75]),
    cells=st.sampled_from([1, 20, 8_000_000]),
)
def test_flips_equal_brute_force(run, scores, threshold, cells):
    toy = Toy(metrics=(VALUE, LOWER, FREE), thresholds={"value": threshold})
    fill(run, [toy], [Given(c, m, "timeout" if v is None else v, k) for (k, c, m), v in scores.items()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_CELLS", cells)  # as many metrics at a time as fit into memory
        number = find_flips(run)

    expected, pairs = set(), {}
    for metric, limit, good in (("value", threshold, lambda v, t: v >= t), ("lower", 0.25, lambda v, t: v <= t)):
        for copy, (original, how) in COPIES.items():
            for model in ("a", "b"):
                was, now = scores.get((metric, original, model)), scores.get((metric, copy, model))
                if was is None or now is None:
                    continue
                for kind in {how, ""}:
                    pairs.setdefault((metric, model, kind), []).append(good(was, limit) != good(now, limit))
                if good(was, limit) != good(now, limit):
                    direction = "passed_to_failed" if good(was, limit) else "failed_to_passed"
                    expected.add((metric, model, original, copy, was, now, direction, how))
    assert found(run) == expected
    assert number == len(expected)
    rates = run.execute(
        "SELECT metric, model_key, perturbation, n_pairs, n_passed_to_failed + n_failed_to_passed, "
        "rate, ci_low, ci_high FROM flip_rates JOIN metrics USING (metric_id) JOIN models USING (model_id)"
    ).fetchall()
    assert {line[:5] for line in rates} == {(*key, len(flips), sum(flips)) for key, flips in pairs.items()}
    assert len(rates) == len(pairs)
    for *_, n, flipped, rate, low, high in rates:
        assert rate == flipped / n
        assert 0 <= low <= rate <= high <= 1


def test_models_are_never_compared_with_each_other(tmp_path: Path) -> None:
    rows = [answer("c", "a"), answer("p", "b", original="c")]
    store, made = make_run(tmp_path, rows=rows, scores=[Given("c", "a", 1.0), Given("p", "b", 0.0)])
    with open_run(store, made) as connection:
        assert find_flips(connection) == 0
        assert table(connection, "flip_rates") == []


def test_of_a_pass_fail_board_only_the_primary_metric_flips(tmp_path: Path) -> None:
    rows = [answer("c", "a"), answer("p", "a", original="c")]
    scores = board_scores("c", "a", generation=False) + board_scores("p", "a", generation=True, retrieval=True)
    store, made = make_run(tmp_path, rows=rows, evaluators=[Toy(metrics=BOARD, leaderboard="bool")], scores=scores)
    with open_run(store, made) as connection:
        assert find_flips(connection) == 1
        assert {line[0] for line in found(connection)} == {"passes"}


def test_trials_are_averaged_before_they_are_compared(tmp_path: Path) -> None:
    rows = [answer("c", "a"), answer("p", "a", original="c")]
    scores = [Given("c", "a", v, trial=t) for t, v in enumerate([1.0, 1.0, 0.4])]
    scores += [Given("p", "a", v, trial=t) for t, v in enumerate([1.0, 0.4, 0.4])]
    store, made = make_run(tmp_path, rows=rows, scores=scores)
    with open_run(store, made) as connection:
        assert find_flips(connection) == 1
        (flip,) = table(connection, "flips")
        assert (flip["original_value"], flip["perturbed_value"]) == pytest.approx((0.8, 0.6))


def test_without_perturbed_cases_there_is_nothing_and_old_flips_go(tmp_path: Path) -> None:
    store, made = make_run(tmp_path, rows=[answer("c", "a")], scores=[Given("c", "a", 1.0)])
    with open_run(store, made) as connection:
        connection.execute("INSERT INTO flips VALUES (0, 0, 0, 0, 0, 0, 1, 0, 0.5, 'passed_to_failed', NULL, NULL)")
        assert find_flips(connection) == 0
        assert table(connection, "flips") == []


def test_perturbations_with_too_many_names_are_counted_together(tmp_path: Path) -> None:
    rows = [answer("c", "a")] + [answer(f"p{i}", "a", original="c", perturbation=f"kind {i}") for i in range(101)]
    scores = [Given("c", "a", 1.0)] + [Given(f"p{i}", "a", 0.0) for i in range(101)]
    store, made = make_run(tmp_path, rows=rows, scores=scores)
    with open_run(store, made) as connection:
        assert find_flips(connection) == 101
        assert [line["perturbation"] for line in table(connection, "flip_rates")] == [""]
        assert len({line["perturbation"] for line in table(connection, "flips")}) == 101
