"""The checkout that a job works on, from the environment, and the base branch's run that it is compared with.

GitHub Actions and GitLab CI say all of it in variables (GitHub some in the file of the event). Elsewhere Git itself is
asked, so that the same check runs on a desk. What these variables hold was partly chosen by whoever opened the pull
request: a branch's name is a hostile text.

A check writes to its run's record (``run.json``) for which check, branch and commit it was, and a run of a branch
itself, not of a change to it, gets the tag ``branch.NAME`` (``branch.NAME.CHECK`` for a check with a name), so that
``gc`` keeps it and people can name it. The base of a change is the run of its base branch at the commit that it was
made from; where there is none, the branch's youngest one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from leadline.tasks.runs.lookup import set_tag, status
from leadline.tasks.store.store import Run, Store

ForgeName: TypeAlias = Literal["github", "gitlab", ""]

_HEADS: Final = "refs/heads/"
_LARGEST_EVENT: Final = 16 * 2**20
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_GIT_S: Final = 10.0
_NO_COMMIT: Final = re.compile("0+")
RECORD: Final = "ci"
"""Key of the mark in a run's record."""

_SHOWN: Final = 9
"""Digits of a commit that people are shown."""

_LONGEST: Final = 100
_NOT_IN_TAGS: Final = re.compile("[^0-9A-Za-z._-]+")


@dataclass(frozen=True, slots=True)
class Checkout:
    """Branch, commit and pull request of a checkout.

    Attributes:
        forge: The forge whose CI this is; "" elsewhere.
        repository: The repository there: ``OWNER/NAME`` on GitHub, the project's number on GitLab.
        branch: The branch; that of the change where there is a pull request. "" for a tag or a detached checkout.
        commit: The commit; of a pull request the newest of its own, not the merge that is tested.
        base_branch: The branch that the change is for; of a push the branch itself. "" where that is unknown.
        base_commit: The commit of that branch which the change was made from or last tested with; "" if unknown.
        number: The pull request's number, or ``None``.
        fork: Whether the pull request comes from another repository, whose jobs get no token that may write.
        job_url: Page of this job; "" elsewhere.
    """

    forge: ForgeName = ""
    repository: str = ""
    branch: str = ""
    commit: str = ""
    base_branch: str = ""
    base_commit: str = ""
    number: int | None = None
    fork: bool = False
    job_url: str = ""

    @property
    def is_change(self) -> bool:
        """True for a change to a branch (a pull request, a merge queue, a branch on a desk), not the branch."""
        return self.number is not None or self.branch != self.base_branch


def find_checkout(environment: Mapping[str, str], *, base_branch: str = "", folder: Path | None = None) -> Checkout:
    """Return what was checked out.

    Args:
        base_branch: The branch to compare with where nothing else says it.
        folder: A folder of the repository, for Git; the working directory without it.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _on_github(environment, base_branch)
    if environment.get("GITLAB_CI") == "true":
        return _on_gitlab(environment, base_branch)
    return _by_git(folder or Path(), base_branch)


def _on_github(environment: Mapping[str, str], base_branch: str) -> Checkout:
    event = _event(environment.get("GITHUB_EVENT_PATH", ""))
    pull = _table(event, "pull_request")
    queue = _table(event, "merge_group")
    repository = environment.get("GITHUB_REPOSITORY", "")
    named = environment.get("GITHUB_REF_NAME", "") if environment.get("GITHUB_REF_TYPE", "branch") == "branch" else ""
    target = environment.get("GITHUB_BASE_REF") or _text(queue, "base_ref").removeprefix(_HEADS)
    branch = environment.get("GITHUB_HEAD_REF") or named
    number = pull.get("number")
    server, run = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_RUN_ID", "")
    origin = _text(_table(_table(pull, "head"), "repo"), "full_name")
    return Checkout(
        forge="github",
        repository=repository,
        branch=branch,
        commit=_commit(_text(_table(pull, "head"), "sha") or environment.get("GITHUB_SHA", "")),
        base_branch=target or base_branch or branch,
        base_commit=_commit(_text(_table(pull, "base"), "sha") or _text(queue, "base_sha") or _text(event, "before")),
        number=number if isinstance(number, int) and not isinstance(number, bool) else None,
        fork=bool(pull) and origin != repository,
        job_url=f"{server}/{repository}/actions/runs/{run}" if server and repository and run else "",
    )


def _on_gitlab(environment: Mapping[str, str], base_branch: str) -> Checkout:
    iid = environment.get("CI_MERGE_REQUEST_IID", "")
    source = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
    project = environment.get("CI_MERGE_REQUEST_PROJECT_ID", "") or environment.get("CI_PROJECT_ID", "")
    branch = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or environment.get("CI_COMMIT_BRANCH", "")
    return Checkout(
        forge="gitlab",
        repository=project,
        branch=branch,
        commit=_commit(environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environment.get("CI_COMMIT_SHA", "")),
        base_branch=environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or base_branch or branch,
        base_commit=_commit(
            environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or environment.get("CI_COMMIT_BEFORE_SHA", "")
        ),
        number=int(iid) if iid.isdecimal() and iid.isascii() else None,
        fork=bool(iid and source and source != project),
        job_url=environment.get("CI_JOB_URL", ""),
    )


def _by_git(folder: Path, base_branch: str) -> Checkout:
    branch = _git(folder, "symbolic-ref", "--short", "--quiet", "HEAD")
    base = base_branch or _git(folder, "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD").removeprefix(
        "origin/"
    )
    base = base or branch
    ancestor = next(
        (found for name in (f"origin/{base}", base) if (found := _git(folder, "merge-base", "HEAD", name))), ""
    )
    commit = _commit(_git(folder, "rev-parse", "--verify", "--quiet", "HEAD"))
    return Checkout(
        branch=branch, commit=commit, base_branch=base, base_commit="" if branch == base else _commit(ancestor)
    )


def _git(folder: Path, *arguments: str) -> str:
    """Return what Git prints; "" without Git, without a repository, or where it refuses."""
    program = shutil.which("git")
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - arguments are ours, branches follow a subcommand that takes names
            [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _event(path: str) -> Mapping[str, Any]:
    """Return the event that started a workflow; empty where it cannot be read."""
    try:
        file = Path(path)
        if not path or file.stat().st_size > _LARGEST_EVENT:
            return {}
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""


def _commit(text: str) -> str:
    """Return a commit; "" for what is none, and for the zeros that stand for the commit before a branch's first."""
    return text if _COMMIT.fullmatch(text) and not _NO_COMMIT.fullmatch(text) else ""


@dataclass(frozen=True, slots=True)
class BaseRun:
    """The run to compare with.

    Attributes:
        run: Its id; "" where there is none.
        words: Which one it is, or why there is none, in one sentence.
    """

    run: str
    words: str


def find_base(store: Store, check: str, checkout: Checkout) -> BaseRun:
    """Return the run of the base branch; that there is none is no error."""
    branch, commit = checkout.base_branch, checkout.base_commit
    if not branch:
        return BaseRun("", "Nothing says which branch this is to be compared with.")
    found = [(run, record) for run in store.runs() if _is_of(record := run.read(), check, branch)]
    if not found:
        first = "The first check of that branch with this store makes one."
        return BaseRun("", f"There is no run of the branch {branch} to compare with yet. {first}")
    run, record = max(found, key=lambda pair: (_mark(pair[1])["commit"] == commit != "", str(pair[1].get("started"))))
    of = str(_mark(record)["commit"])
    words = f"Compared with run {run.id} of the branch {branch}"
    if not of or not commit or of == commit:
        return BaseRun(run.id, f"{words}{f' at commit {of[:_SHOWN]}' if of else ''}.")
    return BaseRun(run.id, f"{words} at commit {of[:_SHOWN]}; commit {commit[:_SHOWN]}, its base, has no run.")


def mark_run(store: Store, run: Run, check: str, checkout: Checkout) -> str:
    """Record what a run was made of, and tag one of a branch itself; returns the tag, "" without one.

    Args:
        run: The run; completed.
    """
    mark = {"check": check, "branch": checkout.branch, "commit": checkout.commit, "change": checkout.is_change}
    run.update({RECORD: mark | {"number": checkout.number}})
    if checkout.is_change or not checkout.branch:
        return ""
    tag = branch_tag(checkout.branch, check)
    set_tag(store, run, tag)
    return tag


def branch_tag(branch: str, check: str = "") -> str:
    """Return the tag of a branch; a name that is no tag, such as ``fix/tides``, gets a digest to tell it apart."""
    end = f".{check}" if check else ""
    name = _NOT_IN_TAGS.sub("-", branch)
    tag = f"branch.{name}{end}"
    if name == branch and len(tag) <= _LONGEST:
        return tag
    digest = hashlib.sha256(branch.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"branch.{name[: _LONGEST - len(end) - 16]}-{digest}{end}"


def _mark(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get(RECORD)
    return found if isinstance(found, Mapping) else {}


def _is_of(record: Mapping[str, Any], check: str, branch: str) -> bool:
    mark = _mark(record)
    wanted = {"check": check, "branch": branch, "change": False}
    return (
        bool(mark)
        and all(mark.get(name) == value for name, value in wanted.items())
        and (status(record) == "completed")
    )
