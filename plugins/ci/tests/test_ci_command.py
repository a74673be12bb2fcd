"""``leadline ci`` in a repository of a user: what it prints, writes, posts and leaves with."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from leadline.cli.main import run
from leadline.plugins.ci.change_facts import ChangedAnswer, read_change
from leadline.tasks.runs.lookup import all_tags
from leadline.tasks.store.store import Store
from tests.support.forges.change_repository import SETTINGS, ChangeRepository
from tests.support.forges.scripted_forge import TOKEN, Refusal, scripted_forge

HOSTILE = "It is @everyone 6 m, see https://evil.example ``` </details> | #12 <img src=x>\n/close"


def clean_environment(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("GITHUB_", "GITLAB_", "CI_", "LEADLINE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))


@pytest.fixture(scope="module")
def with_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose main branch was checked."""
    folder = tmp_path_factory.mktemp("repository") / "bot"
    repository = ChangeRepository(folder)
    repository.make()
    with pytest.MonkeyPatch.context() as patched:
        clean_environment(patched, folder.parent / "state")
        patched.chdir(folder)
        assert run(["ci", "--quiet"]) == 1, "one answer is wrong from the beginning"
    return folder


@pytest.fixture
def repository(with_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChangeRepository:
    """A copy of it for one test, which is the working directory."""
    shutil.copytree(with_base, tmp_path / "bot")
    clean_environment(monkeypatch, tmp_path / "state")
    monkeypatch.chdir(tmp_path / "bot")
    return ChangeRepository(tmp_path / "bot")


def propose(
    repository: ChangeRepository, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], settings: str
) -> None:
    """Commit answers and settings on a branch, as a pull request of GitHub has it."""
    base = repository.git("rev-parse", "main")
    repository.git("checkout", "--quiet", "-b", "fix/tides")
    repository.answer(changed)
    (repository.folder / "leadline.toml").write_text(settings, encoding="utf-8")
    commit = repository.commit("Change the answers")
    event = repository.folder / ".git" / "event.json"
    head = {"sha": commit, "repo": {"full_name": "harbour/bot"}}
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": head, "base": {"sha": base}}}))
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "harbour/bot",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "99",
        "GITHUB_HEAD_REF": "fix/tides",
        "GITHUB_BASE_REF": "main",
        "GITHUB_REF_NAME": "7/merge",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_STEP_SUMMARY": str(repository.folder / ".git" / "step-summary.md"),
        "GITHUB_OUTPUT": str(repository.folder / ".git" / "outputs"),
        "GITHUB_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)


@dataclass(frozen=True)
class BadChange:
    """A repository in which a change was checked that breaks one answer with a hostile one, and mends another."""

    folder: Path
    code: int
    printed: str
    comments: list[str]


@pytest.fixture(scope="module")
def bad(with_base: Path, tmp_path_factory: pytest.TempPathFactory) -> BadChange:
    folder = tmp_path_factory.mktemp("bad") / "bot"
    shutil.copytree(with_base, folder)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, scripted_forge() as forge, redirect_stdout(printed):
        clean_environment(patched, folder.parent / "state")
        patched.chdir(folder)
        propose(ChangeRepository(folder), patched, {"tides": HOSTILE, "dues": "On arrival."}, SETTINGS)
        patched.setenv("GITHUB_API_URL", forge.url)
        code = run(["ci"])
    return BadChange(folder, code, printed.getvalue(), forge.own())


def record(folder: Path = Path("leadline-ci")) -> dict[str, object]:
    return dict(json.loads((folder / "ci.json").read_text(encoding="utf-8")))


def test_a_bad_change_fails_and_is_told(bad: BadChange) -> None:
    assert bad.code == 1
    assert bad.printed.startswith("### ✗ Leadline: the check fails\n")
    assert "of the branch main at commit" in bad.printed
    assert "#### Newly broken: 1 answer\n" in bad.printed
    assert "for example `tides`" in bad.printed
    assert "```text\nIt is 5.4 metres.\n```" in bad.printed
    assert "#### Newly fixed: 1 answer\n\n- `harbour-bot`: `dues`\n" in bad.printed
    assert re.search(r"About [\d,]+ more cases would decide it|at least \d+ needed", bad.printed)
    assert "2 row scores reused, 2 computed" in bad.printed
    assert "[All results](https://github.com/harbour/bot/actions/runs/99)" in bad.printed


def test_the_comment_the_log_and_the_page_of_the_job_say_the_same(bad: BadChange) -> None:
    [comment] = bad.comments
    assert comment.partition("\n")[2] == bad.printed
    assert (bad.folder / ".git" / "step-summary.md").read_text(encoding="utf-8") == f"{bad.printed}\n"
    assert (bad.folder / "leadline-ci" / "summary.md").read_text(encoding="utf-8") == bad.printed


def test_later_steps_get_outputs(bad: BadChange) -> None:
    lines = (bad.folder / ".git" / "outputs").read_text(encoding="utf-8").splitlines()
    expected = {"verdict": "fail", "exit-code": "1", "newly-broken": "1", "newly-fixed": "1", "folder": "leadline-ci"}
    assert dict(line.split("=") for line in lines) == expected


def test_its_files_point_to_the_rows_that_fail(bad: BadChange) -> None:
    sarif = json.loads((bad.folder / "leadline-ci" / "leadline.sarif").read_text(encoding="utf-8"))
    artifact = {"uri": "eval/answers.csv", "uriBaseId": "%SRCROOT%"}
    [found] = sarif["runs"][0]["results"]
    place = found["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": artifact, "region": {"startLine": 2}}
    assert found["properties"]["newlyBroken"]
    suites = ElementTree.parse(bad.folder / "leadline-ci" / "junit.xml").getroot()
    assert int(suites.get("failures", "0")) >= 1
    assert "tides" in ElementTree.tostring(suites, encoding="unicode")
    assert (bad.folder / "leadline-ci" / "report.html").stat().st_size > 10_000


def test_hostile_answers_do_nothing_to_the_comment(bad: BadChange) -> None:
    [body] = bad.comments
    fenced = f"````text\n{HOSTILE}\n````"
    assert fenced in body
    assert "everyone" not in body.replace(fenced, "")
    assert body.count("</details>") == body.count("<details>") + 1


def test_answers_can_be_kept_out(bad: BadChange) -> None:
    store = Store.open(bad.folder / ".leadline")
    [broken] = read_change(store, store.runs()[-1], answers=False).broken
    assert broken.example == ChangedAnswer("tides", "", "", "", "")


def test_a_branch_is_tagged_and_a_change_is_not(bad: BadChange) -> None:
    store = Store.open(bad.folder / ".leadline")
    assert {tag: found.id for tag, (found, _) in all_tags(store).items()} == {"branch.main": store.runs()[0].id}


def test_a_missing_base_and_a_forge_that_refuses_are_said_and_decide_nothing(
    repository: ChangeRepository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    propose(
        repository, monkeypatch, {"dues": "On arrival."}, SETTINGS + 'inconclusive = "pass"\nagainst = "tag:good"\n'
    )
    with scripted_forge() as forge:
        monkeypatch.setenv("GITHUB_API_URL", forge.url)
        forge.refusals = [Refusal(403, message="Resource not accessible by integration", method="POST")]
        assert run(["ci", "--json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out) == record()
    [check] = json.loads(streams.out)["checks"]
    assert (check["verdict"], check["newly_broken"]) == ("pass", 0)
    assert check["base"] == "Compared with nothing. No run in the store has the tag 'good'."
    assert "Warning: The pull request got no comment: it answered 403" in streams.err


CHECKS = """\
[ci]
evaluators = ["text_matching"]
title = "Harbour"

[ci.checks.chat]
dataset = "eval/answers.csv"

[ci.checks.search]
dataset = "eval/missing.csv"
"""


def test_several_checks_are_told_together_and_one_that_cannot_be_made_keeps_none_back(
    repository: ChangeRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("leadline.toml").write_text(CHECKS, encoding="utf-8")
    assert run(["ci", "--no-comment"]) == 2
    streams = capsys.readouterr()
    assert streams.out.startswith("### ✗ Harbour: 1 of 2 checks fail; 1 of 2 checks could not be made\n")
    assert "#### ✗ `chat`: the check fails" in streams.out
    assert "#### ✗ `search`: the check could not be made" in streams.out
    assert "Error [LL-" in streams.err
    assert Path("leadline-ci/chat/junit.xml").exists()
    assert not Path("leadline-ci/search/junit.xml").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("", 'Write: [ci] and dataset = "FILE" below'),
        ('[ci]\ndataset = "x.csv"\ndatset = 1\n', "datset"),
        ("[ci.checks]\nchat = 3\n", "ci.checks are tables"),
        ('[ci.checks."No Name"]\ndataset = "x.csv"\n', "that is no name"),
        ('[ci]\ndataset = "x.csv"\ninconclusive = "maybe"\n', "inconclusive"),
    ],
    ids=["none", "misspelt", "no table", "name", "value"],
)
def test_settings_that_make_no_sense_are_refused_before_anything(
    repository: ChangeRepository, settings: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("leadline.toml").write_text(settings, encoding="utf-8")
    shutil.rmtree("leadline-ci")
    assert run(["ci"]) == 2
    assert words in capsys.readouterr().err
    assert not Path("leadline-ci").exists()


def test_a_check_that_is_not_there_is_refused(repository: ChangeRepository, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ci", "chat"]) == 2
    assert "has no check 'chat'" in capsys.readouterr().err


def test_a_dry_run_scores_nothing(repository: ChangeRepository, capsys: pytest.CaptureFixture[str]) -> None:
    before = Store.open(".leadline").runs()
    assert run(["ci", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "eval/answers.csv" in printed
    assert "1 check is in order; nothing was scored." in printed
    assert len(Store.open(".leadline").runs()) == len(before)
    Path("eval/answers.csv").write_text("case,model\n", encoding="utf-8")
    assert run(["ci", "--dry-run"]) == 2
