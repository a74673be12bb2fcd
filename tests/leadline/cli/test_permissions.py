"""What commands write under a common umask is for its user alone, but for what was asked to be somewhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError
from leadline.tasks.ground import files
from leadline.tasks.ground.files import copy_out, keep_private
from tests.support.processes.ports import free_port

LEADLINE = [sys.executable, "-P", "-m", "leadline.cli.main"]


class Project:
    """A folder in which commands run under the umask 022."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LEADLINE_"))}
        self.environment = kept | {
            "PYTHONPATH": str(Path.cwd()),
            "PREFECT_HOME": str(folder / "prefect"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        (folder / "app.py").write_text("def answer(case):\n    return case.question\n", encoding="utf-8")
        lines = [{"case": str(n), "question": f"q {n}", "actual_answer": f"q {n} a"} for n in range(5)]
        (folder / "d.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        self.given = set(folder.rglob("*"))

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [*LEADLINE, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True, umask=0o022,
            timeout=200,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr

    def modes(self) -> dict[str, str]:
        """Return what was written with its permissions."""
        written = set(self.folder.rglob("*")) - self.given
        return {
            str(path.relative_to(self.folder)): oct(stat.S_IMODE(path.lstat().st_mode))
            for path in sorted(written)
            if not path.is_symlink() and path.name != "__pycache__" and path.suffix != ".pyc"
        }


@pytest.mark.e2e
def test_everything_that_a_run_writes_is_for_its_user_alone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    chosen = ["-e", "looping_detection,pii_leakage", "--set", "results=sonar"]
    project.run("service", "server", "start", "--port", str(free_port()))
    try:
        project.run("evaluate", "d.jsonl", *chosen, "-o", "results", "--profile", "profile.json")
    finally:
        project.run("service", "server", "stop")
    project.run("collect", "d.jsonl", "--model", "python:app:answer", "--server", "none")
    project.run("collect", "d.jsonl", "--model", "python:app:answer", "--server", "none", "-o", "answers.jsonl")
    project.run("evaluate", "d.answers.jsonl", *chosen, "--server", "none")
    project.run("compare", "latest~1", "latest:python:app:answer", "--all-metrics", "--map", "d=python:app:answer")
    project.run("store", "export", "latest", "--as", "all", "-o", "all")
    project.run("store", "sql", "SELECT 1 AS one", "-o", "one.csv")
    modes = project.modes()
    out = {name for name in modes if Path(name).parts[0] in ("results", "all") or "/" not in name}
    asked = out - {".leadline", "state", "prefect", "tmp"}
    assert {
        "results/report.html",
        "profile.json",
        "answers.jsonl",
        "d.answers.jsonl",
        "one.csv",
        "all/report.html",
    } <= asked
    assert {name: modes[name] for name in asked if modes[name] not in ("0o644", "0o755")} == {}
    private = modes.keys() - asked
    assert any(name.startswith("prefect/") for name in private)
    assert any(name.startswith("state/leadline") for name in private)
    assert {name: modes[name] for name in private if int(modes[name], 8) & 0o077} == {}


@pytest.mark.e2e
def test_what_is_written_into_a_shared_store_is_shared(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours").chmod(0o770)
    project.given.add(tmp_path / "ours")
    project.run("evaluate", "d.jsonl", "-e", "looping_detection", "--server", "none", "--store", "ours")
    modes = {name: mode for name, mode in project.modes().items() if name.startswith("ours/")}
    assert {mode for name, mode in modes.items() if "scores/" in name} == {"0o660", "0o770"}
    assert {name: mode for name, mode in modes.items() if int(mode, 8) & 0o007} == {}


@pytest.fixture
def own_umask() -> object:
    before = os.umask(0o022)
    yield None
    os.umask(before)
    files._users_umask = None


@pytest.mark.usefixtures("own_umask")
def test_copies_leave_what_is_there_as_it_is(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "private").write_text("p", encoding="utf-8")
    (target / "private").chmod(0o600)
    keep_private(tmp_path / "store")
    (source / "inner").mkdir(parents=True)
    for name in ("private", "new", "inner/new"):
        (source / name).write_text("n", encoding="utf-8")
    copy_out(source, target)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (target, *target.iterdir())}
    assert modes == {"target": 0o700, "private": 0o600, "new": 0o644, "inner": 0o755}
    assert (target / "private").read_text(encoding="utf-8") == "n"


def test_a_state_folder_that_somebody_else_could_have_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert stat.S_IMODE(files.state_folder().stat().st_mode) == 0o700
    files.state_folder().chmod(0o755)
    with pytest.raises(StoreError, match="is not this user's alone"):
        files.state_folder()
