"""``report.md``: the gist of the report as Markdown."""

from __future__ import annotations

from pathlib import Path

from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.report.section import all_sections, render_section
from leadline.tasks.publish.run_results import RunResults


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
