"""How the base branch's run is marked, tagged and found again."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plugins.ci.checkout import Checkout, branch_tag, find_base, mark_run
from leadline.tasks.runs.lookup import all_tags, set_tag
from leadline.tasks.store.store import Run, Store

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
