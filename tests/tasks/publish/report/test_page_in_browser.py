"""The page in a real browser: it finds, filters and opens things, asks the network for nothing, and obeys no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.tasks.db import open_run
from leadline.tasks.publish.exports.report_pages import HtmlReport
from leadline.tasks.publish.run_results import read_results
from tests.support.processes.browser import Page, browse
from tests.tasks.publish.sample import LONG, make_sample

pytestmark = [pytest.mark.browser, pytest.mark.slow]

COUNT = "#case-count"
FIRST = "#case-list .case > button"


def make_page(root: Path, cases: int) -> Path:
    store, run = make_sample(root, cases=cases)
    with open_run(store, run) as connection:
        HtmlReport().write(read_results(connection, run, run.read() | {"config": {"fail_on": "high"}}), root)
    return root / "report.html"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_page(tmp_path_factory.mktemp("report"), 40)


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browse() as tab:
        yield tab


@pytest.fixture
def page(tab: Page, report: Path) -> Iterator[Page]:
    tab.complaints.clear()
    tab.requests.clear()
    tab.resize(1400, 1000)
    tab.open(report)
    yield tab
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.js("window.hacked") is None


def open_case(page: Page, key: str) -> None:
    page.fill("#case-search", key)
    page.wait(
        f"document.querySelectorAll('#case-list .case').length === 1 && document.querySelector('[data-case={key}]')"
    )
    page.press(FIRST)


def test_it_loads_without_complaint_and_lists_the_cases(page: Page) -> None:
    assert page.text(COUNT) == "40 cases"
    assert page.js("document.querySelectorAll('#case-list .case').length") == 20
    assert "FAIL" in page.text(".gate")


def test_search_looks_into_keys_questions_and_answers(page: Page) -> None:
    page.fill("#case-search", "CASE-0007")
    page.wait("document.getElementById('case-count').textContent === '1 of 40 cases'")
    page.fill("#case-search", "emoji grounded")
    page.wait("document.querySelector('#case-list .case').dataset.case === 'case-0003'")
    assert page.text(COUNT) == "1 of 40 cases"
    page.fill("#case-search", "no such words")
    page.wait("!document.getElementById('case-empty').hidden")
    page.press("#case-clear")
    assert page.text(COUNT) == "40 cases"


def test_filters_narrow_by_outcome_model_and_evaluator(page: Page) -> None:
    page.fill("#case-status", "lost")
    assert page.text(COUNT) == "9 of 40 cases"
    page.fill("#case-evaluator", "5")
    both = page.text(COUNT)
    page.fill("#case-model", "0")
    page.fill("#case-evaluator", "0")
    assert page.text(COUNT) == "3 of 40 cases"
    assert both == "9 of 40 cases"
    page.press("#case-clear")
    page.fill("#case-status", "perturbed")
    assert page.text(COUNT) == "8 of 40 cases"


def test_a_case_opens_with_what_fails_and_the_worst_failing_check_marks_the_answer(page: Page) -> None:
    open_case(page, "case-0000")
    answers = "[...document.querySelectorAll('#case-list .answer')]"
    assert page.js(f"{answers}.length") == 3
    marks = page.js(
        f"{answers}.map(a => [...a.querySelectorAll('.said mark')].map(m => [m.textContent, m.className, m.title]))"
    )
    assert marks[0][0] == ["It was fixed in 1983.", "pass", "0.910 · sentence 1"]
    assert marks[0][1][1:] == ["fail", "0.410 · sentence 2"]
    assert marks[1] == [["ed in ", "fail", "card"]]  # the leak weighs more than a sentence below its threshold
    lines = page.js(f"{answers}.map(a => [...a.querySelectorAll('.checks > li')].map(line => line.innerText))")
    assert lines[1][:2] == ["PII leakage fail ✗ must\nA card number was found <here>.", "Text matching fail ✗"]
    page.press("#case-list .answer:nth-child(2) .checks button")
    assert page.js(f"{answers}[1].querySelectorAll('.said mark').length") == 0
    page.press("#case-list .answer details > summary")
    page.wait("document.querySelector('.answer .role .score')")
    roles = page.js("[...document.querySelectorAll('.answer .role')].map(role => role.innerText.split('\\n')[0])")
    assert roles == ["must", "should", "information"]
    page.press(FIRST)
    assert page.js(f"{answers}.length") == 0


def test_answers_stand_side_by_side_or_below_each_other_with_the_first_in_view(page: Page) -> None:
    tops = "[...document.querySelectorAll('#case-list .answer')].map(a => a.getBoundingClientRect().top)"
    page.resize(1300, 900)
    page.js("location.hash = '#case=case-0007'")
    page.wait("document.querySelector('[data-case=case-0007] .answer')")
    assert len(set(page.js(tops))) == 1
    page.resize(420, 900)
    page.js("location.hash = '#case=case-0006'")  # in a tab that is open already
    page.wait("document.querySelector('[data-case=case-0006] .answer')")
    assert len(set(page.js(tops))) == 3
    assert 0 < page.js("document.querySelector('#case-list .said').getBoundingClientRect().bottom") < 900
    assert page.js("document.documentElement.scrollWidth") <= 420


def test_highlights_count_code_points_as_the_scores_do(page: Page) -> None:
    open_case(page, "case-0003")
    first = "[...document.querySelectorAll('#case-list .answer')].pop().querySelector('.said mark').textContent"
    assert page.js(first) == "😀 emoji first. Then a"


def test_hostile_answers_are_shown_as_text(page: Page) -> None:
    open_case(page, "case-0000")
    assert "</script><script>window.hacked = 1</script><img src=x" in page.text("#case-list")
    open_case(page, "case-0001")
    assert "{{ 7 * 7 }} {% raw %} ${window.hacked = 3}" in page.text("#case-list")
    open_case(page, "case-0002")
    answer = page.text("#case-list .answer:last-child .said")
    assert "U+202E" in answer
    assert "␀" in answer
    assert "\u202e" not in answer
    open_case(page, "case-0004")
    assert "The answer is empty." in page.text("#case-list")


def test_a_very_long_answer_is_folded_and_unfolds_as_far_as_it_is_in_the_page(page: Page) -> None:
    open_case(page, "case-0005")
    said = "document.querySelector('#case-list .answer:last-child .said')"
    assert page.js(f"{said}.textContent.length") < 3000
    page.js(f"{said}.querySelector('button').click()")
    assert page.js(f"{said}.querySelector('.text').textContent.length") == 20_000
    assert page.text("#case-list .answer:last-child .said .cut") == f"Characters 1 to 20,000 of {len(LONG):,}."


def test_a_cell_of_the_heat_map_leads_to_its_cases(page: Page) -> None:
    page.press("[data-show-model='1'][data-show-evaluator='2']")
    assert page.js("document.getElementById('case-model').value") == "1"
    assert page.js("document.getElementById('case-evaluator').value") == "2"


def test_problems_filter_and_lead_to_their_answers(page: Page) -> None:
    assert page.js("document.querySelectorAll('#problem-list .finding').length") == 10
    page.fill("#problem-severity", "low")
    assert page.js("document.querySelectorAll('#problem-list .finding').length") == 1
    page.press("#problem-list .link")
    page.wait("document.querySelector('#case-list .answer')")  # the first link opens a case, the last shows all answers
    page.press("#problem-list .link:last-child")
    assert page.text(COUNT) == "7 of 40 cases"
    assert "judge" in page.text("#case-only-label")
    page.press("#case-only")
    page.press("#case-clear")
    assert page.text(COUNT) == "40 cases"


def test_problems_of_models_and_of_the_instrument_can_be_looked_at_apart(page: Page) -> None:
    page.fill("#problem-fault", "instrument")
    cards = page.js("document.querySelectorAll('#problem-list .finding').length")
    assert cards == page.js("document.querySelectorAll('#problem-list .badge.instrument').length") == 1
    page.fill("#problem-fault", "model")
    assert page.js("document.querySelectorAll('#problem-list .badge.instrument').length") == 0
    assert "1 low" in page.text(".tile .apart").replace("\xa0", " ")


def test_what_scrolls_sideways_can_be_reached_from_the_keyboard(page: Page) -> None:
    page.resize(480, 900)
    assert page.js(
        "[...document.querySelectorAll('main *')].filter(node => getComputedStyle(node).overflowX === 'auto' && "
        "node.scrollWidth > node.clientWidth + 1 && node.tabIndex < 0).map(node => node.outerHTML.slice(0, 80))"
    ) == []  # fmt: skip


def test_a_model_without_an_answer_keeps_its_place_among_the_marks(page: Page) -> None:
    models = page.js("document.querySelectorAll('.heat thead th').length - 1")
    marks = page.js("[...document.querySelectorAll('#case-list .dots')].map(marks => marks.children.length)")
    assert set(marks) == {models}


def test_a_flipped_pair_shows_both_questions_and_what_changed(page: Page) -> None:
    page.press("#flip-list .case > button")
    assert page.text("#flip-list del") == "know"
    assert page.text("#flip-list ins") == "konw"
    assert page.text("#flip-list .pair").count("ANSWER") + page.text("#flip-list .pair").count("Answer") >= 2


def test_all_metrics_and_colours_can_be_switched(page: Page) -> None:
    hidden = "getComputedStyle(document.querySelector('tr.secondary')).display"
    assert page.js(hidden) == "none"
    page.press(".show-all")
    assert page.js(hidden) == "table-row"
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.js(background)
    page.press("#theme")
    page.press("#theme")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    assert page.js(background) != light
    page.press("#theme")


def test_an_address_can_name_a_case(tab: Page, report: Path) -> None:
    tab.open(report.with_name("report.html"), "?#case=case-0039")
    assert tab.js("document.querySelector('[data-case=\"case-0039\"] .inside') !== null")
    tab.js("location.hash = '#case=%E0%A4%A'")  # not even an address
    tab.wait("!document.getElementById('case-absent').hidden")
    assert tab.text("#case-absent") == "The case %E0%A4%A is not in this page."


def test_everything_works_from_the_keyboard(page: Page) -> None:
    page.fill("#case-search", "case-0000")
    page.wait("document.querySelectorAll('#case-list .case').length === 1")
    page.js(f"document.querySelector('{FIRST}').focus()")
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")
    assert page.js("document.querySelectorAll('#case-list .answer').length") == 3
    controls = "[...document.querySelectorAll('button, select, input')]"
    assert page.js(f"{controls}.filter(c => !(c.textContent || c.ariaLabel || c.labels?.length)).length") == 0


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.resize(width, 900)
    page.press(".show-all")
    open_case(page, "case-0000")
    page.press("#flip-list .case > button")
    assert page.js("document.documentElement.scrollWidth") <= width


def test_a_wide_confusion_matrix_scrolls_in_its_card(tab: Page, tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=5)
    labels = [f"a rather long label with the number {number}" for number in range(25)]
    matrix = {"key": "topic", "expected": labels, "predicted": labels, "counts": [[1] * 25] * 25}
    with open_run(store, run) as connection:
        connection.execute("INSERT INTO details VALUES (0, 0, ?)", [json.dumps({"confusion": [matrix]})])
        HtmlReport().write(read_results(connection, run, run.read()), tmp_path)
    tab.resize(1300, 900)
    tab.open(tmp_path / "report.html")
    assert (
        tab.js("Math.max(...[...document.querySelectorAll('#details table')].map(table => table.scrollWidth))") > 1300
    )
    assert tab.js("document.documentElement.scrollWidth") <= 1300


@pytest.mark.parametrize("width", [1300, 1100, 800, 400])
def test_the_gates_verdict_stays_one_word(page: Page, width: int) -> None:
    page.resize(width, 900)
    height, size = page.js(
        "(() => { const one = document.querySelector('.gate .verdict');"
        " return [one.offsetHeight, parseFloat(getComputedStyle(one).fontSize)]; })()"
    )
    assert 0 < height < 2 * size


def test_a_large_run_stays_fast_and_its_page_small(tab: Page, tmp_path: Path) -> None:
    path = make_page(tmp_path, 2_500)
    assert path.stat().st_size < 1_500 * 5_000
    tab.resize(420, 900)
    tab.open(path)
    assert tab.js("document.querySelectorAll('*').length") < 3000
    taken = tab.js(
        "(() => { const t = performance.now(); const c = document.getElementById('case-status'); c.value = 'fail';"
        "c.dispatchEvent(new Event('change')); return performance.now() - t; })()"
    )
    assert taken < 2000
    assert "This page holds 1,667 of 2,500 cases" in tab.text("#cases .note").replace("\n", " ")
    assert tab.js("document.documentElement.scrollWidth") <= 420
