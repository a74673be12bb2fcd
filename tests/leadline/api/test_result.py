"""The result of an evaluation: frames, cases, the page for notebooks, the plot, and the store behind it."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import leadline
from leadline.evaluators.ground import UsageError
from leadline.tasks.publish.exports import published_tables as frames

EVIL: Any = "<script>alert(1)</script> $x^2$ \" onmouseover='x'"
MODELS = ("plain", f"other {EVIL}")
ROWS = [
    {"case": f"k{n} {EVIL}", "question": f"Who {n}? {EVIL}", "expected_answer": "Ada L.", "model": model}
    | {"actual_answer": "Ada L." if n % 2 else f"No idea. {EVIL}", "error": None}
    for n in range(8)
    for model in MODELS
] + [{"case": "down", "question": "Why?", "expected_answer": "So", "model": "plain", "error": "503"}]


def polite(row: leadline.Row) -> bool:
    """Say please."""
    return "please" in (row.actual_answer or "")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("result") / "store"


@pytest.fixture(scope="module")
def result(place: Path) -> leadline.Result:
    return leadline.evaluate(pd.DataFrame(ROWS), metrics=["bleu", polite], store=place, name="demo")


def test_the_frames_have_typed_columns(result: leadline.Result) -> None:
    for frame, columns in (
        (result.scores, frames.SCORES),
        (result.aggregates, frames.AGGREGATES),
        (result.problems, frames.PROBLEMS),
    ):
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(columns)


def test_scores_add_up_to_the_means(result: leadline.Result) -> None:
    scores = result.scores
    assert len(scores) == 5 * len(ROWS)
    assert result.scored == (scores.status == "scored").sum()
    assert set(scores.status) == {"scored", "unscored"}
    assert set(scores[scores.status == "unscored"].reason) == {"host_error"}
    means = scores[scores.metric == "bleu_1"].groupby("model").value.mean()
    given = result.aggregates[result.aggregates.metric == "bleu_1"].set_index("model").value
    assert means.to_dict() == pytest.approx(given.to_dict())


def test_problems_are_sorted_and_the_gate_says_why(result: leadline.Result) -> None:
    assert result.gate in ("fail", "inconclusive")
    assert result.gate_reason in repr(result)
    order = [["high", "medium", "low"].index(severity) for severity in result.problems.severity]
    assert order == sorted(order)
    assert result.report.exists()
    assert result.outcome.run == result.run


def test_a_case_is_shown_with_its_answers_and_scores(result: leadline.Result) -> None:
    shown = result.show(f"k0 {EVIL}")
    assert [answer["model"] for answer in shown.answers] == list(MODELS)
    assert "polite" in repr(shown)
    assert "No idea." in repr(shown)
    one = result.show("down", "plain")
    assert "Error     503" in repr(one)
    assert "host_error" in repr(one)
    with pytest.raises(UsageError, match="has no case 'k'"):
        result.show("k")
    with pytest.raises(UsageError, match="'nobody' did not answer"):
        result.show("down", "nobody")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, set[str]] = {}
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.setdefault(tag, set()).update(name for name, _ in attrs)
        self.depth += tag != "br"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def test_pages_for_notebooks_are_small_whole_and_safe(result: leadline.Result) -> None:
    for page in (result._repr_html_(), result.show(f"k0 {EVIL}")._repr_html_()):
        parser = _Tags()
        parser.feed(page)
        assert parser.depth == 0
        assert set().union(*parser.tags.values()) == {"class"}
        assert not {"script", "img", "iframe", "link", "a"} & parser.tags.keys()
        assert "mathjax_ignore" in page  # dollar signs are no formulas
        assert "url(" not in page
        assert len(page) < 20_000
    assert "&lt;script&gt;" in page


def test_the_first_screen_says_the_verdict_in_sentences(result: leadline.Result) -> None:
    page = re.sub(r"<style>.*?</style>|<[^>]+>", " ", result._repr_html_(), flags=re.DOTALL)
    assert result.gate.upper() in page
    assert "bleu_1" in page
    assert "The worst problems" in page
    assert result.run in page


def test_the_report_is_one_page(result: leadline.Result, tmp_path: Path) -> None:
    page = result.to_html(tmp_path / "page.html")
    assert page == (tmp_path / "page.html").read_text(encoding="utf-8") == result.report.read_text(encoding="utf-8")


def test_the_plot_has_an_interval_for_each_mean(result: leadline.Result) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    axes = result.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bleu_1", "polite"]
    drawn = [bar for bar in axes.containers if len(bar.lines[0].get_xdata()) == 2]  # type: ignore[union-attr]
    assert len(drawn) == len(MODELS)
    axes.figure.canvas.draw()  # type: ignore[union-attr]  # a dollar sign in a name is no formula
    assert len(result.plot("bleu").get_yticklabels()) == 4
    with pytest.raises(UsageError, match="no mean to draw"):
        result.plot(["rouge"])


def test_without_matplotlib_the_plot_says_what_to_install(
    result: leadline.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"leadline\[plot\]"):
        result.plot()


def test_two_results_are_compared_in_their_store(result: leadline.Result, place: Path) -> None:
    better = [row | {"actual_answer": "Ada L."} for row in ROWS]
    after = leadline.evaluate(better, metrics=["bleu", polite], store=place, name="demo", against=result)
    found = after.compare(result, margin=0.02)
    assert found.verdict == leadline.compare(result, after, margin=0.02).verdict
    assert found.verdict in ("pass", "inconclusive")


def test_the_store_gives_frames(result: leadline.Result, place: Path) -> None:
    store = leadline.open_store(place)
    runs = store.runs()
    assert {name: str(kind) for name, kind in runs.dtypes.items()} == dict(frames.RUNS)
    assert runs.set_index("run").gate[result.run] == result.gate
    for metric in ("bleu_1", "bleu", "bleu.bleu_1"):
        history = store.history(metric)
        assert {name: str(kind) for name, kind in history.dtypes.items()} == dict(frames.HISTORY)
        assert set(history.model) == set(MODELS)
        assert set(history.metric) == {"bleu_1"}
    assert store.history("rouge").empty
    found = store.sql("SELECT run, count(*) AS n FROM scores GROUP BY run")
    assert found.set_index("run").n[result.run] == len(result.scores)
    with pytest.raises(UsageError, match="Only queries are allowed"):
        store.sql("DROP TABLE runs")


def test_a_store_without_runs_gives_empty_frames(tmp_path: Path) -> None:
    store = leadline.open_store(tmp_path / "store")
    assert store.root == tmp_path / "store"
    assert store.runs().empty
    assert store.history("bleu").empty


def test_cases_that_were_numbers_are_found_by_them(tmp_path: Path) -> None:
    frame = pd.DataFrame({"case": [7], "question": ["q"], "actual_answer": ["a"], "expected_answer": ["a"]})
    result = leadline.evaluate(frame, metrics=["exact_match"], store=tmp_path)
    assert str(result.show(7)) == str(result.show("7"))
    with pytest.raises(UsageError, match="baseline: the value is not a text"):
        result.compare(5)  # type: ignore[arg-type]
