"""``leadline judges enrol``, ``check`` and ``status``: what they say of judges that nobody wrote into a file."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from leadline.cli.main import run
from tests.support.judges.changing_judge import ChangingJudge
from tests.support.judges.judge_endpoint import serving
from tests.support.judges.judged_run import register, write_rows


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    register()


def test_a_judge_that_only_a_model_names_is_told_by_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(Path("rows.jsonl"), 20)
    with serving(ChangingJudge()) as endpoint:
        monkeypatch.setenv("LEADLINE_JUDGE_API_BASE", endpoint.url)
        enrol = ["judges", "enrol", "openai/judge", "--probes", "rows.jsonl", "--n", "10", "-e", "test.brief"]
        assert run(enrol) == 0
        assert "Judge openai/judge is enrolled: 10 probes" in capsys.readouterr().out
        monkeypatch.setenv("LEADLINE_JUDGE", "openai/judge")
        enrolled = len(endpoint.log)
        assert run(["judges", "check"]) == 0
        first = capsys.readouterr().out
        assert re.match(r"Judge openai/judge steady.*, checked on 20\d\d-\d\d-\d\d at \d\d:\d\d UTC\.\n\Z", first)
        asked = len(endpoint.log)
        assert run(["judges", "check", "--cached"]) == 0
        assert "Nothing was asked: this is the day's check." in capsys.readouterr().err
        assert len(endpoint.log) == asked
        time.sleep(1.1)  # a check is known by its second
        assert run(["judges", "check"]) == 0
        assert "Nothing was asked" not in capsys.readouterr().err
        assert len(endpoint.log) - asked == asked - enrolled, "each probe once more"
    assert run(["judges", "status", "other"]) == 2
    assert "The judge 'other' is not enrolled; enrolled are openai/judge." in capsys.readouterr().err


def test_probes_of_nothing_are_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judges", "enrol", "openai/judge", "--probes", "gone.csv"]) == 2
    said = capsys.readouterr().err
    assert "There is neither a file nor a run 'gone.csv'." in said
    assert said.count("\n") == 1
    assert run(["judges", "status", "small"]) == 2
    assert "The judge 'small' is not enrolled. Enrol it" in capsys.readouterr().err
