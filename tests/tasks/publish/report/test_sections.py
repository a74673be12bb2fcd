"""Sections of the report: one class adds one to the page and to ``report.md``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.tasks.db import open_run
from leadline.tasks.publish.exports.report_pages import MarkdownReport, page
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.report.section import SECTIONS, Section, all_sections, register_section
from leadline.tasks.publish.report.sections.scores import Bar, PassFail, Scores, passing
from leadline.tasks.publish.run_results import RunResults, read_results
from tests.tasks.publish.sample import make_sample


class Costs(Section):
    """What the answers cost, by model."""

    name = "costs"
    title = "Costs"
    order = 250
    html = (
        '<section id="costs"><h2>Costs</h2>{% for name, n in models %}<p>{{ name }}: {{ n }}</p>{% endfor %}</section>'
    )
    markdown = "## Costs\n\n{% for name, n in models %}\n- {{ name | md }}: {{ n }}\n{% endfor %}"
    script = "onData(data => { document.getElementById('costs').dataset.cases = data.cases.length; });"
    style = "#costs { color: rgb(1, 2, 3); }"

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        query = "SELECT name, count(*) FROM run_models JOIN run_rows USING (model_id) GROUP BY ALL ORDER BY name"
        found = results.connection.execute(query).fetchall()
        return {"models": found} if len(found) > 1 else None

    def count(self, facts: Facts) -> int:
        return len(facts.models)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The section while a test runs."""
    SECTIONS.all()
    monkeypatch.setattr(SECTIONS, "_found", dict(SECTIONS._found))
    register_section(Costs)


def written(root: Path, models: int = 3) -> tuple[str, str]:
    """Return the page and ``report.md`` of a sample run."""
    store, run = make_sample(root, cases=10, models=models)
    with open_run(store, run) as connection:
        results = read_results(connection, run, run.read())
        MarkdownReport().write(results, root)
        return page(results), (root / "report.md").read_text("utf-8")


@pytest.mark.usefixtures("costs")
def test_one_class_adds_a_section_to_page_and_markdown(tmp_path: Path) -> None:
    html, markdown = written(tmp_path)
    assert re.search(r'<a href="#costs">Costs\s*<span class="n">3</span></a>', html)
    assert html.index('id="scores"') < html.index('<section id="costs">') < html.index('id="boards"')
    assert "wren-7b &lt;b&gt;&amp;: 10" in html
    assert Costs.style in html
    assert Costs.script in html
    assert "## Costs\n\n" in markdown
    assert "- wren-7b \\<b\\>\\&: 10" in markdown
    assert markdown.index("## Scores") < markdown.index("## Costs") < markdown.index("## Problems")


def test_a_section_made_of_another_has_the_files_of_its_own_module() -> None:
    home = PassFail.__module__
    assert type("Same", (PassFail,), {"__module__": home, "file": "pass_fail"}).text("html") == PassFail.text("html")
    assert type("Other", (PassFail,), {"__module__": home}).text("html") == Scores.text("html") != PassFail.text("html")


@pytest.mark.usefixtures("costs")
def test_a_section_leaves_itself_out(tmp_path: Path) -> None:
    html, markdown = written(tmp_path, models=1)
    assert "<h2>Costs" not in html
    assert "#costs" not in re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL)
    assert "Costs" not in markdown


def in_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[Section]:
    """Return a section of another package, with a template of two lines beside its module."""
    package = folder / "acme_report"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "lengths.html").write_text("<p>Lengths</p>\n{{ lenghts }}")
    imported = "from leadline.tasks.publish.report.section import Section"
    (package / "lengths.py").write_text(f"{imported}\n\n\nclass Lengths(Section):\n    name = title = 'l'\n")
    monkeypatch.syspath_prepend(folder)
    return cast("type[Section]", importlib.import_module("acme_report.lengths").Lengths)


class Syntax(Costs):
    html = "<p>\n\n{% if %}"


class Raises(Costs):
    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        raise ValueError("I was\nnot here.")


class Counts(Costs):
    def count(self, facts: Facts) -> int:
        return 1 // 0


@pytest.mark.usefixtures("costs")
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            None,
            r"'l' \(acme_report.lengths.Lengths\) failed in /.*/lengths.html, line 2: Undefined.*'lenghts' is",
        ),
        (Syntax, r"'costs' \(tests.*Syntax\) failed in its inline html, line 3: TemplateSyntaxError: "),
        (
            Raises,
            r"'costs' \(tests.*Raises\) failed in /.*test_sections.py, line \d+: ValueError: I was\\nnot here\. Mend",
        ),
        (Counts, r"'costs' \(tests.*Counts\) failed in /.*test_sections.py, line \d+: ZeroDivisionError: "),
    ],
)
def test_a_section_that_fails_is_named_with_its_package_and_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: type[Section] | None, said: str
) -> None:
    found = broken or in_file(tmp_path, monkeypatch)
    SECTIONS._found[found.name] = found
    with pytest.raises(LeadlineError, match=rf"The section {said}") as error:
        written(tmp_path)
    assert error.value.code is ErrorCode.RUN_PUBLISHING
    assert "uninstall its package" in str(error.value)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.usefixtures("costs")
def test_the_script_and_the_style_of_a_section_run_under_the_pages_policy(tmp_path: Path) -> None:
    from tests.support.processes.browser import browse

    html, _ = written(tmp_path)
    (tmp_path / "report.html").write_text(html, "utf-8")
    with browse() as tab:
        tab.open(tmp_path / "report.html")
        assert tab.js("document.getElementById('costs').dataset.cases") == "10"
        assert tab.js("getComputedStyle(document.getElementById('costs')).color") == "rgb(1, 2, 3)"
        assert tab.complaints == []


def test_the_page_is_these_sections_in_this_order() -> None:
    assert [section.name for section in all_sections()] == [
        "overview", "models", "scores", "labels", "boards", "changes", "problems", "insights", "slices", "flips",
        "details", "turns", "distributions", "cases", "instrument",
    ]  # fmt: skip
    for section in all_sections():
        assert section.text("html"), section.name


def test_a_board_counts_what_passes_also_where_its_metric_counts_what_fails(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with open_run(store, run) as connection:
        facts = read_results(connection, run, run.read()).facts
    passed, failed = next(evaluator.metrics for evaluator in facts.evaluators if evaluator.key == "pii_leakage")
    aggregate = replace(next(iter(facts.aggregates.values())), value=0.25, ci_low=0.125, ci_high=0.5)
    right = passing(replace(passed, threshold=0.75), replace(aggregate, value=0.75, ci_low=0.5, ci_high=0.875))
    assert passing(replace(failed, threshold=0.25), aggregate) == right == Bar(0.75, 0.5, 0.875, 0.75, passes=True)
