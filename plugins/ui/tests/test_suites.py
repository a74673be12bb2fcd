"""Adding to a suite on the pages of cases: who may, what may be named, and what is added."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from leadline.plugins.ui.pages import suites
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_labels import send, somebody
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

RUN = "20260101-a"


@pytest.fixture
def editor(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """An editor's pages of a store with a run, served in a folder with a suite."""
    (folder := tmp_path / "project").mkdir()
    monkeypatch.chdir(folder)
    (folder / "suite.jsonl").write_text('{"case": "own", "question": "Mine?"}\n')
    make_run(store, RUN)
    return somebody(store, "eve", PersonRole.EDITOR)


def keys() -> list[str]:
    return [json.loads(line)["case"] for line in Path("suite.jsonl").read_text().splitlines()]


def form_of(page: str) -> dict[str, str]:
    """Return the fields of the form that adds to a suite."""
    form = page.partition('action="/suites"')[2].partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))


def test_a_case_is_added_from_its_page_and_is_known_the_second_time(editor: TestClient) -> None:
    page = editor.get(f"/runs/{RUN}/case?case=c1").text
    assert '<option value="suite.jsonl">' in page
    said = send(editor, "/suites", **form_of(page), suite="suite.jsonl").text
    assert ("1 case</b> added" in said, keys()) == (True, ["own", "c1"])
    said = send(editor, "/suites", **form_of(page), suite="suite.jsonl").text
    assert ("0 cases</b> added" in said, "1 case there already" in said, keys()) == (True, True, ["own", "c1"])


@pytest.mark.parametrize(
    ("search", "added"),
    [
        (f"run={RUN}&metric=bleu.bleu_1&outcome=fails", ["c1"]),
        (f"run={RUN}", ["c1", "c2"]),
        ("q=a2", ["c2"]),
    ],
)
def test_all_cases_of_a_search_are_added(editor: TestClient, search: str, added: list[str]) -> None:
    send(editor, "/suites", **form_of(editor.get(f"/cases?{search}").text), suite="suite.jsonl")
    assert keys() == ["own", *added]


def test_of_more_than_may_be_added_at_once_the_page_says_so(
    editor: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "MOST_ADDED", 2)
    said = send(editor, "/suites", run=RUN, metric="bleu.bleu_1", suite="suite.jsonl").text
    assert "finds 3; the first 2 were looked at" in said
    assert keys() == ["own", "c1", "c2"]


@pytest.mark.parametrize("suite", ["../suite.jsonl", "/etc/suite.jsonl", ".hidden.jsonl", "", "s\0.jsonl", "x.csv"])
def test_only_files_of_the_project_can_be_named(editor: TestClient, suite: str) -> None:
    assert send(editor, "/suites", run=RUN, case="c1", suite=suite).status_code == 400
    assert [path.name for path in Path.cwd().iterdir()] == ["suite.jsonl"]


def test_only_editors_are_shown_the_form_and_may_send_it(store: Store, editor: TestClient) -> None:
    for role in (PersonRole.VIEWER, PersonRole.LABELLER):
        web = somebody(store, "vera", role)
        assert 'action="/suites"' not in web.get(f"/runs/{RUN}/case?case=c1").text + web.get(f"/cases?run={RUN}").text
        assert send(web, "/suites", run=RUN, case="c1", suite="suite.jsonl").status_code == 403
    assert send(editor, "/suites", run=RUN, case="c1", suite="suite.jsonl", csrf="").status_code == 403
    assert keys() == ["own"]
