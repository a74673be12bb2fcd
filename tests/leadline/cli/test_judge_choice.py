"""``leadline judges compare``: over real HTTP, with judges of a known accuracy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.labelled_answers import judge_of_accuracy, labelled_by_people, write_settings

ROWS = 100


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeEndpoint]:
    folder = tmp_path_factory.mktemp("compare")
    accuracy = {"weak": 0.7, "twin": 0.7, "good": 0.95}
    with pytest.MonkeyPatch.context() as patch, serving(judge_of_accuracy({**accuracy, "fresh": 0.8})) as endpoint:
        patch.chdir(folder)
        patch.delenv("LEADLINE_STORE", raising=False)
        write_settings(folder, endpoint.url, {name: name for name in accuracy})
        labelled_by_people(folder, ROWS)
        yield endpoint


@pytest.fixture(autouse=True)
def _here(judges: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEADLINE_STORE", raising=False)


def test_nobody_is_asked_in_a_dry_run(judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    asked = len(judges.log)
    assert run(["judges", "compare", "weak", "good", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert not out
    assert "weak: all 100 rows are judged already, 0 calls." in err
    assert len(judges.log) == asked


def test_the_better_judge_is_found_and_nothing_is_asked_twice(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judges", "compare", "weak", "good", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = len(judges.log)
    [pair] = found["pairs"]
    assert pair["better"] == "good"
    assert pair["sentence"].startswith("good agrees with people more often than weak: +")
    assert pair["test"] == "mcnemar"
    assert pair["p_adjusted"] == pair["p"] < 0.001
    weak, good = found["judges"]
    assert pair["effect"] == pytest.approx(good["agreed"]["accuracy"]["value"] - weak["agreed"]["accuracy"]["value"])
    assert good["costs"]["calls"] == 1
    assert good["costs"]["usd_per_1000"] > 0
    assert 0 < good["costs"]["seconds_median"] <= good["costs"]["seconds_p95"]
    assert run(["judges", "compare", "good", "weak"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sexism.no_sexism_pass · 100 labelled rows of 1 person\n")
    assert "good agrees with people more often than weak: +" in out
    assert len(judges.log) == asked


def test_equal_judges_are_not_told_apart_and_p_values_are_corrected(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judges", "compare", "weak", "twin", "good", "--json"]) == 0
    pairs = {(pair["first"], pair["second"]): pair for pair in json.loads(capsys.readouterr().out)["pairs"]}
    assert pairs["weak", "twin"]["better"] == ""
    assert "not told apart" in pairs["weak", "twin"]["sentence"]
    assert {pairs["weak", "good"]["better"], pairs["twin", "good"]["better"]} == {"good"}
    assert all(pair["p_adjusted"] >= pair["p"] for pair in pairs.values())


def test_the_held_out_half_is_a_part_of_the_rows_that_is_always_the_same(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    halves = []
    for _ in range(2):
        assert run(["judges", "compare", "weak", "good", "--held-out", "--json"]) == 0
        halves.append(json.loads(capsys.readouterr().out))
    assert halves[0] == halves[1]
    assert 30 < halves[0]["rows"] < 70
    assert halves[0]["held_out"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["weak"], "One judge alone cannot be compared."),
        (["weak", "weak"], "'weak' is named twice"),
        (["weak", "good", "--labels", "nobody"], "no set of labels 'nobody'"),
        (["weak", "good", "--metric", "bleu"], "no labels of 'bleu'"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(
    names: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judges", "compare", *names]) == 2
    assert says in capsys.readouterr().err


def test_a_budget_that_is_too_small_says_what_is_missing(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["judges", "compare", "weak", "openai/fresh", "--judge-api-base", judges.url]
    assert run([*arguments, "--max-calls", "0"]) == 3
    err = capsys.readouterr().err
    assert "openai/fresh: 100 rows to judge, 0 known; at most about 100 calls, price unknown." in err
    assert "0 rows; 10 are needed" in err


def test_a_jury_learns_whom_to_believe_and_what_it_prints_is_a_jury(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Path("leadline.toml")
    plain = settings.read_text(encoding="utf-8")
    panel = '\n[judges.panel]\njury = ["weak", "twin", "good"]\n'
    try:
        settings.write_text(plain + panel, encoding="utf-8")
        assert run(["judges", "train", "panel"]) == 0
        out, err = capsys.readouterr()
        table = tomllib.loads(out)["judges"]["panel"]
        assert table["combine"] == "dawid-skene"
        weights = table["weights"]["sexism.no_sexism_pass"]["judges"]
        assert weights["good"]["passes"] > weights["weak"]["passes"]
        assert weights["good"]["catches"] > weights["weak"]["catches"]
        assert "dawid-skene: agrees on " in err
        assert "held out" in err
        asked = len(judges.log)
        settings.write_text(plain + out, encoding="utf-8")
        assert run(["judges", "compare", "panel", "weak", "--held-out", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(judges.log) == asked  # every reply is in the ledger
        assert found["judges"][0]["costs"]["calls"] == 3
        assert found["pairs"][0]["better"] == "panel"
    finally:
        settings.write_text(plain, encoding="utf-8")


def test_only_a_jury_learns(judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judges", "train", "weak"]) == 2
    assert "'weak' is no jury" in capsys.readouterr().err
