"""``leadline doctor``: one line for each thing, with what to do; a key is never shown."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leadline.cli import examinations as machine
from leadline.cli.examinations import Diagnosis, State, diagnose
from leadline.cli.main import run
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import Fault, JudgeEndpoint, serving

KEY = "sk-never-shown-0123456789abcdef"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    for name in ("LEADLINE_STORE", "LEADLINE_JUDGE", "LEADLINE_LEDGER", "PREFECT_API_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, str]]]:
    capsys.readouterr()
    code = run(["doctor", "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def of(part: str, lines: list[dict[str, str]]) -> list[dict[str, str]]:
    return [line for line in lines if line["part"].split(" ")[0] == part]


def test_a_fresh_machine_is_fine_and_nothing_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = found(capsys)
    assert code == 0
    parts = {line["part"].split(" ")[0] for line in lines}
    assert parts == {
        "python", "extra", "weights", "leadline.toml", "judge", "server", "store", "disk", "clock", "limits"
    }  # fmt: skip
    assert of("store", lines)[0]["found"] == ".leadline is not there yet; the first run makes it"
    assert of("judge", lines)[0]["state"] == "missing"
    assert list(folder.iterdir()) == []


def test_people_get_a_line_each_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("ok       python")
    assert said[-1].endswith("0 broken.")


def test_all_faults_of_the_settings_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "leadline.toml").write_text(
        'canaries = "nowhere.jsonl"\n[evaluate]\nfail_onn = "high"\n[polcy]\n[judges.a]\nmodel = 3\n'
        "[csv]\ntext = 'exact'\n[labels.byop]\nexample = 'one'\n"
    )
    code, lines = found(capsys)
    faults = [line["found"] for line in of("leadline.toml", lines) if line["state"] == "broken"]
    assert code == 1
    assert len(faults) == 5
    assert "nowhere.jsonl" in faults[0]
    assert "did you mean fail_on?" in faults[1]
    assert faults[2] == "nothing reads [polcy]"
    assert "[judges.a]" in faults[3]
    assert "[labels.byop]: example: there is no such field" in faults[4]


def test_a_file_that_is_no_toml_is_one_fault(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "leadline.toml").write_text("[evaluate\n")
    code, lines = found(capsys)
    assert code == 1
    assert "cannot be read" in of("leadline.toml", lines)[0]["found"]


def test_keys_are_there_or_not_and_never_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "leadline.toml").write_text(
        '[judges.small]\nmodel = "openai/gpt-4o-mini"\ndefault = true\n'
        '[judges.own]\nmodel = "openai/ours"\napi_base = "http://127.0.0.1:9/v1"\napi_key_env = "OWN_KEY"\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, lines = found(capsys)
    small, own = of("judge", lines)
    assert code == 0
    assert (small["state"], small["found"]) == ("ok", "openai/gpt-4o-mini, key in OPENAI_API_KEY")
    assert own["state"] == "missing"
    assert "OWN_KEY is not set, price unknown" in own["found"]
    assert KEY not in json.dumps(lines)


@pytest.mark.parametrize("replies", [True, False])
def test_the_judge_is_asked_once_and_only_on_request(
    replies: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = None if replies else Fault(status=401, body='{"error": {"message": "no such key"}}')
    with serving(JudgeEndpoint(lambda question: "ready", fault=lambda question: fault)) as endpoint:
        monkeypatch.setenv("LEADLINE_JUDGE", "openai/ours")
        monkeypatch.setenv("LEADLINE_JUDGE_API_BASE", endpoint.url)
        found(capsys)
        assert endpoint.log == []
        code, lines = found(capsys, "--ask")
        assert len(endpoint.log) == 1
    asked = of("judge", lines)[1]
    assert asked["state"] == ("ok" if replies else "broken")
    assert ("replied in" if replies else "no such key") in asked["found"]
    assert code == (0 if replies else 1)


def test_a_store_is_written_and_locked_and_left_as_it_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.open(".leadline")
    before = sorted(store.root.rglob("*"))
    code, lines = found(capsys)
    assert code == 0
    assert [line["found"] for line in of("store", lines)][1] == "can be written and locked"
    assert sorted(store.root.rglob("*")) == before
    store.root.chmod(0o777)
    code, lines = found(capsys)
    assert code == 1
    assert "every user of this machine may write it" in of("store", lines)[2]["found"]


def test_a_store_of_an_earlier_or_later_format_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    root = Store.open(".leadline").root
    (root / "store.json").write_text('{"format": 1}')
    code, lines = found(capsys)
    assert (code, of("store", lines)[0]["state"]) == (0, "missing")
    assert "leadline store migrate" in of("store", lines)[0]["advice"]
    (root / "store.json").write_text('{"format": 999}')
    code, lines = found(capsys)
    assert (code, of("store", lines)[0]["state"]) == (1, "broken")
    assert "Update Leadline" in of("store", lines)[0]["found"]


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_machine_without_room_files_or_time_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(10**10, 10**10, 10**7))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    monkeypatch.setattr(machine.time, "time", lambda: Path(tmp_path).stat().st_mtime + 3600.0)
    lines = [*machine.examine_disk(tmp_path), *machine.examine_limits(), *machine.examine_clock(tmp_path)]
    assert {line.state for line in lines} == {State.BROKEN}
    assert all(line.advice for line in lines)


def test_a_package_of_an_extra_that_is_not_here_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_fits", lambda package, specifier: package != "torch")
    [models] = [line for line in machine.examine_extras() if line.part == "extra models"]
    assert (models.state, models.found) == (State.MISSING, "without torch")
    assert models.advice == "pip install 'leadline[models]'"


def test_an_examination_that_fails_is_a_finding() -> None:
    def fails() -> Any:
        raise PermissionError(13, "Permission denied")

    assert list(diagnose([("disk", fails)])) == [
        Diagnosis("disk", State.BROKEN, "PermissionError: [Errno 13] Permission denied")
    ]
