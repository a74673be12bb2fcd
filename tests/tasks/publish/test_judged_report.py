"""What a report says of judges: the spread of trials, and what calls came to."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from typing import Any

import pytest

from leadline.cli.show import _print_overview
from leadline.tasks import pipeline
from leadline.tasks.runs.query import archive
from leadline.tasks.runs.run_sentences import price, spending
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.judges.judged_run import evaluate, judge_at, reply, write_rows

pytestmark = pytest.mark.slow

ROWS = 6
TRIALS = 3


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Run]:
    """A run of three trials by a judge that changes its mind, published."""
    folder = tmp_path_factory.mktemp("judged")

    asked: Counter[str] = Counter()

    def changing(question: Question) -> str:
        asked[question.text] += 1
        return reply(question) if "List" in question.text else ("no", "yes")[asked[question.text] % 2]

    store = Store.open(folder / "store")
    with serving(JudgeEndpoint(changing)) as endpoint:
        rows = write_rows(folder / "rows.jsonl", ROWS)
        result = evaluate(store, rows, [judge_at(endpoint.url)], trials=TRIALS)
    run = store.run(result["run"])
    run.update({"config": {}, "status": "completed"})
    pipeline.aggregate_scores(store, run)
    pipeline.detect_flips(store, run)
    pipeline.detect_problems(store, run)
    pipeline.derive_insights(store, run)
    pipeline.count_scores(store, run)
    pipeline.publish_results(store, run, None)
    return store, run


def test_the_spread_of_trials_is_in_all_results(published: tuple[Store, Run]) -> None:
    store, run = published
    report = json.loads((run.results / "report.json").read_text())
    by_metric = {line["metric"]: line for line in report["trial_spread"]}
    assert set(by_metric) == {"brief", "supported"}
    assert by_metric["brief"]["n_trials"] == TRIALS
    assert by_metric["brief"]["n_rows"] == ROWS
    assert by_metric["brief"]["differ_share"] == 1
    assert by_metric["brief"]["within_std"] > 0
    assert by_metric["brief"]["n_cross"] == by_metric["brief"]["n_differ"], "yes and no stand on two sides"
    shown = {line["metric"]: line for line in overview(store, run)["trial_spread"]}
    assert shown["brief"]["within_std"] == by_metric["brief"]["within_std"]
    for file in ("report.html", "report.md"):
        text = (run.results / file).read_text()
        assert "Trials" in text
        assert "Std within a row" in text
    with archive(store) as opened:
        ((shares,),) = opened.connection.execute("SELECT list(differ_share) FROM trial_spread").fetchall()
    assert len(shares) == 2


def test_the_page_holds_what_each_trial_said(published: tuple[Store, Run]) -> None:
    _, run = published
    packed = re.search(r'id="data">([^<]+)<', (run.results / "report.html").read_text())
    assert packed is not None
    data = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert len(data["trials"]) == ROWS
    for row, said in data["trials"].items():
        for metric, values in said.items():
            assert len(values) == TRIALS
            mean = data["scores"][int(metric)][int(row)]
            assert mean == pytest.approx(sum(values) / TRIALS, abs=1e-5)


@pytest.mark.browser
def test_a_case_shows_what_each_trial_said(published: tuple[Store, Run]) -> None:
    from tests.support.processes.browser import browse

    _, run = published
    with browse() as page:
        page.open(run.results / "report.html")
        for number in range(ROWS):
            page.js(f"document.querySelectorAll('#case-list .case > button')[{number}].click()")
        shown = page.text("#case-list")
        assert len(re.findall(r"trials [01]\.000 · [01]\.000 · [01]\.000", shown)) == 2 * ROWS, (
            "both metrics of each row"
        )
        assert "Std within a row" in page.text("#instrument")
        assert page.complaints == []


def test_calls_tokens_and_cost_are_told_by_evaluator_and_an_unknown_price_is_never_nothing(
    published: tuple[Store, Run],
) -> None:
    _, run = published
    lines = spending(run.read())
    assert [line.evaluator for line in lines] == ["test.brief", "test.supported", ""]
    assert lines[-1].asked == sum(line.asked for line in lines[:-1]) == lines[-1].answered
    assert {line.price for line in lines} == {"unknown"}
    assert lines[-1].input_tokens
    page = (run.results / "report.html").read_text()
    assert "<h3>Judge calls</h3>" in page
    assert "unknown" in page
    assert "## Judge calls" in (run.results / "report.md").read_text()


def test_the_overview_on_the_terminal_shows_both(published: tuple[Store, Run], capsys: Any) -> None:
    store, run = published
    _print_overview(overview(store, run), all_metrics=False)
    said = capsys.readouterr().out
    assert "Trials: how much the verdicts on the same row differ" in said
    assert "Judge calls" in said
    assert "unknown" in said


@pytest.mark.parametrize(
    ("cost", "answered", "unknown", "said"),
    [
        (0.0, 0, 0, "–"),
        (0.0, 5, 5, "unknown"),
        (0.25, 5, 2, "$0.25 and 2 calls of unknown price"),
        (1.5, 5, 0, "$1.50"),
    ],
)
def test_a_price_says_what_is_not_known_of_it(cost: float, answered: int, unknown: int, said: str) -> None:
    assert price(cost, answered, unknown) == said


def test_a_run_without_calls_has_no_table() -> None:
    assert spending({}) == []
    assert spending({"judge_calls": {"asked": 0, "made_again": 0}}) == []
