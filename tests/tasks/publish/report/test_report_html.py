"""The page as a file: it needs nothing else, hostile text stays text, and a large run stays small."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from leadline.tasks.db.connection import open_run
from leadline.tasks.publish import publish
from leadline.tasks.publish.exports.report_html import page as page_of
from leadline.tasks.publish.facts import collect
from leadline.tasks.publish.report import page_data as page_data_module
from leadline.tasks.publish.report.page_data import PageData, page_data
from leadline.tasks.publish.report.sections.scores import heat_row
from leadline.tasks.publish.run_results import read_results
from tests.tasks.publish.sample import make_sample


class Reader(HTMLParser):
    """Collects elements and what scripts and styles hold."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.raw.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style"):
            tag, attrs, text = self.raw[-1]
            self.raw[-1] = (tag, attrs, text + data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("page")
    store, run = make_sample(root)
    with open_run(store, run) as connection:
        return page_of(read_results(connection, run, run.read()))


def parsed(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def unpacked(packed: str) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(base64.b64decode(packed))))


def test_the_page_may_run_only_its_own_script_and_style(page: str) -> None:
    reader = parsed(page)
    policy = next(a["content"] or "" for tag, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    script = [text for tag, attrs, text in reader.raw if tag == "script" and "type" not in attrs]
    style = [text for tag, _, text in reader.raw if tag == "style"]
    assert len(script) == len(style) == 1
    for text in (*script, *style):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_the_page_refers_to_nothing_outside_and_styles_nothing_inline(page: str) -> None:
    for tag, attributes in parsed(page).elements:
        assert tag not in ("iframe", "object", "embed", "base", "img"), tag
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")
        ]
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))


def test_names_and_findings_are_escaped(page: str) -> None:
    assert "Nightly &lt;support bot&gt;" in page
    assert "wren-7b &lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "window.hacked" not in page  # answers are packed


def test_the_page_holds_every_case_with_scores_and_evidence(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path)
    with open_run(store, run) as connection:
        data = page_data(connection, collect(connection, run.id, run.read()))
    content = unpacked(data.packed)
    assert data.n_cases == len(content["cases"]) == 40
    assert data.n_rows == len(content["rows"]["id"]) == 120
    assert [len(column) for column in content["scores"]] == [120] * 9
    # A context that several rows share is there once.
    assert len(content["chunks"]) < 120
    row = content["rows"]["id"].index(11)
    evaluator, message, spans, extra, error = content["evidence"][str(row)][0]
    assert (evaluator, len(spans), extra, error) == (0, 3, {"sentences": 3}, None)
    assert message.startswith("Least grounded")


def choose(tmp_path: Path, budget: int, cases: int = 400) -> tuple[PageData, dict[str, Any]]:
    store, run = make_sample(tmp_path, cases=cases)
    with open_run(store, run) as connection:
        data = page_data(connection, collect(connection, run.id, run.read()), budget=budget)
    return data, unpacked(data.packed)


def test_a_small_budget_keeps_what_flipped_or_was_not_scored(tmp_path: Path) -> None:
    data, content = choose(tmp_path, 150_000)
    assert 20 < data.n_cases < 200
    telling = {content["rows"]["case"][int(row)] for row in content["unscored"]}
    telling |= {content["rows"]["case"][content["rows"]["id"].index(row)] for row in content["flipped"]}
    assert len(telling) > data.n_cases / 2
    assert [case["id"] for case in content["cases"]] == sorted(case["id"] for case in content["cases"])


def test_one_huge_case_does_not_push_the_others_out(tmp_path: Path) -> None:
    _, content = choose(tmp_path, 200_000, cases=40)
    keys = [case["k"] for case in content["cases"]]
    assert "case-0005" not in keys  # its answer has a million characters
    assert len(keys) == 39


def test_the_page_says_what_it_left_out_and_where_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data_module, "BUDGET", 100_000)
    store, run = make_sample(tmp_path, cases=400)
    with open_run(store, run) as connection:
        page = page_of(read_results(connection, run, run.read()))
    assert re.search(r"This page holds \d+ of 400 cases", page)
    assert f"leadline show {run.id} --case KEY" in page


def test_problems_lead_to_the_rows_that_the_page_holds(tmp_path: Path) -> None:
    _, content = choose(tmp_path, 60_000)
    held = set(content["rows"]["id"])
    assert content["problems"]
    for problem in content["problems"]:
        assert set(problem["rows"]) <= held
        assert problem["n"] >= len(problem["rows"])


def test_a_cell_says_more_than_its_colour(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path)
    with open_run(store, run) as connection:
        facts = collect(connection, run.id, run.read())
    bleu, judged = facts.metric(2), facts.metric(8)
    assert bleu is not None
    assert judged is not None
    cells = heat_row(facts, bleu)
    assert {cell.symbol for cell in cells} == {"✗"}
    assert all("fail" in cell.style for cell in cells)
    assert sum("best" in cell.style for cell in cells) == 1
    assert "threshold at least 0.5: not satisfied" in cells[0].title
    assert heat_row(facts, judged)[0].gap == "77.5 %"
    assert "with them it would be" in heat_row(facts, judged)[0].title


@pytest.mark.parametrize(
    ("fail_on", "words"),
    [
        ("never", "counted: model problems of high severity"),
        ("medium", "counted: model problems of high and medium severity"),
    ],
)
def test_beside_the_gate_stands_what_it_counted_and_the_instruments_problems_stand_apart(
    tmp_path: Path, fail_on: str, words: str
) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with open_run(store, run) as connection:
        connection.execute("UPDATE problems SET severity = 'low' WHERE NOT instrument")
        connection.execute("UPDATE problems SET severity = 'high' WHERE instrument")
        ((n_models, n_instrument),) = connection.execute(
            "SELECT count(*) FILTER (NOT instrument), count(*) FILTER (instrument) FROM problems"
        ).fetchall()
        record = run.read() | {"gate": "pass", "gate_reason": "Enough.", "config": {"fail_on": fail_on}}
        folder = publish(connection, run, record).folder
    html, gist = ((folder / name).read_text("utf-8") for name in ("report.html", "report.md"))
    report = json.loads((folder / "report.json").read_text("utf-8"))
    html = " ".join(html.split())
    assert f'PASS</span> <span class="counted">{words}</span>' in html
    assert f"of the instrument or the data, not counted by the gate: {n_instrument}&nbsp;high" in html
    assert f"**PASS** ({words}): Enough" in gist
    assert f"Problems of models: {n_models} low; of the instrument or the data: {n_instrument} high" in gist
    assert report["gate_counted"] == words
    assert report["problems_by_fault"] == {
        "model": {"high": 0, "medium": 0, "low": n_models},
        "instrument": {"high": n_instrument, "medium": 0, "low": 0},
    }


def test_a_record_that_does_not_say_what_was_asked_leaves_the_phrase_out(page: str) -> None:
    assert 'class="counted"' not in page


def test_a_table_of_rates_by_perturbation_is_folded(page: str) -> None:
    assert re.search(r"<summary>Rates by perturbation \([0-9,]+ rows?\)</summary>", page)
