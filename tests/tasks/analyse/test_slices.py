"""Slices: which columns are taken, their numbers against plain Python, and the tests against the exact ones."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from leadline.evaluators.core import Metric
from leadline.evaluators.ground import UsageError
from leadline.tasks.analyse import slices as module
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.slices import (
    LEAST_CASES,
    ChosenColumn,
    find_slices,
    permutation_p,
    require_columns,
    slice_in_words,
)
from leadline.tasks.db import open_run
from leadline.tasks.statistics.statistics import Sample, benjamini_hochberg, mean_interval
from tests.support.stores.run_factory import Given, Toy, answer, fill, make_run, table


def sliced(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    values: Sequence[float | str],
    *,
    names: Sequence[str] = (),
    toys: Sequence[Toy] = (Toy(),),
) -> tuple[ChosenColumn, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the columns, the lines and the members of a run in which each row has one value."""
    given_scores = [Given(row["case"], row["model"], value) for row, value in zip(rows, values, strict=True)]
    store, run = make_run(folder, rows=rows, scores=given_scores, evaluators=toys)
    with open_run(store, run) as connection:
        aggregate(connection)
        chosen, number = find_slices(connection, names=names)
        lines = table(connection, "slices")
        assert len(lines) == number
        return chosen, lines, table(connection, "slice_rows")


def cases(n: int, models: str = "a", **columns: Any) -> list[dict[str, Any]]:
    """Return rows of ``n`` cases; a column is a function of the case's number."""
    return [answer(f"c{i}", m, **{name: of(i) for name, of in columns.items()}) for i in range(n) for m in models]


# Columns


def test_categories_metadata_and_lengths_with_few_values_are_columns_and_others_are_left_out_with_a_reason(
    tmp_path: Path,
) -> None:
    rows = cases(
        60,
        categories=lambda i: ["tides" if i % 2 else "dues", "perturbed", "perturbed_by:x"],
        question=lambda i: "What is it?" if i % 3 else "What is it that is meant by all of this?",
        metadata=lambda i: {
            "region": "north" if i < 30 else "south", "half": i < 30, "id": str(i), "one": 1, "nested": {"x": i % 2},
            "rare": i // 4, "category": "x" if i % 5 else "y",
        },
    )  # fmt: skip
    chosen, _, members = sliced(tmp_path, rows, [0.5] * 60)
    assert set(chosen.columns) == {"category", "question_length", "half", "metadata.category"}
    assert {m["slice_value"] for m in members if m["slice_column"] == "category"} == {"tides", "dues"}
    assert chosen.left_out["id"] == "it has 60 values, more than 20"
    assert chosen.left_out["one"] == "it has one value"
    assert chosen.left_out["region"] == "it says the same as half"
    assert "fewer than 5 cases" in chosen.left_out["rare"]


def test_columns_that_are_named_are_taken_alone_whatever_they_hold(tmp_path: Path) -> None:
    rows = cases(
        30, categories=lambda i: [f"k{i % 2}"], metadata=lambda i: {"id": str(i), "region": "n" if i % 2 else "s"}
    )
    chosen, lines, _ = sliced(tmp_path / "1", rows, [0.5] * 30, names=["id"])
    assert chosen.columns == ("id",)
    assert len(lines) == 20
    assert chosen.left_out["id, further values"] == "10 values with fewer cases"
    assert sliced(tmp_path / "2", rows, [0.5] * 30, names=["none"])[1:] == ([], [])


def test_an_unknown_column_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    store, run = make_run(tmp_path, rows=cases(3, metadata=lambda i: {"region": "n"}))
    with open_run(store, run) as connection:
        require_columns(connection, ["none"])
        require_columns(connection, ["region", "language"])
        with pytest.raises(UsageError, match="no column 'regoin'") as refused:
            require_columns(connection, ["regoin"])
    assert "region" in str(refused.value.hint)


def test_a_language_is_guessed_from_short_words_and_scripts_unless_the_metadata_name_it(tmp_path: Path) -> None:
    texts = [
        "How high is the tide in the harbour?",
        "Wie hoch ist die Tide und wann ist der Hafen offen?",
        "潮はどのくらい?",
    ]
    rows = cases(36, question=lambda i: texts[i % 3] + f" {i}")
    _, _, members = sliced(tmp_path / "1", rows, [0.5] * 36)
    assert {m["slice_value"] for m in members if m["slice_column"] == "language"} == {"en", "de", "ja"}
    named = cases(36, question=lambda i: texts[i % 3], metadata=lambda i: {"lang": "xx" if i % 2 else "yy"})
    _, _, members = sliced(tmp_path / "2", named, [0.5] * 36)
    assert {m["slice_value"] for m in members if m["slice_column"] == "language"} == {"xx", "yy"}
    chosen, _, _ = sliced(tmp_path / "3", cases(36, question=lambda i: texts[0]), [0.5] * 36)
    assert "fewer than two languages" in chosen.left_out["language"]


def test_a_word_that_repeats_tells_a_language_once_and_words_are_counted_whatever_stands_between_them(
    tmp_path: Path,
) -> None:
    texts = [
        "der der Hafen",
        "a b c d e",
        "a b  c d e",
        " a b c d e ",
        "a\tb\r\nc d\ne f",
        "ä b ç d e f",
        "日本 語",
        "  ",
        "a",
    ]
    expected = {0: 3, 1: 5, 2: 5, 3: 5, 4: 6, 5: 6, 8: 1}
    rows = cases(len(texts), question=lambda i: texts[i])
    _, _, members = sliced(tmp_path, rows, [0.5] * len(texts), names=["question_length", "language"])
    lengths = {m["row_id"]: m["slice_value"] for m in members if m["slice_column"] == "question_length"}
    assert lengths == {row: "1 to 5 words" if n <= 5 else "6 to 10 words" for row, n in expected.items()}
    assert {m["row_id"]: m["slice_value"] for m in members if m["slice_column"] == "language"} == {6: "zh"}


def test_perturbed_copies_and_the_outcome_of_retrieval_are_slices(tmp_path: Path) -> None:
    found = {"context": [["text", "a.md"], ["text", None]]}
    rows = [
        answer("c0", "a", documents=["a.md"], **found),
        answer("c1", "a", documents=["b.md"], **found),
        answer("c2", "a", documents=["b.md"], context=[]),
        answer("c3", "a", **found),
        answer("p0", "a", original="c0", perturbation="typo", documents=["a.md"], error="down"),
        answer("p1", "a", original="c0", perturbation="", documents=["a.md"], context=["no name"]),
        answer("c0", "plain", documents=["a.md"]),
    ]
    _, _, members = sliced(tmp_path, rows, [0.5] * 7)
    by_column: dict[str, dict[int, str]] = {}
    for member in members:
        by_column.setdefault(member["slice_column"], {})[member["row_id"]] = member["slice_value"]
    assert by_column["perturbation"] == {0: "none", 1: "none", 2: "none", 3: "none", 4: "typo", 5: "unnamed", 6: "none"}
    assert by_column["retrieval"] == {
        0: "expected document retrieved", 1: "expected document missed", 2: "nothing retrieved",
        3: "something retrieved",
    }  # fmt: skip


def test_a_slice_is_named_in_words_with_hostile_values_made_visible() -> None:
    assert slice_in_words("category", "tides") == "rows of category tides"
    assert slice_in_words("question_length", "6 to 10 words") == "questions of 6 to 10 words"
    assert slice_in_words("perturbation", "typo") == "questions perturbed by typo"
    assert slice_in_words("region", "a\x1b[31m\nb") == "rows with region = a\\x1b[31m\\nb"


# Numbers


KINDS = [(f"c{i}", "ab"[i % 2], "xyz"[i % 3], i % 4 == 0) for i in range(24)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    rows = [answer(case, m, categories=[k], metadata={"kind": k, "n": n}) for case, m, k, n in KINDS]
    store, made = make_run(tmp_path_factory.mktemp("slices"), rows=rows)
    with open_run(store, made) as connection:
        yield connection


drawn_values = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.75, "", "timeout"]))


@settings(max_examples=15, deadline=None)
@given(st.lists(drawn_values, min_size=24, max_size=24), st.sampled_from([1, 5_000]))
def test_values_and_counts_are_those_of_plain_python(
    run: duckdb.DuckDBPyConnection, values: list[float | str], most: int
) -> None:
    fill(run, [Toy()], [Given(case, m, value) for (case, m, *_), value in zip(KINDS, values, strict=True)])
    aggregate(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_COMBINATIONS", most)
        find_slices(run, names=["category", "n"])
    for line in table(run, "slices"):
        every = [
            (k if line["slice_column"] == "category" else str(n).lower(), value)
            for (_, m, k, n), value in zip(KINDS, values, strict=True)
            if line["model_id"] in (None, "ab".index(m))
        ]
        inside = [value for kind, value in every if kind == line["slice_value"]]
        numbers = [value for value in inside if not isinstance(value, str)]
        outside = [v for kind, v in every if kind != line["slice_value"] and not isinstance(v, str)]
        assert (line["n_rows"], line["n_scored"], line["n_unscored"], line["n_pass"]) == (
            len(inside), len(numbers), inside.count("timeout"), sum(v >= 0.75 for v in numbers),
        )  # fmt: skip
        assert line["value"] == (pytest.approx(statistics.fmean(numbers), abs=1e-9) if numbers else None)
        assert line["rest_value"] == (pytest.approx(statistics.fmean(outside), abs=1e-9) if outside else None)
        if numbers and outside and line["model_id"] is not None:
            assert line["difference"] == pytest.approx(line["value"] - line["rest_value"], abs=1e-9)


def test_the_slice_that_differs_is_found_and_the_others_are_not(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = cases(120, "ab", categories=lambda i: [f"k{i % 6}"], metadata=lambda i: {"half": "l" if i < 60 else "r"})
    values = [draw.gauss(0.3 if row["categories"] == ["k4"] else 0.7, 0.1) for row in rows]
    _, lines, _ = sliced(
        tmp_path, rows, values, toys=[Toy(metrics=[Metric("value", "V", True, (-9.0, 9.0), primary=True)])]
    )
    found = [
        line for line in lines if line["q_value"] is not None and line["q_value"] <= 0.05 and line["difference"] < 0
    ]
    assert {(line["slice_column"], line["slice_value"], line["model_id"]) for line in found} == {
        ("category", "k4", 0), ("category", "k4", 1), ("category", "k4", None),
    }  # fmt: skip
    assert lines[0]["slice_value"] == "k4"
    assert all(line["ci_low"] < line["value"] < line["ci_high"] for line in lines)


def test_copies_of_a_case_count_as_one_and_few_cases_are_not_compared(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", "a", categories=["x" if i < 5 else "y"]) for i in range(30)]
    rows += [
        answer(f"p{j}-{i}", "a", categories=["x" if i < 5 else "y"], original=f"c{i}", perturbation="typo")
        for i in range(30)
        for j in range(10)
    ]
    _, lines, _ = sliced(tmp_path, rows, [float(row["categories"] == ["y"]) for row in rows], names=["category"])
    few = next(line for line in lines if line["slice_value"] == "x")
    assert (few["n_rows"], few["n_cases"]) == (55, 5)
    assert few["p_value"] is few["q_value"] is None
    assert few["ci_high"] > 0.3  # as of five cases, not of 55 rows


@pytest.mark.parametrize(("outside", "tested"), [(9, False), (10, True)])
def test_a_slice_is_held_against_the_rest_only_where_the_rest_has_enough_cases(
    tmp_path: Path, outside: int, tested: bool
) -> None:
    assert LEAST_CASES == 10
    rows = cases(60, categories=lambda i: ["rest" if i < outside else "most"])
    values = [float(i % 2) for i in range(60)]
    _, lines, _ = sliced(tmp_path, rows, values, names=["category"])
    assert {line["slice_value"]: line["p_value"] is not None for line in lines if line["model_id"] is not None} == {
        "rest": tested, "most": tested,
    }  # fmt: skip


def test_the_interval_of_a_skewed_slice_is_that_of_its_rows(tmp_path: Path) -> None:
    bounded = Toy(metrics=[Metric("value", "V", True, (0.0, 1.0), primary=True)])
    rows = cases(60, categories=lambda i: ["x" if i % 2 else "y"])
    values = [(0.9 if i % 12 < 10 else 0.1) if i % 2 else 0.2 for i in range(60)]
    _, lines, _ = sliced(tmp_path, rows, values, names=["category"], toys=[bounded])
    line = next(each for each in lines if each["slice_value"] == "x" and each["model_id"] is not None)
    own = np.array(values[1::2])
    mean = own.mean()
    sample = Sample(
        n=30, mean=mean, squares=((own - mean) ** 2).sum(), cubes=((own - mean) ** 3).sum(), constant=False,
        low=0.0, high=1.0, share=False,
    )  # fmt: skip
    interval = mean_interval(sample)
    assert (line["ci_low"], line["ci_high"]) == pytest.approx((interval.low, interval.high))


def test_infinite_values_and_models_without_scores_are_no_error(tmp_path: Path) -> None:
    free = Toy(metrics=[Metric("value", "V", False, (0.0, float("inf")), primary=True)])
    rows = cases(40, "ab", categories=lambda i: [f"k{i % 2}"])
    values: list[float | str] = [
        "" if row["model"] == "b" else float("inf") if i == 0 else 1.0 for i, row in enumerate(rows)
    ]
    _, lines, _ = sliced(tmp_path, rows, values, toys=[free])
    assert all(line["q_value"] is None for line in lines)


# Tests against the exact ones


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1)))
def test_q_values_are_those_of_scipy(p_values: np.ndarray) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values), abs=1e-12)


def test_p_values_of_shares_are_near_those_of_the_hypergeometric_distribution_or_larger() -> None:
    for population, ones, drawn in ((60, 6, 12), (200, 4, 10), (400, 200, 30), (100, 90, 50), (1000, 20, 100)):
        exact = stats.hypergeom(population, ones, drawn)
        share = ones / population
        for seen in range(max(0, drawn + ones - population), min(ones, drawn) + 1):
            tail = exact.sf(seen - 1) if seen / drawn > share else exact.cdf(seen)
            if not 1e-9 < tail < 0.2:
                continue
            (p,) = permutation_p(
                np.array([seen / drawn - share]), variance=np.array([share * (1 - share)]),
                third=np.array([share * (1 - share) * (1 - 2 * share)]), drawn=np.array([float(drawn)]),
                population=np.array([float(population)]), step=np.array([1.0]),
            )  # fmt: skip
            assert p > 0.6 * 2 * tail, (population, ones, drawn, seen)
            assert p < 4 * 2 * tail or tail < 1e-3, (population, ones, drawn, seen)


@pytest.mark.parametrize("name", ["uniform", "skewed", "thirds", "lognormal"])
def test_slices_that_do_not_differ_have_small_p_values_as_rarely_as_they_should(name: str) -> None:
    rng = np.random.default_rng(1)
    made = {
        "uniform": lambda: rng.random(80), "skewed": lambda: rng.beta(8, 1, 80),
        "thirds": lambda: rng.integers(0, 4, 80) / 3, "lognormal": lambda: rng.lognormal(0, 1, 80),
    }[name]  # fmt: skip
    samples = np.stack([made() for _ in range(4000)])
    mean = samples.mean(1)
    centred = samples - mean[:, None]
    p = permutation_p(
        centred[:, :12].mean(1), variance=(centred**2).mean(1), third=(centred**3).mean(1), drawn=np.full(4000, 12.0),
        population=np.full(4000, 80.0), step=np.zeros(4000),
    )  # fmt: skip
    assert (p <= 0.05).mean() <= 0.06
    assert (p <= 0.01).mean() <= 0.014
    assert (p <= 0.2).mean() >= 0.15
