"""``report.html`` and ``report.md``; the page needs nothing else, and may run its own script and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from leadline.tasks.ground.templating import content_policy, page_style, render
from leadline.tasks.publish.exports.exporter import Exporter, published_exporters, register_exporter
from leadline.tasks.publish.report.section import PACKAGE, Section, all_sections, naming, render_section
from leadline.tasks.publish.run_results import RunResults


@register_exporter
class HtmlReport(Exporter):
    """The report as a page."""

    name = "html"
    files = ("report.html",)
    published = True
    order = 400

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``report.html``."""
        (folder / "report.html").write_text(page(results), encoding="utf-8", newline="\n")


@dataclass(frozen=True, slots=True)
class _PageSection:
    """One section of a page: its link in the navigation, and its text."""

    name: str
    title: str
    count: int | None
    html: Markup


def page(results: RunResults) -> str:
    """Return the page as text."""
    sections = [section for section in all_sections() if section.text("html")]
    style = page_style() + "".join(section.text("style") for section in sections)
    script = _script(sections)
    facts = results.facts
    beside = [file for exporter in published_exporters(results) for file in exporter.files if file != "report.html"]
    return render(
        PACKAGE,
        "report/report.html",
        facts=facts,
        results=results,
        parts=[part for section in sections if (part := _part(section, results))],
        packed=Markup(results.page_data.packed),  # noqa: S704 - base64
        policy=content_policy(style, script),
        style=Markup(style),  # noqa: S704 - files of sections
        script=Markup(script),  # noqa: S704 - files of sections
        beside=sorted(beside, key=lambda file: not file.startswith("report.")),
    )


def _part(section: Section, results: RunResults) -> _PageSection | None:
    html = render_section(section, "html", results)
    if html is None:
        return None
    with naming(section):
        count = section.count(results.facts)
    return _PageSection(section.name, section.title, count, Markup(html))  # noqa: S704 - escaped


def _script(sections: Sequence[Section]) -> str:
    shared = [_text(name) for name in ("dom.js", "data.js", "dialogue.js", "case_view.js")]
    texts = [*shared, *(section.text("script") for section in sections), _text("page.js")]
    return "'use strict';\n(() => {{\n{}\n}})();\n".format("\n".join(text for text in texts if text))


def _text(name: str) -> str:
    return (files(PACKAGE) / "templates" / "report" / name).read_text(encoding="utf-8")


@register_exporter
class MarkdownReport(Exporter):
    """The sections of the report that have a template for Markdown, one below the other."""

    name = "markdown"
    files = ("report.md",)
    published = True
    order = 500

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``report.md``."""
        parts = (render_section(section, "markdown", results) for section in all_sections() if section.text("markdown"))
        text = "\n\n".join(part.strip("\n") for part in parts if part and part.strip())
        (folder / "report.md").write_text(f"{text}\n", encoding="utf-8")
