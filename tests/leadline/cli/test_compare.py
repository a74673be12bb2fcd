"""``leadline compare`` and ``leadline store tag``: what they take, print and leave with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.tasks.runs.lookup import set_tag
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy
from tests.tasks.compare.two_runs import LOWER, SCORE, cases, completed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store with three runs: as it was, the same again, and much worse."""
    root = tmp_path_factory.mktemp("made")
    store = Store.open(root / "store")
    values = [0.6 + 0.01 * (n % 5) for n in range(30)]
    made: list[Run] = []
    for line in (values, values, [value - 0.3 + 0.01 * (n % 3) for n, value in enumerate(values)]):
        made.append(completed(root, {"m": line}, versions={"m": f"v{len(made)}"}))
    for name, found in zip(("before", "same", "after"), made, strict=True):
        set_tag(store, found, name)
    return store.root, [found.id for found in made]


@pytest.fixture
def runs(made: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The ids of these runs, in a store of this test's own."""
    shutil.copytree(made[0], tmp_path / "store")
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    return made[1]


def test_a_pass_leaves_with_0(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", runs[0], runs[1]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Verdict   PASS: ")
    assert "toy.value" in out
    assert "report.html" in out


@pytest.mark.parametrize(("fail_on", "code"), [("inconclusive", 1), ("fail", 1), ("never", 0)])
def test_a_fail_leaves_with_1_unless_told_otherwise(
    runs: list[str], capsys: pytest.CaptureFixture[str], fail_on: str, code: int
) -> None:
    assert run(["compare", "--baseline", "tag:before", "tag:after", "--fail-on", fail_on]) == code
    out = capsys.readouterr().out
    assert out.startswith("Verdict   FAIL: Toy 0.620 → 0.330, 0 fixed, 30 broken (worse)")
    assert "now fail: c0" in out


@pytest.mark.parametrize(("fail_on", "code"), [("inconclusive", 1), ("fail", 0)])
def test_an_inconclusive_comparison_leaves_with_1_unless_only_fail_matters(
    runs: list[str], fail_on: str, code: int
) -> None:
    # Of exactly this margin no number of rows can tell.
    assert run(["compare", "tag:before", "tag:after", "--margin", "toy.value=0.29", "--fail-on", fail_on]) == code


def test_versions_of_a_model(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--model", "m", "--versions", "v0", "v2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["baseline"]["run"], found["candidate"]["run"]) == (runs[0], runs[2])
    assert found["metrics"][0]["models"] == {"baseline": "m", "candidate": "m"}
    assert Path(found["report"]).exists()


def test_files_are_copied(runs: list[str], tmp_path: Path) -> None:
    assert run(["compare", runs[0], runs[1], "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name what to compare with"),
        (["a", "b", "c"], "one run too many"),
        (["a", "b", "--baseline", "c"], "one run too many"),
        (["latest", "--versions", "1", "2"], "one run too many"),
        (["--versions", "1", "2"], "need a model"),
        (["latest", "latest"], "Both sides"),
        (["nowhere", "latest"], "no run 'nowhere'"),
        (["tag:before", "tag:after", "--margin", "much"], "not a number"),
        (["tag:before", "tag:after", "--margin", "2"], "margin"),
        (["tag:before", "tag:after", "--margin", "toy.value=-1"], "not 0 or more"),
        (["tag:before", "tag:after", "--map", "m"], "not a pair"),
        (["tag:before", "tag:after", "--alpha", "2"], "alpha"),
        (["tag:before", "tag:after", "-m", "nothing"], "Neither run has the metric"),
        (["tag:before", "tag:after:other"], "no model 'other'"),
        (["tag:before", "tag:after", "--slice", "nothing"], "Neither run has slices by 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_2(
    runs: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    capsys.readouterr()
    assert run(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_tags_are_listed_moved_and_removed(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "tag", runs[2], "before"]) == 0
    assert f"{runs[0]} was" in capsys.readouterr().err
    assert run(["store", "tag", "--json"]) == 0
    listed = {line["tag"]: line["run"] for line in json.loads(capsys.readouterr().out)}
    assert listed == {"before": runs[2], "same": runs[1], "after": runs[2]}
    assert run(["store", "tag", runs[2], "before", "--remove"]) == 0
    assert run(["store", "tag"]) == 0
    assert "before" not in capsys.readouterr().out
    assert run(["store", "tag", runs[2]]) == 2
    assert run(["show", "tag:same"]) == 0


def test_a_metric_of_one_side_is_printed_as_not_compared_and_changes_no_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    toys = (Toy(metrics=(SCORE,)), Toy("other", metrics=(LOWER,)))
    scores = [Given("c000", "m", 0.5), Given("c000", "m", 0.9, "harm", "other")]
    both = completed(tmp_path, scores, rows=cases(1), evaluators=toys).id
    one = completed(tmp_path, {"m": [0.5]}).id
    for sides, has in (((both, one), "baseline"), ((one, both), "candidate")):
        assert run(["compare", *sides]) == 0
        out = capsys.readouterr().out
        line = next(line for line in out.splitlines() if line.startswith("other.harm"))
        assert line.split() == ["other.harm", *["-"] * 9, "not", "compared"]
        assert f"NOT COMPARED  other.harm: Only the {has}'s run measured it" in out
        assert run(["compare", *sides, "--json"]) == 0
        metrics = json.loads(capsys.readouterr().out)["metrics"]
        assert [(found["verdict"], found["margin"]) for found in metrics if found["key"] == "other.harm"] == [
            ("one_sided", None)
        ]
