"""Slices as the report, its files and hostile values show them."""

from __future__ import annotations

import csv
from pathlib import Path

from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.slices import find_slices
from leadline.tasks.db import open_run
from leadline.tasks.publish.exports.report_json import JsonReport
from leadline.tasks.publish.exports.report_pages import MarkdownReport, page
from leadline.tasks.publish.exports.table_files import CsvTables
from leadline.tasks.publish.run_results import read_results
from tests.support.stores.run_factory import Given, answer, make_run

HOSTILE = "</script><b>tides"


def test_the_surely_worse_slice_comes_first_in_the_page_and_all_are_in_the_files(tmp_path: Path) -> None:
    rows = [answer(f"c{i}", m, categories=[HOSTILE if i % 4 == 0 else "dues"]) for i in range(60) for m in "ab"]
    scores = [Given(f"c{i}", m, (0.3 if i % 4 == 0 else 0.9) + i % 7 / 100) for i in range(60) for m in "ab"]
    store, run = make_run(tmp_path, rows=rows, scores=scores)
    with open_run(store, run) as connection:
        aggregate(connection)
        chosen, number = find_slices(connection)
        run.update({"slices": {"columns": list(chosen.columns), "left_out": {"author": "it has one value"}}})
        results = read_results(connection, run, run.read())
        html = page(results)
        for exporter in (MarkdownReport(), CsvTables(), JsonReport()):
            exporter.write(results, tmp_path)
    table = html[html.index('<table id="slice-table">') :]
    first = table[table.index("<tbody>") : table.index("</tr>", table.index("<tbody>"))]
    assert "&lt;/script&gt;&lt;b&gt;tides" in first
    assert "✗ worse" in first
    assert HOSTILE not in html
    assert "Left out: author (it has one value)." in html
    assert "| worse |" in (tmp_path / "report.md").read_text("utf-8")
    with (tmp_path / "slices.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == number
    assert {line["model"] for line in lines} == {"", "a", "b"}


def test_a_run_without_slices_has_no_section(tmp_path: Path) -> None:
    store, run = make_run(tmp_path, rows=[answer("c0", "a")], scores=[Given("c0", "a", 0.9)])
    with open_run(store, run) as connection:
        aggregate(connection)
        assert 'id="slices"' not in page(read_results(connection, run, run.read()))
