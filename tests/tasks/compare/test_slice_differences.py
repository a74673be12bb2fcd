"""Comparing by slice: which cases count, what is beyond chance, what is noted, and where it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.compare import Comparison, Options, compare
from leadline.tasks.compare.verdicts import worst_slices
from leadline.tasks.db import open_run
from leadline.tasks.store.store import Store
from tests.support.stores.run_factory import Given, Toy, answer
from tests.tasks.compare.two_runs import LOWER, SCORE, SHARE, completed

EVIL = '<img src=x onerror="alert(1)">|`'


def by_region(root: Path, values: Sequence[Sequence[float]], regions: Sequence[str], **options: Any) -> Any:
    """Compare two runs of the same cases, which have slices by region, by the columns that are named."""
    columns = options.pop("columns", ("region",))
    rows = [answer(f"c{n:03d}", "m", metadata={"region": region}) for n, region in enumerate(regions)]
    runs = []
    for line in values:
        run = completed(root, {"m": line}, rows=rows, **options)
        with open_run(Store.open(root / "store"), run) as connection:
            find_slices(connection, names=("region",))
        runs.append(run.id)
    return compare(Store.open(root / "store"), *runs, Options(slices=columns))


REGIONS = ["north"] * 20 + [EVIL] * 20 + ["west"] * 5
BEFORE = [0.8] * 45
AFTER = [0.4 + 0.01 * (n % 3) for n in range(20)] + [0.9 + 0.01 * (n % 3) for n in range(20)] + [0.1] * 5


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A candidate that is worse in the north, better in another region, and in the west too rare to tell."""
    found: Comparison = by_region(tmp_path_factory.mktemp("mixed"), (BEFORE, AFTER), REGIONS)
    return found


def test_each_value_has_its_own_paired_difference_the_worst_first(mixed: Comparison) -> None:
    assert [(line.value, line.n, line.change) for line in mixed.slices] == [
        ("north", 20, "worse"), (EVIL, 20, "better"),
    ]  # fmt: skip
    worst = mixed.slices[0]
    assert worst.effect == pytest.approx(sum(AFTER[:20]) / 20 - 0.8)
    assert worst.ci_low is not None
    assert worst.ci_high is not None
    assert worst.ci_low < worst.effect < worst.ci_high < 0
    assert (worst.baseline, worst.candidate) == (pytest.approx(0.8), pytest.approx(sum(AFTER[:20]) / 20))


def test_values_with_fewer_than_ten_cases_are_noted(mixed: Comparison) -> None:
    assert "Not compared by slice, with fewer than 10 cases on both sides: rows with region = west." in mixed.notes


def test_slices_change_no_verdict(mixed: Comparison, tmp_path: Path) -> None:
    plain = by_region(tmp_path, (BEFORE, AFTER), REGIONS, columns=())
    assert plain.slices == ()
    assert (plain.verdict, plain.reason, plain.metrics) == (mixed.verdict, mixed.reason, mixed.metrics)


def test_page_markdown_and_json_show_them_and_texts_stay_texts(mixed: Comparison) -> None:
    page, gist = mixed.report.read_text(), (mixed.folder / "report.md").read_text()
    assert 'id="slices"' in page
    assert "<img" not in page
    line = next(line for line in gist.splitlines() if line.startswith("| rows with region = north"))
    assert line.endswith("| worse |")
    assert "Of 2 compared, 1 is worse beyond chance; worst: Toy 0.800 → 0.410 on rows with region" in gist
    record = json.loads((mixed.folder / "comparison.json").read_text())
    assert [(line["column"], line["value"], line["metric"]) for line in record["slices"]] == [
        ("region", "north", "toy.value"), ("region", EVIL, "toy.value"),
    ]  # fmt: skip


def test_looking_at_many_slices_is_corrected(tmp_path: Path) -> None:
    regions = [f"r{n // 10}" for n in range(100)]
    before = [1.0] * 100
    after = [0.0] * 6 + [1.0] * 94  # p = 2 / 2 ** 6 = 0.03 in the first of ten slices
    found = by_region(tmp_path, (before, after), regions, metric=SHARE)
    first = found.slices[0]
    assert (first.value, first.p, first.change) == ("r0", pytest.approx(1 / 32), "none shown")
    assert first.q == pytest.approx(10 / 32)
    assert worst_slices(found.slices).startswith(
        "Of 10 compared, none is worse beyond chance; worst: Toy 100.0 → 40.0 %"
    )


def test_where_lower_is_better_a_rise_is_worse_and_information_is_left_out(tmp_path: Path) -> None:
    toys = (
        Toy(metrics=(SCORE,)),
        Toy("other", metrics=(LOWER, SCORE.__class__("extra", "Extra", higher_is_better=True))),
    )
    rows = [answer(f"c{n:03d}", "m", categories=["tides"]) for n in range(12)]
    runs = []
    for shift in (0.0, 0.5):
        scores = [Given(row["case"], "m", 0.5) for row in rows]
        scores += [Given(row["case"], "m", 0.1 + shift, "harm", "other") for row in rows]
        scores += [Given(row["case"], "m", 0.1, "extra", "other") for row in rows]
        run = completed(tmp_path, scores, rows=rows, evaluators=toys)
        with open_run(Store.open(tmp_path / "store"), run) as connection:
            find_slices(connection, names=("category",))
        runs.append(run.id)
    found = compare(Store.open(tmp_path / "store"), *runs, Options(slices=("category",)))
    assert [(line.metric, line.change) for line in found.slices] == [
        ("other.harm", "worse"),
        ("toy.value", "none shown"),
    ]
    assert found.slices[0].effect == pytest.approx(-0.5)


def test_a_column_that_a_run_has_no_slices_by_is_refused_with_those_that_both_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Neither run has slices by 'nothing'\. Both runs have: region\.") as refused:
        by_region(tmp_path, (BEFORE, AFTER), REGIONS, columns=("nothing",))
    assert refused.value.code is ErrorCode.COMPARE_NO_SLICE
    sliced, plain = Store.open(tmp_path / "store").runs()[-1], completed(tmp_path, {"m": [0.5]})
    with pytest.raises(UsageError, match="The candidate's run has no slices by 'region'"):
        compare(Store.open(tmp_path / "store"), sliced.id, plain.id, Options(slices=("region",)))


def test_a_case_is_in_a_slice_if_it_is_on_both_sides(tmp_path: Path) -> None:
    store, runs = Store.open(tmp_path / "store"), []
    for cut in (15, 25):  # ten cases moved from south to north between the runs
        rows = [answer(f"c{n:03d}", "m", metadata={"region": "north" if n < cut else "south"}) for n in range(40)]
        run = completed(tmp_path, {"m": [0.5] * 40}, rows=rows)
        with open_run(store, run) as connection:
            find_slices(connection, names=("region",))
        runs.append(run.id)
    found = compare(store, *runs, Options(slices=("region",)))
    assert {line.value: line.n for line in found.slices} == {"north": 15, "south": 15}


def test_without_enough_cases_in_any_slice_one_note_says_so(tmp_path: Path) -> None:
    found = by_region(tmp_path, ([0.5] * 6, [0.5] * 6), ["north", "south"] * 3)
    assert found.slices == ()
    assert "By slice nothing was compared: no tested metric has 10 cases of a slice on both sides." in found.notes
