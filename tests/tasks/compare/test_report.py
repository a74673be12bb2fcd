"""The report of a comparison: hostile texts stay texts, and it reads in a browser, wide and narrow."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from leadline.tasks.compare import Comparison, Options, compare
from leadline.tasks.store.store import Store
from tests.support.processes.browser import browse
from tests.support.stores.run_factory import Given, Toy
from tests.tasks.compare.two_runs import LOWER, SCORE, cases, completed

EVIL = '</style><script>window.hacked = 1</script><img src=x onerror="window.hacked=1">{{ 7*7 }}\u202e| `x`'


def hostile(root: Path, n: int = 40) -> Comparison:
    toys = (Toy(metrics=(SCORE,)), Toy("other", metrics=(LOWER,)), Toy("third", metrics=(SCORE,)))
    runs = []
    for part, drop in enumerate((0.0, 0.4)):
        rows = cases(n, ("m", "k<b>"), question=EVIL, answer=f"{EVIL} " * (30 if part else 1), expected=[EVIL])
        scores = []
        for place, row in enumerate(rows):
            row["answer"] = f"{row['answer']} {row['case']}"  # equal ones would count once
            value = 0.55 + 0.3 * (place % 7) / 7
            scores.append(Given(row["case"], row["model"], max(0.0, value - (drop if row["model"] == "m" else 0.0))))
            scores.append(Given(row["case"], row["model"], "timeout" if place % 9 == 0 else 0.2, "harm", "other"))
            scores.append(Given(row["case"], row["model"], value - 0.04 * (place % 3) * part, evaluator="third"))
        runs.append(completed(root, scores, rows=rows, evaluators=toys, record={"name": EVIL, "dataset_name": EVIL}))
    return compare(Store.open(root / "store"), runs[0].id, runs[1].id, Options())


def test_texts_of_the_dataset_are_escaped(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    page = found.report.read_text(encoding="utf-8")
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]+)"', page)[0])
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy
    assert "<script" not in page
    assert "<img" not in page
    assert "49" not in re.findall(r"onerror=&#34;window.hacked=1&#34;&gt;(..)", page)
    assert "\u202e" not in page
    markdown = (found.folder / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<script", markdown)
    table = [line for line in markdown.splitlines() if line.startswith("| toy.value")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {13}


def test_the_axis_keeps_every_interval_in_sight(tmp_path: Path) -> None:
    page = hostile(tmp_path).report.read_text(encoding="utf-8")
    places = [float(place) for place in re.findall(r'class="(?:ci|limit|zero)" x1="([0-9.-]+)"', page)]
    assert places
    assert all(0 <= place <= 100 for place in places)


def test_an_empty_comparison_has_a_report(tmp_path: Path) -> None:
    before, after = (completed(tmp_path, {"m": [value]}) for value in (0.5, ""))
    found = compare(Store.open(tmp_path / "store"), before.id, after.id)
    assert found.verdict == "inconclusive"
    assert "Nothing could be compared" in found.report.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.browser
def test_it_reads_on_a_desk_and_on_a_telephone(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    with browse() as page:
        for width in (1360, 390):
            page.resize(width, 900)
            page.open(found.report)
            assert "FAIL" in page.text(".gate")
            assert page.js("document.documentElement.scrollWidth") <= width
            assert page.js("document.querySelectorAll('svg.effect').length") == len(found.metrics)
            assert page.js("document.querySelector('.flips details').open")
        page.js("document.querySelector('.metric .who a').click()")
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert page.js("window.hacked") is None
