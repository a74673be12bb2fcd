"""The reading page: what it lists, whom it lets in, and what it never serves."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest
from starlette.testclient import TestClient

from leadline.evaluators.ground import StoreError
from leadline.evaluators.judge_client.calls import Reply
from leadline.plugins.ui.app import protected, workbench
from leadline.plugins.ui.marked_text import TextMark, marked, word_differences
from leadline.plugins.ui.pages import cases
from leadline.plugins.ui.pages.runs import PAGE
from leadline.tasks.db import connect, literal, open_run
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.load.staging import write_searched
from leadline.tasks.runs import run_index
from leadline.tasks.store.store import Run, Store
from tests.support.judges.scripted_judge import question
from tests.support.stores.runs import ANSWERS, make_run
from tests.support.stores.s3 import S3

TOKEN = "a token for the page"
HOSTILE = '<script>alert(1)</script>"\x1b[31m'


def client(store: Store, *, token: str = TOKEN, prefect: str = "") -> TestClient:
    return TestClient(protected(workbench(store, prefect), token), follow_redirects=False)


def reader(store: Store, *, prefect: str = "") -> TestClient:
    """Return a client that has been let in."""
    web = client(store, prefect=prefect)
    assert web.get("/", params={"token": TOKEN}).status_code == 303
    return web


def published(store: Store, run_id: str, **record: object) -> Path:
    """Make a run with a report."""
    results = make_run(store, run_id, record=record).results
    results.mkdir()
    (results / "report.html").write_text("<h1>The report</h1>")
    (results / "problems.csv").write_text("severity\nhigh\n")
    return results


def names(page: str) -> list[str]:
    return re.findall(r'class="name" href="/runs/([^"]+)"', page)


def test_runs_are_listed_newest_first_with_their_verdict_in_words(store: Store) -> None:
    published(store, "20260101-a", tags={"production": "2026-01-01"})
    published(store, "20260102-b", gate="pass", gate_reason="No problem of high severity.")
    make_run(store, "20260103-c", record={"status": "failed", "gate": None, "error": "No room."})
    page = reader(store).get("/").text
    assert names(page) == ["20260103-c", "20260102-b", "20260101-a"]
    for shown in ("✗ Fails", "✓ Passes", "Failed", "No room.", "1 problem of high severity.", "production", "1.5 s",
                  "<bdi>alpha</bdi>, <bdi>beta</bdi>", "66.7 % measured"):  # fmt: skip
        assert shown in page
    assert page.count(">Report</a>") == 2


def test_a_search_finds_by_name_dataset_model_and_tag_and_filters_add_up(store: Store) -> None:
    make_run(store, "20260101-a", record={"name": "nightly", "models": ["gamma"], "tags": {"production": "x"}})
    make_run(store, "20260102-b", record={"name": "Weekly", "gate": "pass", "dataset_name": "other"})
    web = reader(store)
    found = {asked: names(web.get(f"/?{asked}").text) for asked in (
        "q=WEEK", "q=gamma+night", "q=production", "q=nothing", "verdict=pass", "verdict=fail", "dataset=other",
        "dataset=other&verdict=fail",
    )}  # fmt: skip
    a, b = ["20260101-a"], ["20260102-b"]
    assert list(found.values()) == [b, a, a, [], b, a, b, []]


def test_thousands_of_runs_come_a_page_at_a_time(store: Store) -> None:
    record = make_run(store, "20260101-0000").path / "run.json"
    for number in range(1, 2 * PAGE + 1):
        folder = store.run(f"20260101-{number:04}").path
        folder.mkdir()
        (folder / "run.json").write_bytes(record.read_bytes())
    web = reader(store)
    first, last = web.get("/").text, web.get("/?page=99").text
    assert (len(names(first)), names(last)) == (PAGE, ["20260101-0000"])
    assert "Next" in first
    assert "Previous" not in first
    assert "Next" not in last
    assert names(web.get("/?page=-1").text) == names(web.get("/?page=x").text) == names(first)


def test_a_record_that_changes_is_read_again_and_one_that_ended_only_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "FRESH_S", -1.0)
    run = make_run(store, "20260101-a", record={"status": "running"})
    index = run_index.RunIndex(store)
    assert [line.status for line in index.lines()] == ["running"]
    run.update({"status": "completed", "name": "another name"})
    assert [(line.status, line.name) for line in index.lines()] == [("completed", "another name")]
    reads: list[str] = []
    made = run_index.line_of

    def noted(run: Run, record: Mapping[str, Any]) -> run_index.RunLine:
        reads.append(run.id)
        return made(run, record)

    monkeypatch.setattr(run_index, "line_of", noted)
    assert len(index.lines()) == 1
    assert reads == []
    (run.path / "run.json").write_text("[broken")
    assert index.lines() == []


def test_a_run_has_a_page_with_what_there_is_to_read(store: Store) -> None:
    published(store, "20260101-a", flow_run="f00d")
    page = reader(store, prefect="http://prefect:4200").get("/runs/20260101-a").text
    assert '<div class="big">Fails</div>' in page
    assert set(re.findall(r'href="(/runs/20260101-a/[^"]+)"', page)) == {
        "/runs/20260101-a/report.html", "/runs/20260101-a/problems.csv",
    }  # fmt: skip
    assert "beta misses the threshold" in page
    assert 'href="http://prefect:4200/runs/flow-run/f00d"' in page
    assert 'href="/cases?run=20260101-a&amp;metric=bleu.bleu_1&amp;model=beta"' in page


def test_cases_are_found_by_words_metric_outcome_and_problem(store: Store) -> None:
    make_run(store, "20260101-a")
    web = reader(store)

    def found(asked: str) -> list[str]:
        page = web.get("/cases?run=20260101-a&" + asked).text
        return re.findall(r'class="name" href="/runs/20260101-a/case\?case=(\w+)"', page)

    assert found("") == ["c1", "c1", "c2"]
    assert found("q=q1%3F+WRONG") == ["c1"]
    assert found("q=q1%3F+a2") == []
    assert found("model=alpha") == ["c1", "c2"]
    assert found("metric=bleu.bleu_1") == ["c1", "c2", "c1"], "the failing one, the unscored one, the passing one"
    assert found("metric=bleu.bleu_1&outcome=fails") == found("problem=0") == ["c1"]
    assert found("metric=bleu.bleu_1&outcome=fails&threshold=0.05") == []
    assert found("problem=7") == found("slice=no%3Dne") == []


def test_cases_are_found_by_a_slice_whose_names_have_equals_signs(store: Store) -> None:
    run = make_run(store, "20260101-a")
    with duckdb.connect(str(run.database)) as connection:
        lines = [("a", "b=c", 0), ("a=b", "c", 2), ("a", "b", 1)]
        connection.executemany("INSERT INTO slice_rows (slice_column, slice_value, row_id) VALUES (?, ?, ?)", lines)
    web = reader(store)

    def found(slice_: str, metric: str = "") -> list[str]:
        page = web.get("/cases", params={"run": run.id, "slice": slice_, "metric": metric}).text
        return re.findall(r'class="name" href="/runs/20260101-a/case\?case=(\w+)"', page)

    assert found("a=b=c") == ["c1", "c2"], "both readings of the name"
    assert found("a=b") == found("a=b", "bleu.bleu_1") == ["c1"]
    assert found("a=c") == found("b=c") == []


def test_cases_are_found_by_the_cluster_of_failures_that_they_are_in(store: Store) -> None:
    run = make_run(store, "20260101-a")
    part = {"size": 1, "words": ["tide", "gauge"], "central_cases": ["c2"], "cases": ["c2"], "metric_ids": ["bleu_1"]}
    whole = {"words": [], "central_cases": ["c1"]}
    with duckdb.connect(str(run.database)) as connection:
        for number, model, kind, attrs, rows in (
            (1, 0, "failing_rows", {"failure_clusters": [part]}, [0, 2]),
            (2, 0, "missed_threshold", {"failure_clusters": [part | {"cases": ["c1", "c2"]}]}, [0, 2]),
            (3, 1, "failure_cluster", whole, [1]),
        ):
            connection.execute(
                "INSERT INTO problems BY NAME SELECT $number AS problem_id, 'low' AS severity, 'accuracy' AS type, "
                "$kind AS kind, 'model' AS fault, false AS instrument, 0.1 AS harm, $model AS model_id, "
                "'' AS description, '' AS actions, $attrs AS attrs, $rows AS row_ids",
                {"number": number, "model": model, "kind": kind, "attrs": json.dumps(attrs), "rows": rows},
            )
    web = reader(store)

    def found(cluster: str) -> list[str]:
        page = web.get("/cases", params={"run": "20260101-a", "cluster": cluster}).text
        row = r'class="name" href="/runs/20260101-a/case\?case=(\w+)".*?<div class="small muted"><bdi>(\w+)'
        return re.findall(row, page, re.DOTALL)

    page = web.get("/cases?run=20260101-a").text
    options = page.partition('aria-label="Cluster of failures"')[2].partition("</select>")[0]
    assert re.findall('value="([^"]+)"', options) == ["alpha: tide, gauge", "beta: like c1"]
    assert found("alpha: tide, gauge") == [("c1", "alpha"), ("c2", "alpha")], "what two problems say of it, each once"
    assert found("beta: like c1") == [("c1", "beta")]
    assert found("alpha: like c1") == []


def keep_searched(store: Store, run: Run) -> None:
    """Keep the texts of a run's dataset in small letters, as those of a large one are kept when it is loaded."""
    with connect() as connection:
        write_searched(connection, store.dataset(run.read()["dataset"]))


def test_a_search_over_all_runs_leads_to_the_newest_that_has_the_case(store: Store) -> None:
    make_run(store, "20260101-a")
    make_run(store, "20260102-b")
    page = reader(store).get("/cases?q=wrong").text
    assert re.findall(r'class="name" href="([^"]+)"', page) == ["/runs/20260102-b/case?case=c1"]


@pytest.mark.parametrize("kept", [(), ("20260102-b",), ("20260101-a", "20260102-b")])
def test_a_search_over_all_runs_finds_a_case_of_each_dataset_with_the_answer_that_has_the_words(
    store: Store, kept: tuple[str, ...]
) -> None:
    other = [{"case": "c1", "model": "beta", "question": "Which Berth?", "answer": "STRAßE {7} 'b'"}]
    for run in (make_run(store, "20260101-a", answers=LISTED), make_run(store, "20260102-b", answers=other)):
        if run.id in kept:
            keep_searched(store, run)
    web = reader(store)

    def found(words: str) -> list[tuple[str, str]]:
        page = web.get("/cases", params={"q": words}).text
        return re.findall(
            r'class="name" href="/runs/(\d+)-\w/case\?case=(\w+)".*?class="why"><bdi>([^<]+)<', page, re.S
        )

    assert found("straße") == found("{7} BERTH") == found("'b'") == [("20260102", "c1", "STRAßE {7} &#39;b&#39;")]
    assert found("AT 14") == [("20260101", "c2", "At 14.")]
    assert sorted(run for run, *_ in found("berth")) == ["20260101"] * 5 + ["20260102"]
    assert found("14 straße") == found("mole") == []


def test_a_case_shows_answers_scores_and_evidence_as_text(store: Store) -> None:
    make_run(store, "20260101-a")
    web = reader(store)
    page = web.get("/runs/20260101-a/case?case=c1").text
    for shown in ("Q1?", "no n-gram in common", "Retrieved context (1)", "ctx", "✗ 0.1", "✓ 1"):
        assert shown in page
    assert "\x1b" not in page
    missing = web.get("/runs/20260101-a/case?case=c3")
    assert (missing.status_code, "c1" in missing.text) == (400, True)


def test_two_runs_are_picked_from_the_list_and_compared_with_the_older_one(store: Store) -> None:
    """What broke is shown side by side, with the words marked in which the answers differ."""
    for run_id, answer, value in (("20260101-a", "A1 now", 0.9), ("20260102-b", "A9 now", 0.1)):
        answers = [ANSWERS[0], ANSWERS[1] | {"answer": answer}, ANSWERS[2]]
        make_run(store, run_id, values=(1.0, value, 1.0), answers=answers)
    web = reader(store)
    assert web.get("/").text.count('type="checkbox" name="run"') == 2
    page = web.get("/compare?pick=1&run=20260102-b&run=20260101-a").text
    assert re.findall(r'<input type="search" name="run" list="runs" value="([^"]*)"', page)[:2] == [
        "20260101-a",
        "20260102-b",
    ]
    assert "✗ broken" in page
    assert "<del>A1</del>" in page
    assert "<ins>A9</ins>" in page
    other = web.get("/compare?run=20260102-b&run=20260101-a").text
    assert "✓ fixed" in other
    report = re.search(r'href="(/comparisons/\w+/report.html)"', page)
    assert report
    assert web.get(report[1]).status_code == 200


@pytest.mark.parametrize("asked", ["run=20260101-a", "run=20260101-a&run=20260101-a", "run=x&run=y", "run=..&run=%00"])
def test_what_cannot_be_compared_is_said_on_the_page(store: Store, asked: str) -> None:
    make_run(store, "20260101-a")
    answer = reader(store).get(f"/compare?{asked}")
    assert (answer.status_code, 'role="alert"' in answer.text) == (200, True)


@pytest.mark.parametrize("path", ["/", "/runs/20260101-a", "/compare?run=x&run=y"])
def test_pages_name_the_store_and_do_not_tell_where_its_folder_is(tmp_path: Path, path: str) -> None:
    store = Store.open(tmp_path / "harbour" / ".leadline")
    published(store, "20260101-a")
    page = reader(store).get(path).text
    assert str(tmp_path) not in page
    assert "harbour/.leadline" in page


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a b c", "a x c", ("a <del>b</del> c", "a <ins>x</ins> c")),
        ("", "<b>", ("", "<ins>&lt;b&gt;</ins>")),
        ("same", "same", ("same", "same")),
        ("end", "end\x00", ("end", "end<ins>␀</ins>")),
    ],
)
def test_differences_are_marked_by_words_and_texts_stay_texts(before: str, after: str, shown: tuple[str, str]) -> None:
    assert word_differences(before, after) == shown


def test_marks_that_overlap_or_lie_outside_leave_the_text_whole() -> None:
    found = marked("abcdef", [TextMark(1, 4, 'x"'), TextMark(3, 5, "y"), TextMark(4, 99, "z"), TextMark(2, 2, "")])
    assert found == 'a<mark title="x&#34;">bc</mark><mark title="y">de</mark>f'


def test_what_a_judge_was_asked_and_replied_is_two_clicks_from_the_case(store: Store) -> None:
    make_run(
        store, "20260101-a", answers=[ANSWERS[0] | {"answer": 'First\n  it is <b>"A1"</b>, is it not?'}, *ANSWERS[1:]]
    )

    async def judged() -> None:
        ledger = open_ledger(store, "20260101-a")
        call = question('> First\n> it is <b>"A1"</b>, is it not?', purpose="faithfulness:verdicts")
        await ledger.intend(call)
        await ledger.answered(call, Reply("<i>yes</i>"))

    asyncio.run(judged())
    web = reader(store)
    way = re.search(r'href="(/runs/20260101-a/calls[^"]+model=alpha)"', web.get("/runs/20260101-a/case?case=c1").text)
    assert way
    calls = web.get(way[1].replace("&amp;", "&")).text
    one = re.search(r'href="(/calls/\w+)">faithfulness:verdicts<', calls)
    assert one
    page = web.get(one[1]).text
    assert "is it not?" in page
    assert "&lt;i&gt;yes&lt;/i&gt;" in page
    assert web.get("/calls/none").status_code == web.get("/calls/%25").status_code == 404


def test_a_case_whose_dataset_is_gone_is_said_so(store: Store) -> None:
    run = make_run(store, "20260101-a")
    shutil.rmtree(store.dataset(run.read()["dataset"]))
    web = reader(store)
    assert "no longer in the store" in web.get("/runs/20260101-a/case?case=c1").text
    assert web.get("/runs/20260101-a").status_code == 200


def test_a_report_is_served_in_an_origin_of_its_own_and_tables_are_saved(store: Store) -> None:
    published(store, "20260101-a")
    web = reader(store)
    report = web.get("/runs/20260101-a/report.html")
    assert report.text == "<h1>The report</h1>"
    policy = report.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    table = web.get("/runs/20260101-a/problems.csv")
    assert table.headers["content-disposition"].startswith("attachment")
    assert "script-src" not in table.headers["content-security-policy"]
    assert web.head("/runs/20260101-a/report.html").status_code == 200
    assert web.get("/runs/20260101-a/report.html", headers={"Range": "bytes=0-3"}).text == "<h1>"
    (store.root / "comparisons" / "c1").mkdir(parents=True)
    (store.root / "comparisons" / "c1" / "report.html").write_text("compared")
    assert web.get("/comparisons/c1/report.html").text == "compared"


OUTSIDE = [
    "/runs/20260101-a/../../../secret.txt", "/runs/20260101-a/..%2f..%2f..%2fsecret.txt", "/runs/..%2f..%2fsecret.txt",
    "/runs/20260101-a/%2e%2e/run.json", "/runs/20260101-a/..%5crun.json", "/runs/20260101-a//etc/passwd",
    "/runs/20260101-a/%2fetc%2fpasswd", "/runs/20260101-a/link.txt", "/runs/20260101-a/folder/secret.txt",
    "/runs/20260101-a/.hidden", "/runs/20260101-a/folder", "/runs/20260101-a/", "/runs/20260101-a/report.html%00",
    "/runs/./report.html", "/comparisons/../runs/20260101-a/run.json", "/comparisons/x/report.html",
    "/datasets/x/manifest.json", "/runs", "/runs/", "/ledger.sqlite", "/templates/base.html",
    "/runs/20260101-a/" + "a/" * 30, "/runs/" + "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_is_served_but_files_of_results(store: Store, path: str) -> None:
    results = published(store, "20260101-a")
    (store.root.parent / "secret.txt").write_text("secret")
    (store.root / "secret.txt").write_text("secret")
    (results / "link.txt").symlink_to(store.root / "secret.txt")
    (results / "folder").symlink_to(store.root)
    (results / ".hidden").write_text("secret")
    answer = reader(store).get(path)
    assert answer.status_code in (307, 404)  # a slash at the end leads to the address without
    assert "secret" not in answer.text


def test_hostile_names_are_shown_as_text(store: Store) -> None:
    published(store, "20260101-a", name=HOSTILE, models=[HOSTILE], gate_reason=HOSTILE, dataset_name=HOSTILE,
              tags={HOSTILE: "x"}, changed=HOSTILE, flow_run='"><u>')  # fmt: skip
    web = reader(store, prefect="http://prefect")
    for path in ("/", "/runs/20260101-a", "/?" + urlencode({"q": HOSTILE, "dataset": HOSTILE})):
        page = web.get(path).text
        assert "<script>" not in page
        assert "\x1b" not in page
        assert '"><u>' not in page


def test_hostile_texts_of_datasets_stay_texts_on_every_page(store: Store) -> None:
    """Keys, models, questions, answers, contexts and categories are whatever somebody wrote into a dataset."""
    answers = [
        {name: f"{name} {HOSTILE}" for name in ("case", "model", "question", "answer")}
        | {"expected": [HOSTILE], "context": [HOSTILE], "categories": [HOSTILE]}
    ] * 2
    answers = [answers[0], answers[1] | {"model": "beta", "answer": HOSTILE}]
    run = {"models": [answers[0]["model"], "beta"], "tags": {HOSTILE: "x"}, "config": {"dataset": HOSTILE}}
    for name in ("20260101-a", "20260102-b"):
        make_run(store, name, values=(1.0, 0.1), answers=answers, record=run)
    web = reader(store)
    key = urlencode({"case": answers[0]["case"], "model": answers[0]["model"], "q": HOSTILE})
    paths = [
        "/", "/cases?q=script", "/cases?run=20260101-a", f"/cases?run=20260101-a&{key}", f"/runs/20260101-a/case?{key}",
        f"/runs/20260101-a/calls?{key}", "/compare?run=20260101-a&run=20260102-b",
        f"/compare?{urlencode({'run': HOSTILE})}",
        "/work?again=20260101-a", "/trends", "/costs", "/labels", "/runs/20260101-a",
    ]  # fmt: skip
    for path in paths:
        answer = web.get(path)
        assert answer.status_code == 200, path
        assert "<script>" not in answer.text, path
        assert '"\x1b' not in answer.text, path
        assert "\x1b" not in answer.text, path


def test_records_that_are_no_records_are_left_out(store: Store) -> None:
    make_run(store, "20260101-a")
    broken = [
        "",
        "[]",
        "null",
        '{"models": 3}',
        '{"counts": {"scored": "x"}}',
        '{"problems_by_fault": []}',
        '{"tags": 7}',
    ]
    for number, text in enumerate(broken):
        folder = store.run(f"broken-{number}").path
        folder.mkdir()
        (folder / "run.json").write_text(text)
    assert "20260101-a" in names(reader(store).get("/").text)


@pytest.mark.parametrize("path", ["/", "/runs/20260101-a", "/runs/20260101-a/report.html", "/nothing"])
@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", "?token=%C3%A9%ED%A0%80"])
def test_nobody_reads_without_the_token(store: Store, path: str, given: str) -> None:
    published(store, "20260101-a")
    web = client(store)
    for headers in ({}, {"Cookie": f"leadline-ui={TOKEN}"}, {"Authorization": "Bearer wrong"}):
        answer = web.get(path + given, headers=headers)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "20260101" not in answer.text
        assert TOKEN not in answer.text


def test_the_token_becomes_a_cookie_that_does_not_tell_it_and_leaves_the_address(store: Store) -> None:
    published(store, "20260101-a")
    web = client(store)
    answer = web.get("/runs/20260101-a", params={"token": TOKEN, "q": "a b"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/20260101-a?q=a+b")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    assert web.get("/runs/20260101-a").status_code == 200
    assert (
        client(store, token="another token of it").get("/", headers={"Cookie": cookie.split(";")[0]}).status_code == 401
    )
    assert client(store).get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    secure = TestClient(protected(workbench(store), TOKEN, secure=True), follow_redirects=False)
    assert "Secure" in secure.get("/", params={"token": TOKEN}).headers["set-cookie"]


def test_behind_a_proxy_every_way_leads_below_its_path(store: Store) -> None:
    published(store, "20260101-a")
    web = TestClient(protected(workbench(store, base="/reports"), TOKEN, base="/reports"), follow_redirects=False)
    refused = web.get("/runs/20260101-a")
    entered = web.get("/runs/20260101-a", params={"token": TOKEN})
    assert entered.headers["location"] == "/reports/runs/20260101-a"
    assert "Path=/reports/" in entered.headers["set-cookie"]
    web.cookies.set("leadline-ui", entered.headers["set-cookie"].partition("=")[2].partition(";")[0])
    for page in (refused, web.get("/"), web.get("/runs/20260101-a"), web.get("/nothing")):
        ways = re.findall(r'(?:href|action)="(/[^"]*)"', page.text)
        assert ways
        assert all(way.startswith("/reports/") for way in ways), ways


def test_the_way_back_stays_on_the_page(store: Store) -> None:
    answer = client(store).get(f"http://testserver//elsewhere.example/%5c?token={TOKEN}")
    assert answer.headers["location"].startswith("/elsewhere.example")


@pytest.mark.parametrize("host", ["x/health?", "x/static/pages.css#", "x:80/health?a=", "[::1]/health?"])
def test_the_header_host_opens_nothing(store: Store, host: str) -> None:
    published(store, "20260101-a")
    assert client(store).get("/runs/20260101-a", headers={"Host": host}).status_code == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_pages_are_read_and_forms_are_sent_and_nothing_else(store: Store, method: str) -> None:
    assert reader(store).request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_a_form_of_another_site_is_refused(store: Store, headers: dict[str, str]) -> None:
    assert reader(store).post("/", headers=headers).status_code == 403


def test_every_answer_keeps_browsers_strict(store: Store) -> None:
    published(store, "20260101-a")
    web = reader(store)
    for path in ("/", "/runs/20260101-a", "/runs/20260101-a/report.html", "/nothing", "/static/pages.css", "/health"):
        headers = web.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert "script-src 'self';" in web.get("/").headers["content-security-policy"]
    assert re.findall(r"<script[^>]*>", web.get("/").text) == ['<script src="/static/workbench.js" defer>']


def test_what_tells_nothing_is_open_to_all(store: Store) -> None:
    web = client(store)
    assert web.get("/health").json() == {"ok": True}
    assert ".badge" in web.get("/static/pages.css").text


@pytest.fixture
def in_bucket(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[S3, Store]:
    """A run that another host has put into a bucket, and this host's store."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "other"))
    store = Store.open(s3.url)
    run = make_run(store, "20260101-a")
    run.results.mkdir()
    (run.results / "report.html").write_text("from the bucket")
    store.share_results(run)
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "mine"))
    return s3, Store.open(s3.url)


def test_runs_and_reports_of_a_bucket_are_shown(in_bucket: tuple[S3, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    s3, store = in_bucket
    monkeypatch.setattr(run_index, "FRESH_REMOTE_S", -1.0)
    web = reader(store)
    assert names(web.get("/").text) == ["20260101-a"]
    assert store.location.partition("?")[0] in web.get("/").text
    assert "/runs/20260101-a/report.html" in web.get("/runs/20260101-a").text
    assert web.get("/runs/20260101-a/report.html").text == "from the bucket"
    assert web.get("/runs/20260101-a/none.html").status_code == 404
    assert not (store.root / "runs" / "none").exists()
    key = "a/store/runs/20260101-a/results/report.html"
    s3.client().put_object(Bucket=s3.bucket, Key=key, Body=b"written anew")
    assert web.get("/runs/20260101-a/report.html").text == "written anew"
    left = s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="a/store/runs/20260101-a/")["Contents"]
    for found in left:
        s3.client().delete_object(Bucket=s3.bucket, Key=found["Key"])
    assert names(web.get("/").text) == []


def test_a_bucket_that_does_not_answer_is_said_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    web = reader(store)

    def fail(self: object) -> None:
        raise StoreError("s3://bucket with its secret is away.")

    monkeypatch.setattr(run_index.RunIndex, "lines", fail)
    answer = web.get("/")
    assert (answer.status_code, "secret" in answer.text) == (503, False)


LISTED: list[dict[str, Any]] = [
    {
        "case": f"c{number}",
        "model": model,
        "question": f"Berth {number}?",
        "answer": f"At {number * 7}.",
        "context": text,
    }
    for number in range(5)
    for model, text in (("alpha", ["the 1999 table"] if number == 3 else []), ("beta", []))
]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, list(range(10))),
        ({"metric": "bleu.bleu_1"}, [3, 9, 8, 1, 4, 2, 0, 5, 6, 7]),
        ({"metric": "bleu.bleu_1", "outcome": "passes"}, [2, 0]),
        ({"metric": "bleu.bleu_1", "outcome": "none"}, []),
        ({"metric": "bleu.bleu_1", "model": "beta"}, [3, 9, 1, 5, 7]),
        ({"question": "right"}, [1, 3, 8, 9]),
        ({"question": "right", "model": "alpha"}, [8]),
        ({"q": "BERTH at"}, list(range(10))),
        ({"q": "14 berth"}, [4, 5]),
        ({"q": "1999"}, [6]),
        ({"q": "c3 21 1999"}, [6]),
    ],
)
def test_every_page_of_a_search_is_a_part_of_one_list_whatever_end_it_is_read_from(
    store: Store, wanted: dict[str, str], expected: list[int], gaps: bool, kept: bool
) -> None:
    """Texts in small letters, which large datasets keep, change nothing."""
    run = make_run(store, "20260101-a", answers=LISTED, values=(0.9, 0.4, 0.8, 0.0, None))
    if gaps:
        with connect() as connection:
            path = store.dataset(run.read()["dataset"]) / "rows.parquet"
            kept = "SELECT * REPLACE ((row_id * 2)::UINTEGER AS row_id)"
            connection.execute(f"CREATE TABLE t AS {kept} FROM read_parquet({literal(path)})")
            connection.execute(f"COPY t TO {literal(path)} (FORMAT parquet)")
    if kept:
        keep_searched(store, run)
    with duckdb.connect(str(run.database)) as connection:
        connection.execute("INSERT INTO scores SELECT 0, unnest([8, 9]), 0, 'scored', NULL, unnest([0.3, 0.2])")
        if gaps:
            connection.execute("UPDATE scores SET row_id = row_id * 2")
    chosen = cases._filter({name: wanted.get(name, "") for name in cases.FILTERS})
    dataset = store.dataset(run.read()["dataset"])
    with open_run(store, run, read_only=True) as connection:
        metric = cases._metric(connection, chosen)
        (found, total), *parts = (
            cases.find_rows(connection, dataset, chosen, metric, limit, offset)
            for limit, offset in ((100, 0), (3, 0), (3, 3), (3, 6), (3, 9), (3, 12))
        )
    places = [LISTED.index(next(one for one in LISTED if (one["case"], one["model"]) == (line["case"], line["model"])))
              for line in found]  # fmt: skip
    assert places == expected
    assert total == len(expected)
    assert [line for lines, _ in parts for line in lines] == found
    assert {count for _, count in parts} == {total}
