"""The pages of labels: a sample that is drawn, a blind queue, several people, and what they differ about."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from httpx import Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from leadline import evaluate
from leadline.flows.sample_labels import SampleLabels, SampleLabelsConfig
from leadline.plugins.ui.app import protected, workbench
from leadline.plugins.ui.audit import AuditLog
from leadline.plugins.ui.site import Person, PersonRole
from leadline.plugins.ui.tests.test_ui_command import running
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.load.label import ADJUDICATED, Label
from leadline.tasks.store.store import Store
from tests.support.judges.berths import write_berths
from tests.support.processes.browser import Page, browse
from tests.support.stores.object_server import serving_objects
from tests.support.stores.run_factory import Given, answer, make_run
from tests.support.stores.s3 import use

TOKEN = "a token for the page"
HOSTILE = "</script><img src=x onerror=alert(1)>"
MODEL = "secret-model"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a completed run of 40 answers, which its judge passes where their number is not 0 in 4."""
    rows = [
        answer(f"case-{number}", MODEL, question=f"Berth {number}? {HOSTILE}", answer=f"{number} m", context=["Deep."])
        for number in range(40)
    ]
    store, run = make_run(
        tmp_path, rows=rows, scores=[Given(f"case-{number}", MODEL, float(number % 4 != 0)) for number in range(40)]
    )
    run.update({"status": "completed", "name": "nightly", "models": [MODEL]})
    return store


class Somebody:
    """The pages for a person whom access knows."""

    def __init__(self, app: ASGIApp, name: str, role: PersonRole) -> None:
        self.app, self.person = app, Person(name, role, "proof")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["person"] = self.person
        await self.app(scope, receive, send)


def somebody(store: Store, name: str, role: PersonRole = PersonRole.LABELLER) -> TestClient:
    return TestClient(Somebody(workbench(store), name, role), follow_redirects=False)


def send(web: TestClient, path: str, **fields: str) -> Response:
    body = urlencode({"csrf": "proof"} | fields)
    return web.post(path, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})


def drawn(store: Store, **fields: object) -> TestClient:
    """Draw a sample of the run, and return an editor."""
    asked = {"run": store.runs()[0].id, "metric": "toy.value", "rows": 8, "store": store.location} | fields
    SampleLabels()(SampleLabelsConfig.model_validate(asked))
    return somebody(store, "eve", PersonRole.EDITOR)


def row_of(page: str) -> str:
    [row] = re.findall(r'name="row" value="(\w{32})"', page)
    return str(row)


def label(web: TestClient, row: str, value: str, **more: str) -> Response:
    return send(web, "/labels/labels/label", metric="toy.value", row=row, value=value, **more)


QUEUE = "/labels/labels/queue?metric=toy.value"


def test_a_sample_is_a_queue_and_the_same_again_is_the_same(store: Store) -> None:
    editor = drawn(store)
    [sample] = LabelSet(store).samples()
    assert (sample.question, sample.how, sample.seed, len(sample.rows)) == ("toy.value", "uniform", 1, 8)
    drawn(store)
    assert len(LabelSet(store).samples()) == 1, "the same again"
    page = editor.get("/labels").text
    assert "toy.value" in page
    assert "of 8 drawn rows" in page


def test_the_queue_is_blind(store: Store) -> None:
    drawn(store)
    anna, ben = somebody(store, "anna"), somebody(store, "ben")
    row = row_of(anna.get(QUEUE).text)
    label(anna, row, "bad", note="it is wrong")
    answered = ben.get(f"{QUEUE}&row={row}")
    page = answered.text
    assert row_of(page) == row
    for hidden in (MODEL, "anna", "it is wrong", "case-", "passed", "failed", "nightly", store.runs()[0].id):
        assert hidden not in page
        assert hidden not in str(answered.headers)
    assert "Berth" in page
    assert "<img" not in page
    assert "Deep." in page


def test_a_label_is_written_at_once_and_a_second_one_replaces_it_with_history(store: Store) -> None:
    drawn(store)
    anna = somebody(store, "anna")
    first = row_of(anna.get(QUEUE).text)
    answered = label(anna, first, "good", note="clear\r\nenough")
    second = row_of(anna.get(answered.headers["location"]).text)
    assert second != first
    label(anna, first, "bad")
    label(anna, second, "can't tell")
    said = {one.key: one for one in LabelSet(store).labels()}
    assert (said[first].value, said[first].note, said[first].person) == (0.0, "", "anna")
    assert (said[second].value, said[second].saw_judge) == (None, False)
    assert [(one.value, one.note) for one in LabelSet(store).history()][:2] == [(1.0, "clear\nenough"), (0.0, "")]
    assert said[first].sample == LabelSet(store).samples()[0].id
    again = anna.get(f"{QUEUE}&row={first}").text
    assert re.search(r'value="bad"[^>]*aria-current', again)
    assert "another choice replaces it" in again


def test_skipped_rows_come_last_and_back_leads_to_the_row_before(store: Store) -> None:
    drawn(store)
    anna = somebody(store, "anna")
    first = row_of(page := anna.get(QUEUE).text)
    assert "Back" not in page
    row = first
    for _ in range(7):
        row = row_of(page := anna.get(f"{QUEUE}&after={row}").text)
        assert row != first
        label(anna, row, "good")
    assert f"row={first}" in anna.get(f"{QUEUE}&row={LabelSet(store).samples()[0].rows[1].key}").text
    assert row_of(anna.get(f"{QUEUE}&after={row}").text) == first
    label(anna, first, "good")
    assert "You have labelled every row" in anna.get(QUEUE).text


@pytest.mark.parametrize(("value", "row"), [("2e400", ""), ("maybe", ""), ("", ""), ("good", "0" * 32)])
def test_labels_that_make_no_sense_are_refused(store: Store, value: str, row: str) -> None:
    drawn(store)
    anna = somebody(store, "anna")
    assert label(anna, row or row_of(anna.get(QUEUE).text), value).status_code == 400
    assert LabelSet(store).history() == []


def test_several_people_at_once_lose_no_label(store: Store) -> None:
    drawn(store)
    rows = [row.key for row in LabelSet(store).samples()[0].rows]

    def say(number: int) -> None:
        web = somebody(store, f"p{number}")
        for row in rows:
            assert label(web, row, "good" if number else "bad").status_code == 303

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(say, range(4)))
    assert len(LabelSet(store).labels()) == 4 * len(rows)


def test_people_who_share_a_token_are_asked_for_their_name_once(store: Store) -> None:
    drawn(store)
    web = TestClient(protected(workbench(store), TOKEN), follow_redirects=False)
    web.get("/", params={"token": TOKEN})
    asking = web.get(QUEUE).text
    assert "Who labels?" in asking
    proof = re.findall(r'name="csrf" value="(\w+)"', asking)[0]
    fields = {"csrf": proof, "set": "labels", "metric": "toy.value"}
    assert send(web, "/labels/name", **fields, name=" \t").status_code == 400
    assert send(web, "/labels/name", **fields, name=ADJUDICATED).status_code == 400
    assert send(web, "/labels/name", **fields, name="Zoë;  B").headers["location"] == QUEUE
    assert "Zoë; B" in web.get(QUEUE).text
    label(web, row_of(web.get(QUEUE).text), "good", csrf=proof)
    assert [one.person for one in LabelSet(store).labels()] == ["Zoë; B"]
    [(name, value)] = [(key, kept) for key, kept in web.cookies.items() if key.startswith("leadline-name")]
    web.cookies.clear()
    web.get("/", params={"token": TOKEN})
    web.cookies.set(name, value.replace("Zo", "Bo"))
    assert "Who labels?" in web.get(QUEUE).text


def test_roles_say_who_may_look_label_draw_and_decide(store: Store) -> None:
    drawn(store)
    row = LabelSet(store).samples()[0].rows[0].key
    viewer, labeller = somebody(store, "vera", PersonRole.VIEWER), somebody(store, "anna")
    assert viewer.get("/labels").status_code == 200
    assert "/queue" not in viewer.get("/labels").text
    assert viewer.get(QUEUE).status_code == label(viewer, row, "good").status_code == 403
    form = "/work?job=sample-labels"
    assert form in somebody(store, "eve", PersonRole.EDITOR).get("/labels").text
    assert form not in labeller.get("/labels").text
    assert 'value="toy.value"' not in labeller.get(form).text
    for path in ("/work", "/labels/labels/decide"):
        assert send(labeller, path, row=row, metric="toy.value", value="good").status_code == 403
    assert label(labeller, row, "good", csrf="other").status_code == 403
    assert LabelSet(store).history() == []


def test_disagreements_show_who_said_what_and_an_editor_decides(store: Store) -> None:
    editor = drawn(store)
    anna, ben = somebody(store, "anna"), somebody(store, "ben")
    row, other = (one.key for one in LabelSet(store).samples()[0].rows[:2])
    label(anna, row, "good", note=f"clear {HOSTILE}")
    label(anna, other, "good")
    path = "/labels/labels/disagreements?metric=toy.value"
    label(ben, row, "bad", note="a wrong berth")
    unseen = somebody(store, "cleo").get(path).text
    assert "1 row that you have not labelled yourself is not shown" in unseen
    assert "a wrong berth" not in unseen
    assert "a wrong berth" not in editor.get(path).text
    for web, address in ((anna, path), (somebody(store, "v", PersonRole.VIEWER), path), (editor, path + "&all=1")):
        page = web.get(address).text
        for shown in ("anna", "ben", "a wrong berth", "✓ good", "✗ bad", "Berth"):
            assert shown in page
        assert "<img" not in page
        assert MODEL not in page
    assert "/decide" not in anna.get(path).text
    form = {"metric": "toy.value", "value": "bad", "note": "The map says so."}
    assert send(editor, "/labels/labels/decide", row=other, **form).status_code == 400, "nobody differs"
    assert send(editor, "/labels/labels/decide", row=row, **form).status_code == 303
    [decided] = [one for one in LabelSet(store).labels() if one.person == ADJUDICATED]
    assert (decided.value, decided.note) == (0.0, "The map says so. (decided by eve)")
    assert decided.sample == LabelSet(store).samples()[0].id
    assert "decided by eve" in editor.get(path + "&all=1").text
    done, _ = AuditLog(store).entries()
    about = {"row": row, "question": "toy.value", "set": "labels"}
    assert [(one.person, one.did) for one in done] == [
        ("eve", "decided"), ("ben", "labelled"), ("anna", "labelled"), ("anna", "labelled"),
    ]  # fmt: skip
    assert done[0].about == done[1].about == about


def test_findings_are_those_of_the_report(store: Store) -> None:
    editor = drawn(store, rows=40)
    sample = LabelSet(store).samples()[0]
    LabelSet(store).add(
        [
            Label(row.key, "toy.value", float(int(row.case.split("-")[1]) % 5 != 0), who, "2026", sample=sample.id)
            for row in sample.rows
            for who in ("anna", "ben")
        ]
    )
    page = editor.get("/labels").text
    for shown in (
        "judge 75.0 %",
        "corrected <b>8",
        "alpha 1.00 (1.00 to 1.00)",
        "about 10 labels more",
        "anna</bdi> 40",
    ):
        assert shown in page
    started = time.monotonic()
    editor.get("/labels")
    assert time.monotonic() - started < 1


def test_people_answer_a_question_without_a_judge(store: Store) -> None:
    editor = drawn(store, metric=None, question="right", labels="truth")
    page = editor.get("/labels/truth/queue").text
    assert "Is this answer right?" in page
    send(editor, "/labels/truth/label", metric="right", row=row_of(page), value="good")
    assert [one.question for one in LabelSet(store, "truth").labels()] == ["right"]
    assert "right" in editor.get("/labels").text


def test_a_set_or_a_question_that_is_not_there_is_said_so(store: Store) -> None:
    editor = drawn(store)
    assert editor.get("/labels/none/queue").status_code == 400
    assert editor.get("/labels/labels/queue?metric=none").status_code == 400
    assert editor.get("/labels/..%2f..%2fx/queue").status_code in (400, 404)


def test_a_run_that_was_dropped_is_said_so(store: Store) -> None:
    editor = drawn(store)
    store.runs()[0].database.unlink()
    page = editor.get("/labels")
    assert (page.status_code, "toy.value" in page.text) == (200, True)
    assert editor.get(QUEUE).status_code == 400


def _pressed(page: Page, key: str) -> None:
    """Press a key, and wait for the page that follows."""
    page.js("document.body.dataset.old = 'yes'")
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")
    page.wait("document.readyState === 'complete' && document.body && !document.body.dataset.old")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1300, 420])
def test_two_people_label_by_keyboard_and_an_editor_decides(store: Store, width: int) -> None:
    """A whole session, each person in a browser of their own, the second one in the dark."""
    drawn(store, rows=4)
    with running(store.root) as (address, _):
        base = address.partition("/?")[0]

        def session(name: str, keys: str, *, dark: bool) -> dict[str, Any]:
            with browse() as page:
                page.resize(width, 900, dark=dark)
                page.send("Page.navigate", url=address)
                page.wait("document.readyState === 'complete' && document.querySelector('nav')")
                page.send("Page.navigate", url=base + "/labels")
                page.wait("document.readyState === 'complete' && document.querySelector('#queue-1')")
                page.press("section .btn")
                page.wait("document.querySelector('input[name=name]')")
                page.fill("input[name=name]", name)
                page.press("main form .btn")
                page.wait("document.readyState === 'complete' && document.querySelector('.labelling')")
                times = []
                for key in keys:
                    assert MODEL not in page.js("document.documentElement.outerHTML")
                    assert page.js("document.documentElement.scrollWidth") <= width
                    begun = time.monotonic()
                    _pressed(page, {"<": "ArrowLeft"}.get(key, key))
                    times.append(time.monotonic() - begun)
                assert "All rows are labelled" in page.text("h1")
                page.send("Page.navigate", url=base + "/labels/labels/disagreements?metric=toy.value")
                page.wait("document.readyState === 'complete' && document.title.startsWith('Disagreements')")
                seen = {"text": page.text("main"), "slowest": max(times)}
                if page.js("Boolean(document.querySelector('article form'))"):
                    page.fill("input[name=note]", "as the map has it")
                    page.press("article form [value=good]")
                    page.wait("document.body && document.body.innerText.includes('decided by')")
                assert page.js("document.documentElement.scrollWidth") <= width
                assert page.complaints == []
                return seen

        first = session("anna", "1g0u", dark=False)
        assert "People differ about no row" in first["text"]
        second = session("ben", "1s<1gb", dark=True)  # skips the second row, comes back, and says good of it too
        assert "anna" in second["text"]
    said = {(one.person, one.value) for one in LabelSet(store).labels()}
    assert (ADJUDICATED, 1.0) in said
    by_person = {who: sum(one.person == who for one in LabelSet(store).labels()) for who in ("anna", "ben")}
    assert by_person == {"anna": 4, "ben": 4}


@pytest.mark.slow
def test_of_a_bucket_that_takes_nothing_all_pages_are_shown_and_a_label_is_refused_and_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_objects("gs") as bucket:
        use(monkeypatch, bucket.environment | {"LEADLINE_CACHE": str(tmp_path / "cache")})
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        run = evaluate(write_berths(tmp_path / "rows.jsonl", 8), evaluators=["bleu"], store=bucket.url).run
        queue = "/labels/labels/queue?metric=bleu.bleu_1"
        drawn(Store.open(bucket.url), run=run, metric="bleu.bleu_1")
        bucket.read_only = True
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "reader"))
        web = somebody(Store.open(bucket.url), "anna", PersonRole.EDITOR)
        asked = row_of(web.get(queue).text)
        for _ in range(2):
            refused = send(web, "/labels/labels/label", metric="bleu.bleu_1", row=asked, value="1")
            assert (refused.status_code, "The store takes nothing now" in refused.text) == (503, True)
        pages = ("/", f"/runs/{run}", f"/runs/{run}/report.html", "/cases", f"/runs/{run}/case?case=c0001", "/compare")
        pages += (
            "/trends",
            "/trends/datasets",
            "/costs",
            "/labels",
            queue,
            "/work",
            "/audit",
            "/work?job=sample-labels",
        )
        assert {path: web.get(path).status_code for path in pages} == dict.fromkeys(pages, 200)
        assert row_of(web.get(queue).text) == asked
        bucket.read_only = False
        assert send(web, "/labels/labels/label", metric="bleu.bleu_1", row=asked, value="1").status_code == 303
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "other"))
        assert [label.person for label in LabelSet(Store.open(bucket.url)).labels()] == ["anna"]
