"""``leadline judges certify``: a judge over real HTTP, asked about the rows that people labelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.labelled_answers import METRIC, judge_of_accuracy, labelled_by_people, write_settings

ROWS = 150


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    return tmp_path


def _endpoint() -> JudgeEndpoint:
    return judge_of_accuracy({"good": 0.95, "other": 0.95, "coin": 0.5})


def _certificate(capsys: pytest.CaptureFixture[str], name: str = "latest") -> dict[str, object]:
    capsys.readouterr()
    assert run(["show", name, "--json"]) == 0
    [certificate] = json.loads(capsys.readouterr().out)["certificates"]
    return certificate


def test_a_stale_certificate_is_earned_anew_by_judging_the_labelled_rows_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(_endpoint()) as endpoint:
        write_settings(here, endpoint.url, {"good": "good", "other": "other", "coin": "coin"})
        labelled_by_people(here, ROWS)
        later = here / "later.jsonl"
        lines = [
            {"case": f"d{n}", "model": "bot", "question": f"Question {n}?", "actual_answer": f"Answer {n} is fine. "}
            for n in range(30)
        ]
        later.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert run(["--quiet", "evaluate", str(later), "-e", "sexism", "--judge", "other"]) == 0
        assert (_certificate(capsys)["state"], _certificate(capsys)["to_judge"]) == ("stale", ROWS)

        asked = len(endpoint.log)
        assert run(["judges", "certify", "latest", "--dry-run"]) == 0
        assert f"{ROWS} rows to judge, 0 known; at most about {ROWS} calls" in capsys.readouterr().err
        assert len(endpoint.log) == asked
        assert run(["judges", "certify", "latest", "--metric", METRIC]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{METRIC} · {ROWS} labelled rows of 1 person\n  κ 0.")
        assert out.rstrip().endswith(": valid")
        assert len(endpoint.log) == asked + ROWS

        shown = _certificate(capsys)
        assert (shown["state"], shown["borrowed"], shown["n_labels"]) == ("valid", True, ROWS)
        assert run(["judges", "certify", "latest", "--held-out", "--json"]) == 0
        assert len(endpoint.log) == asked + ROWS
        held_out = json.loads(capsys.readouterr().out)
        assert held_out["held_out"]
        assert 40 < held_out["n_labels"] < 80
        assert run(["judges", "certify", "latest", "--judge", "coin"]) == 1
        said = capsys.readouterr()
        assert "failed: the judge hardly tells good from bad" in said.out
        assert "no longer those of run" in said.err


def test_a_budget_leaves_rows_unjudged_and_the_next_call_asks_only_about_these(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(_endpoint()) as endpoint:
        write_settings(here, endpoint.url, {"good": "good", "other": "other"})
        labelled_by_people(here, ROWS)
        asked = len(endpoint.log)
        assert run(["judges", "certify", "latest", "--judge", "other", "--max-calls", "20"]) == 1
        assert len(endpoint.log) == asked + 20
        assert f"{ROWS - 20} labelled rows without a verdict of the judge" in capsys.readouterr().out
        assert run(["judges", "certify", "latest", "--judge", "other"]) == 0
        assert len(endpoint.log) == asked + ROWS


def test_labels_that_are_imported_stand_beside_the_run_of_which_they_were_drawn(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(_endpoint()) as endpoint:
        write_settings(here, endpoint.url, {"good": "good"})
        labelled_by_people(here, ROWS)
        assert run(["labels", "export", "-o", "said.jsonl"]) == 0
        lines = Path("said.jsonl").read_text().splitlines()
        Path("second.jsonl").write_text("".join(line.replace('"anna"', '"ben"') + "\n" for line in lines))
        assert run(["labels", "import", "second.jsonl"]) == 0
        assert "Corrected by them: leadline show" in capsys.readouterr().err
        assert run(["show", "latest"]) == 0
        out = capsys.readouterr().out
        assert f"  {METRIC}\n    bot: judge " in out
        assert f"{ROWS} labels of 2 people\n    certificate: κ 0." in out
        assert run(["labels", "report", "latest", "--metric", METRIC]) == 0
        reported = capsys.readouterr().out
        [shown] = [line for line in out.splitlines() if "corrected" in line]
        assert shown.partition("corrected ")[2].partition(" (")[0] in reported


def test_people_who_label_are_shown_what_the_judge_was_asked(here: Path) -> None:
    with serving(_endpoint()) as endpoint:
        write_settings(here, endpoint.url, {"good": "good"})
        labelled_by_people(here, ROWS)
        assert run(["labels", "sample", "latest", "--metric", METRIC, "-o", "page.html"]) == 0
        page = (here / "page.html").read_text()
        assert "How to judge: what the judge is asked" in page
        assert "determine whether the text contains sexist language" in page
        assert run(["labels", "sample", "latest", "--question", "right", "-o", "page.html"]) == 0
        assert "sexist language" not in (here / "page.html").read_text()
