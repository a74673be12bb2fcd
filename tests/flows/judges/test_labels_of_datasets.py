"""Judges held against labels that came with a dataset, over real HTTP: no set of labels is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.labelled_answers import METRIC, answers_file, is_bad, judge_of_accuracy, write_settings

ROWS = 120


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeEndpoint]:
    """Judges, and a store with a run of answers each of which its dataset has a label of."""
    folder = tmp_path_factory.mktemp("labelled")
    names = {"weak": 0.7, "good": 0.95}
    with pytest.MonkeyPatch.context() as patch, serving(judge_of_accuracy(names)) as endpoint:
        patch.chdir(folder)
        patch.delenv("LEADLINE_STORE", raising=False)
        write_settings(folder, endpoint.url, {name: name for name in names})
        _evaluate(folder, ROWS)
        yield endpoint


def _evaluate(folder: Path, labelled: int) -> None:
    """Evaluate answers of which the dataset has labels of the first."""
    path = answers_file(folder, ROWS)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(rows[:labelled]):
        row["labels"] = {"sexism": int(not is_bad(number))}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run(["--quiet", "evaluate", str(path), "-e", "sexism", "--server", "none"]) == 0


@pytest.fixture(autouse=True)
def _here(judges: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEADLINE_STORE", raising=False)


def test_judges_are_compared_by_them(judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judges", "compare", "weak", "good", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["question"], found["rows"], found["people"], found["missing"]) == (METRIC, ROWS, 1, 0)
    assert found["pairs"][0]["better"] == "good"
    assert run(["judges", "compare", "weak", "good", "--labels", "labels"]) == 2
    assert "no set of labels 'labels'" in capsys.readouterr().err


def test_a_jury_learns_from_them(judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Path("leadline.toml")
    plain = settings.read_text(encoding="utf-8")
    try:
        settings.write_text(plain + '\n[judges.panel]\njury = ["weak", "good"]\n', encoding="utf-8")
        assert run(["judges", "train", "panel"]) == 0
        assert 'combine = "dawid-skene"' in capsys.readouterr().out
    finally:
        settings.write_text(plain, encoding="utf-8")


def test_a_judge_is_certified_on_rows_that_all_have_one_and_that_certificate_is_not_kept(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judges", "certify", "latest", "--judge", "good"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{METRIC} · {ROWS} labelled rows of 1 person\n  κ 0.")
    assert said.out.rstrip().endswith(": valid")
    assert "the certificate is not kept" in said.err
    assert not Path(".leadline/labels").exists()


def test_rows_of_which_only_some_have_a_label_certify_nobody(
    judges: JudgeEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    _evaluate(Path(), ROWS - 1)
    capsys.readouterr()
    assert run(["judges", "certify", "latest", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["n_labels"]) == ("not drawn", ROWS - 1)
