"""The documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import leadline
from docs.build import errors_page, llms_text, pages, perturbed_table, purpose_table, settings_page
from docs.result_columns import published_table, report_lines, runs_table
from docs.rooms import room_tables
from leadline.evaluators.core.suites import LOOK_ALIKES
from leadline.tasks.publish.exports.published_tables import PUBLISHED

ROOT = Path(__file__).parents[2]
MODULES = {
    path.name
    for room in ("evaluators", "tasks", "flows", "plugins", "leadline", "deployments")
    for path in (ROOT / room).rglob("*.py")
}
OF_OTHERS = {"evalue.py"}  # RGB's own script
MARKDOWN = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/recipes/*.md"), *ROOT.glob("examples/*.md")]
)


def test_every_evaluator_has_a_current_page() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "evaluators").glob("*.md")}
    assert written == pages(), "run: make docs"
    number = len(written) - 1
    assert f"\n{number} evaluators, [each with a page]" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_on_errors_is_current() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == errors_page(), "run: make docs"


def test_the_page_of_settings_is_current() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), "run: make docs"


def test_llms_txt_is_current_and_has_every_page_that_people_write() -> None:
    written = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert written == llms_text(), "run: make docs"
    folders = tuple(ROOT / "docs" / part for part in ("", "recipes", "operations", "mechanisms", "origins"))
    pages_there = {path.relative_to(ROOT / "docs").as_posix() for folder in folders for path in folder.glob("*.md")}
    assert pages_there <= set(re.findall(r"\]\(([^)]+)\)", written))


def test_no_parameter_that_chooses_a_judge_is_said_to_change_the_report_only() -> None:
    for path in (ROOT / "docs" / "evaluators").glob("*.md"):
        for line in re.findall(r"^\| `\w*judge_config_key` .*$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert "Another judge gives other scores" in line or "Has no effect here" in line, path.name


def test_which_evaluator_has_the_suites_of_the_program_and_every_look_alike() -> None:
    page = (ROOT / "docs" / "which-evaluator.md").read_text(encoding="utf-8")
    assert purpose_table() in page, "run: make docs"
    table = page.partition("## Evaluators that look alike")[2]
    missing = [id_ for group in LOOK_ALIKES for id_ in group.ids if f"`{id_}`" not in table]
    assert missing == []


def test_the_examples_of_perturbed_questions_are_current() -> None:
    assert room_tables() in (ROOT / "docs/mechanisms/architecture.md").read_text(encoding="utf-8"), "run: make docs"
    assert perturbed_table() in (ROOT / "docs" / "perturb.md").read_text(encoding="utf-8"), "run: make docs"


def test_the_pages_on_results_and_on_python_have_every_column() -> None:
    results, python = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("results.md", "python.md"))
    assert [name for name in PUBLISHED if published_table(name) not in results] == [], "run: make docs"
    assert report_lines() in results, "run: make docs"
    assert runs_table() in python, "run: make docs"
    frames = ("scores", "aggregates", "problems")
    assert [name for name in frames if published_table(name, typed=True) not in python] == [], "run: make docs"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for named in re.findall(r"`((?:evaluators|tasks|flows|deployments|tests|benchmarks|examples)/[\w./-]*)`", text):
        assert (ROOT / named).exists(), f"{page.name} names {named}"
    for named in re.findall(r"`(\w+\.py)`", text):
        assert named in MODULES | OF_OTHERS or (page.parent / named).exists(), f"{page.name} names {named}"


def test_the_api_page_lists_all_that_leadline_exports() -> None:
    listed = re.findall(r"`(\w+)`", (ROOT / "docs" / "api" / "leadline.md").read_text(encoding="utf-8"))
    assert set(listed) - {"leadline"} == set(leadline.__all__) - {"__version__"}
