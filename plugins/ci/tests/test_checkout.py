"""The checkout that a job works on, from GitHub's and GitLab's variables or from Git; and the base branch's run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plugins.ci.checkout import Checkout, branch_tag, find_base, find_checkout, mark_run
from leadline.tasks.runs.lookup import all_tags, set_tag
from leadline.tasks.store.store import Run, Store

OLD, NEW, MERGE = "a" * 40, "b" * 40, "c" * 40
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "harbour/bot",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_RUN_ID": "99",
    "GITHUB_REF_NAME": "main",
    "GITHUB_REF_TYPE": "branch",
    "GITHUB_SHA": NEW,
}
PULL = {"GITHUB_REF_NAME": "7/merge", "GITHUB_HEAD_REF": "fix/tides", "GITHUB_BASE_REF": "main", "GITHUB_SHA": MERGE}
GITLAB = {"GITLAB_CI": "true", "CI_PROJECT_ID": "42", "CI_COMMIT_SHA": NEW, "CI_JOB_URL": "https://gitlab.com/j/1"}
MERGE_REQUEST = {
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_PROJECT_ID": "42",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "fix/tides",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": OLD,
}


def event(tmp_path: Path, content: Any) -> dict[str, str]:
    file = tmp_path / "event.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return {"GITHUB_EVENT_PATH": str(file)}


def pull(origin: str = "harbour/bot") -> dict[str, Any]:
    return {"pull_request": {"number": 7, "head": {"sha": NEW, "repo": {"full_name": origin}}, "base": {"sha": OLD}}}


def test_a_pull_request_of_github(tmp_path: Path) -> None:
    found = find_checkout(GITHUB | PULL | event(tmp_path, pull()))
    assert found == Checkout(
        "github",
        "harbour/bot",
        "fix/tides",
        NEW,
        "main",
        OLD,
        7,
        False,
        "https://github.com/harbour/bot/actions/runs/99",
    )
    assert found.is_change


@pytest.mark.parametrize("origin", [{"full_name": "mallory/bot"}, None], ids=["fork", "deleted"])
def test_a_pull_request_from_a_fork(tmp_path: Path, origin: object) -> None:
    content = pull()
    content["pull_request"]["head"]["repo"] = origin
    assert find_checkout(GITHUB | PULL | event(tmp_path, content)).fork


def test_a_push_is_compared_with_the_branch_itself(tmp_path: Path) -> None:
    found = find_checkout(GITHUB | event(tmp_path, {"before": OLD}))
    assert (found.branch, found.base_branch, found.base_commit, found.number) == ("main", "main", OLD, None)
    assert not found.is_change
    assert find_checkout(GITHUB | event(tmp_path, {"before": "0" * 40})).base_commit == ""


def test_a_tag_is_no_branch(tmp_path: Path) -> None:
    assert find_checkout(GITHUB | {"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v1"}).branch == ""


def test_a_merge_queue_is_a_change_without_a_comment(tmp_path: Path) -> None:
    content = {"merge_group": {"base_ref": "refs/heads/main", "base_sha": OLD}}
    found = find_checkout(GITHUB | {"GITHUB_REF_NAME": "queue/main/pr-7"} | event(tmp_path, content))
    assert (found.base_branch, found.base_commit, found.number, found.is_change) == ("main", OLD, None, True)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"pull_request": 3}',
        '{"pull_request": {"number": true, "head": {"sha": "x; rm", "repo": []}}}',
        "[" * 9999,
    ],
    ids=["broken", "list", "number", "odd", "deep"],
)
def test_an_odd_event_is_no_error(tmp_path: Path, content: str) -> None:
    found = find_checkout(GITHUB | PULL | event(tmp_path, content))
    assert found.number is None
    assert (found.branch, found.base_branch) == ("fix/tides", "main")


def test_a_merge_request_of_gitlab() -> None:
    found = find_checkout(GITLAB | MERGE_REQUEST)
    assert found == Checkout("gitlab", "42", "fix/tides", NEW, "main", OLD, 7, False, "https://gitlab.com/j/1")
    assert find_checkout(GITLAB | MERGE_REQUEST | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "43"}).fork


def test_a_push_to_gitlab() -> None:
    found = find_checkout(GITLAB | {"CI_COMMIT_BRANCH": "main", "CI_COMMIT_BEFORE_SHA": OLD})
    assert (found.branch, found.base_branch, found.base_commit, found.is_change) == ("main", "main", OLD, False)


def test_git_itself_is_asked_on_a_desk(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    base = git("rev-parse", "HEAD")
    found = find_checkout({}, folder=tmp_path)
    assert (found.branch, found.base_branch, found.commit, found.is_change) == ("main", "main", base, False)
    git("checkout", "--quiet", "-b", "fix/tides")
    git("commit", "--quiet", "--allow-empty", "--message", "two")
    found = find_checkout({}, folder=tmp_path, base_branch="main")
    assert (found.branch, found.base_branch, found.base_commit, found.is_change) == ("fix/tides", "main", base, True)


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    assert find_checkout({}, folder=tmp_path) == Checkout()


OLD, NEW = "a" * 40, "b" * 40
MAIN = Checkout(branch="main", base_branch="main")
CHANGE = Checkout(branch="fix", base_branch="main", number=7)


def completed(store: Store, number: int, checkout: Checkout, *, check: str = "", status: str = "completed") -> Run:
    run = store.run(f"2026010{number}-100000-aaaaaa")
    run.path.mkdir(parents=True)
    run.update({"status": status, "started": f"2026-01-0{number}T10:00:00+00:00"})
    mark_run(store, run, check, checkout)
    return run


def at(commit: str, checkout: Checkout = MAIN) -> Checkout:
    return Checkout(branch=checkout.branch, base_branch=checkout.base_branch, commit=commit, number=checkout.number)


def test_there_is_none_yet_and_that_is_said(store: Store) -> None:
    completed(store, 1, CHANGE)
    completed(store, 2, MAIN, status="failed")
    completed(store, 3, MAIN, check="other")
    found = find_base(store, "", CHANGE)
    assert found.run == ""
    assert found.words.startswith("There is no run of the branch main to compare with yet.")
    assert find_base(store, "", Checkout()).run == ""


def test_the_run_of_the_commit_that_the_change_was_made_from_comes_first(store: Store) -> None:
    first = completed(store, 1, at(OLD))
    second = completed(store, 2, at(NEW))
    change = Checkout(branch="fix", base_branch="main", base_commit=OLD, number=7)
    assert find_base(store, "", change).run == first.id
    assert find_base(store, "", change).words == f"Compared with run {first.id} of the branch main at commit aaaaaaaaa."
    other = find_base(store, "", Checkout(branch="fix", base_branch="main", base_commit="c" * 40, number=7))
    assert other.run == second.id
    assert other.words.endswith("at commit bbbbbbbbb; commit ccccccccc, its base, has no run.")


def test_the_youngest_run_of_a_branch_has_its_tag(store: Store) -> None:
    completed(store, 1, at(OLD))
    second = completed(store, 2, at(NEW))
    completed(store, 3, CHANGE)
    third = completed(store, 4, at(NEW), check="chat")
    assert {tag: run.id for tag, (run, _) in all_tags(store).items()} == {
        "branch.main": second.id,
        "branch.main.chat": third.id,
    }


@given(branch=st.text(min_size=1, max_size=300), check=st.sampled_from(["", "chat"]))
def test_every_branch_has_a_tag_that_is_one(tmp_path_factory: pytest.TempPathFactory, branch: str, check: str) -> None:
    assert re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}", branch_tag(branch, check))


def test_branches_with_similar_names_have_tags_of_their_own(store: Store) -> None:
    names = ["fix/tides", "fix-tides", "fix tides", "x" * 200, "x" * 201]
    tags = {branch_tag(name) for name in names}
    assert len(tags) == len(names)
    run = completed(store, 1, CHANGE)
    for tag in tags:
        set_tag(store, run, tag)
