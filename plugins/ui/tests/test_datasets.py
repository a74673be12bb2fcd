"""Datasets over time: versions by their cases, what differs between two, and words that came and went."""

from __future__ import annotations

import random
import re
import shutil
from typing import Any

from starlette.testclient import TestClient

from leadline.plugins.ui.app import workbench
from leadline.plugins.ui.pages import datasets
from leadline.tasks.compare.dataset_versions import shifts
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run


def rows(questions: dict[str, str], answer: str = "A") -> list[dict[str, Any]]:
    return [
        {"case": case, "model": "alpha", "question": question, "answer": answer} for case, question in questions.items()
    ]


def nights(store: Store, *versions: list[dict[str, Any]]) -> TestClient:
    for number, answers in enumerate(versions):
        make_run(
            store, f"2026010{number + 1}-a", answers=answers, record={"started": f"2026-01-0{number + 1}T10:00:00"}
        )
    return TestClient(workbench(store))


def counts(page: str) -> list[list[str]]:
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r'<td class="r">([^<]*)</td>', line) for line in body.split("</tr>")[:-1]]


def listed(page: str) -> list[tuple[str, str]]:
    found = re.findall(r'<span class="badge \w*">(\w+)</span>\s*<a href="(/runs/[^"]+)"', page)
    return [(kind, link) for kind, link in found]


FIRST = {"a": "How deep is it?", "b": "How wide?", "c": "Who pays?"}
SECOND = {"a": "How deep was it?", "b": "How wide?", "d": "<img src=x> who?"}


def test_versions_are_listed_with_the_cases_that_came_went_and_were_edited(store: Store) -> None:
    web = nights(store, rows(FIRST), rows(SECOND), rows(SECOND, "another answer"))
    page = web.get("/trends/datasets").text
    assert counts(page) == [["1", "0", "0", "0"], ["1", "1", "1", "1"], ["1", "–", "–", "–"]]
    version = re.findall(r"version=(\w+)", page)[1]
    page = web.get(f"/trends/datasets?dataset=sample&version={version}").text
    assert listed(page) == [
        ("edited", "/runs/20260102-a/case?case=a"),
        ("added", "/runs/20260102-a/case?case=d"),
        ("removed", "/runs/20260101-a/case?case=c"),
    ]
    assert "<del>is</del>" in page
    assert "<ins>was</ins>" in page
    assert "&lt;img" in page
    assert "<img" not in page
    assert "No word tells" in page
    only = web.get(f"/trends/datasets?dataset=sample&version={version}&kind=removed").text
    assert [kind for kind, _ in listed(only)] == ["removed"]
    assert all(web.get(link).status_code == 200 for _, link in listed(page))
    assert 'href="/trends/datasets?dataset=sample"' in web.get("/trends").text


def test_runs_with_the_same_file_of_cases_are_one_version(store: Store) -> None:
    web = nights(store, rows(FIRST), rows(FIRST, "B"), rows(SECOND))
    for path in (store.root / "datasets").iterdir():
        cases = "second" if b"was it" in (path / "cases.parquet").read_bytes() else "first"
        (path / "manifest.json").write_text(f'{{"sha256": {{"cases.parquet": "{cases}"}}}}')
    assert counts(web.get("/trends/datasets").text) == [["1", "1", "1", "1"], ["2", "–", "–", "–"]]
    assert web.get("/trends").text.count(">new dataset</text>") == 1


def test_nights_with_other_answers_have_no_new_dataset_when_theirs_are_gone(store: Store) -> None:
    web = nights(store, rows(FIRST), rows(FIRST, "B"), rows(SECOND), rows(FIRST, "C"))
    for name, cases in (("20260101-a", "first"), ("20260102-a", "first"), ("20260103-a", "second")):
        run = store.run(name)
        run.update({"cases_digest": cases})
        shutil.rmtree(store.dataset(run.read()["dataset"]))
    assert web.get("/trends").text.count(">new dataset</text>") == 2, "the last run does not say what its cases were"


def test_drifted_words_lead_to_the_cases_that_have_them(store: Store) -> None:
    before = {f"b{n}": f"Tell me of the tide at quay {n}" for n in range(60)}
    after = before | {f"n{n}": f"Is a refund due for berth {n}?" for n in range(30)}
    page = nights(store, rows(before), rows(after)).get("/trends/datasets").text
    told = page.partition("Questions drifted")[2].partition("</ul>")[0]
    assert 'href="/cases?run=20260102-a&amp;q=refund"' in told
    assert 'href="/cases?run=20260101-a&amp;q=tide"' in told
    assert "0.0 % of the questions before, 33.3 % now" in told


def test_words_of_questions_that_are_drawn_alike_seldom_drift() -> None:
    chance = random.Random(3)
    vocabulary = [f"word{n}" for n in range(200)]

    def drawn() -> list[str]:
        return [" ".join(chance.choices(vocabulary, k=8)) for _ in range(300)]

    alarms = sum(bool(shifts(drawn(), drawn())) for _ in range(100))
    assert alarms <= 10, "one in twenty is held"
    assert shifts([], drawn()) == shifts(drawn(), []) == ()


def test_versions_that_are_gone_or_were_not_compared_yet_say_so(store: Store, monkeypatch: Any) -> None:
    web = nights(store, rows(FIRST), rows(SECOND), rows(FIRST, "B"))
    monkeypatch.setattr(datasets, "PATIENCE_S", -1.0)
    assert counts(web.get("/trends/datasets").text) == [
        ["1", "1", "1", "1"],
        ["1", "–", "–", "–"],
        ["1", "–", "–", "–"],
    ]
    shutil.rmtree(store.dataset(store.run("20260102-a").read()["dataset"]))
    assert "no longer in the store" in web.get("/trends/datasets").text


def test_a_store_without_runs_says_so(store: Store) -> None:
    assert "no run with a dataset" in TestClient(workbench(store)).get("/trends/datasets").text
