"""Writes what the program says of itself: evaluators, errors, settings, formats, examples. Run: ``make docs``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from docs.metric_stub import stub_values
from docs.result_columns import published_table, report_lines, runs_table
from docs.rooms import room_tables
from leadline.cli.service.check_version import OPTIONS
from leadline.evaluators.core import ENTRY_POINTS, Evaluator, all_evaluators, describe
from leadline.evaluators.core.suites import PURPOSES
from leadline.evaluators.ground import AREAS, ErrorCode
from leadline.flows.collect import CollectConfig
from leadline.flows.compare import CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.generate import GenerateConfig
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.perturb import PerturbConfig
from leadline.flows.shared.form import FormModel, Setting, settings_in
from leadline.plugins.ci.config import CiConfig
from leadline.tasks.load.columns import names_of
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.load.formats.base import DEFAULTS
from leadline.tasks.load.formats.registry import all_formats
from leadline.tasks.perturb.copies import perturb
from leadline.tasks.perturb.perturbations import SONAR, recipe
from leadline.tasks.publish.exports.published_tables import PUBLISHED
from leadline.tasks.publish.trust_cards import TrustCard, read_cards
from leadline.tasks.store.store import Store

HERE = Path(__file__).parent
STUB: Final = HERE.parent / "leadline" / "metrics.pyi"
QUESTION: Final = "How deep is the harbour at berth seven?"
LLMS_PREFACE: Final = (
    "Leadline is a Python package and a command line. `leadline evaluate FILE` scores answers and writes a report; "
    "`leadline init FILE` writes the settings for a file, `leadline doctor` says what a machine lacks, "
    "`leadline COMMAND --help` explains a command. Addresses are relative to this file."
)
STEPS: Final = ("low", "medium", "high")
FORMS: dict[str, type[FormModel]] = {
    "evaluate": EvaluateConfig,
    "collect": CollectConfig,
    "service check-version": ModelVersionConfig,
    "compare": CompareConfig,
    "ci": CiConfig,
    "data generate": GenerateConfig,
    "data perturb": PerturbConfig,
}


def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - Markdown, made of our own texts
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = "`{}`".format
    return environment


def errors_page() -> str:
    """Return the page on the codes of errors."""
    template = _environment().get_template("errors.md.jinja")
    return template.render(areas=AREAS, codes=list(ErrorCode)).strip() + "\n"


def pages() -> dict[str, str]:
    """Return the text of each evaluator's page by file name."""
    environment = _environment()
    described = [
        page_of(kind) for kind in all_evaluators().values() if kind.__module__.startswith("leadline.evaluators.")
    ]
    template = environment.get_template("evaluator.md.jinja")
    out = {f"{page['id']}.md": template.render(e=page, cards=read_cards(page["id"])) for page in described}
    out["README.md"] = environment.get_template("index.md.jinja").render(pages=described)
    return {name: text.strip() + "\n" for name, text in out.items()}


def page_of(kind: type[Evaluator]) -> dict[str, Any]:
    """Return what a page says of an evaluator."""
    about: dict[str, Any] = dict(describe(kind))
    text = inspect.cleandoc(kind.__doc__ or "").replace("``", "`")
    return about | {
        "text": text,
        "summary": text.split("\n\n")[0].replace("\n", " ").rstrip(".").replace("|", "\\|"),
        "more": [field for field in about["reads"] if field not in about["required"]],
    }


def metrics_stub() -> str:
    """Return the text of ``leadline/metrics.pyi``."""
    return _environment().get_template("metrics.pyi.jinja").render(stub_values()).strip() + "\n"


def format_table() -> str:
    """Return the table of dataset formats without plug-ins for ``datasets.md``, between the comments that mark it."""
    kinds = [kind for kind in all_formats().values() if not kind.__module__.startswith("leadline.plugins.")]
    lines = [f"| {kind.title} | `{kind.name}` | {kind.recognised_by} |\n" for kind in kinds]
    head = "| format | `--format` | recognised by |\n|---|---|---|\n"
    return f"<!-- formats: written by make docs -->\n{head}{''.join(lines)}<!-- end of formats -->"


def column_table() -> str:
    """Return the table of the names of fields for ``datasets.md``, between the comments that mark it."""
    lines = []
    for field in DEFAULTS:
        clear, weak = names_of(field)
        others, unsure = (", ".join(f"`{name}`" for name in names if name != field) for names in (clear, weak))
        lines += [f"| `{field}` | {others} | {unsure} |\n"] if others or unsure else []
    head = "| field | also called | if nothing better is there, with a warning |\n|---|---|---|\n"
    return f"<!-- columns: written by make docs -->\n{head}{''.join(lines)}<!-- end of columns -->"


def purpose_table() -> str:
    """Return the table of suites by purpose for ``which-evaluator.md``, between the comments that mark it."""
    lines = [
        f"| `{name}` | {text} | {', '.join(f'[`{id_}`](evaluators/{id_}.md)' for id_ in ids)} |\n"
        for name, (text, ids) in PURPOSES.items()
    ]
    head = "| suite | for | candidates |\n|---|---|---|\n"
    return f"<!-- purposes: written by make docs -->\n{head}{''.join(lines)}<!-- end of purposes -->"


def perturbed_table() -> str:
    """Return perturbed copies of a question for ``perturb.md``, between the comments that mark them."""
    recipes = [
        f"{name}:{step}" for name in ("typo", "ocr", "character_deletion", "word_swap", "comma") for step in STEPS
    ]
    recipes += [f"{SONAR}typo:{step}" for step in STEPS]
    with TemporaryDirectory() as folder:
        suite, output = Path(folder, "suite.jsonl"), Path(folder, "perturbed.jsonl")
        suite.write_text(json.dumps({"case": "berth", "question": QUESTION}), encoding="utf-8")
        store = Store.open(folder)
        perturb(store, load_dataset(store, suite, cases_only=True), [recipe(text) for text in recipes], output)
        _, *copies = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    lines = [f"| `{name}` | {copy['question']} |\n" for name, copy in zip(recipes, copies, strict=True)]
    head = f"| `--with` | {QUESTION} |\n|---|---|\n"
    return f"<!-- perturbed: written by make docs -->\n{head}{''.join(lines)}<!-- end of perturbed -->"


def trust_table(*, linked: str) -> str:
    """Return the table of agreement with people, between the comments that mark it.

    Args:
        linked: Where the evaluators' pages are, seen from the page.
    """
    cards = [card for card in read_cards() if card.headline and card.value is not None]
    lines = []
    for data, claim in dict.fromkeys((card.data, card.claim) for card in cards):
        mine = [card for card in cards if (card.data, card.claim) == (data, claim)]
        each = ", ".join(_figure(card, linked) for card in sorted(mine, key=lambda card: -(card.value or 0)))
        measure = mine[0].measure.rpartition(": ")[2]
        people = next((f"; people {card.people:.2f}" for card in mine if card.people is not None), "")
        lines.append(f"| {data} | {claim} | {measure}{people} | {each} | {max(card.n for card in mine):,} |\n")
    head = "| data | what people judged | measure | evaluators, 95 % interval | labels |\n|---|---|---|---|---|\n"
    return f"<!-- trust: written by make docs -->\n{head}{''.join(lines)}<!-- end of trust -->"


def _figure(card: TrustCard, linked: str) -> str:
    """Return an evaluator with its figure."""
    chance = ", no better than chance" if card.no_better_than_chance else ""
    interval = f"{card.low or 0:.2f} to {card.high or 0:.2f}"
    return f"[`{card.evaluator}`]({linked}{card.evaluator}.md) {card.value:.2f} ({interval}{chance})"


def settings_page() -> str:
    """Return the page of all commands' settings."""
    forms = [
        {
            "command": command,
            "about": inspect.cleandoc(model.__doc__ or "").replace("``", "`"),
            "settings": [_line_of(command, setting) for setting in settings_in(model)],
        }
        for command, model in FORMS.items()
    ]
    return _environment().get_template("settings.md.jinja").render(forms=forms).strip() + "\n"


def _line_of(command: str, setting: Setting) -> dict[str, str]:
    """Return a setting's line: its name, its option or argument, its default and what it is for."""
    text, _, default = (setting.field.description or "").partition(" Default: ")
    plain = getattr(setting.default, "value", setting.default)
    if setting.field.is_required():
        default = "required"
    elif not default and plain not in (None, "", (), {}):
        default = f"`{str(plain).lower() if isinstance(plain, bool) else plain}`"
    spelt = setting.option.metavar if not setting.flags else ", ".join(setting.flags)
    if setting.option.rare or (command == "service check-version" and setting.path not in (*OPTIONS, "store")):
        spelt = f"--set {setting.path}=…"
    columns = {"name": setting.path, "option": spelt or "", "default": default.rstrip("."), "text": text}
    return {name: value.replace("|", "\\|") for name, value in columns.items()}


def llms_text() -> str:
    """Return ``llms.txt``: the pages of the site with a line each, for assistants that read them (llmstxt.org)."""
    site = yaml.load((HERE.parent / "mkdocs.yml").read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}", "", LLMS_PREFACE, ""]
    for entry in site["nav"]:
        ((title, inside),) = entry.items() if isinstance(entry, dict) else ((entry, [entry]),)
        found = [_link_to(page) for page in _pages_in(inside)]
        lines += [f"## {title}", "", *found, ""]
    return "\n".join(lines).strip() + "\n"


def _pages_in(entry: Any) -> Iterator[str]:
    """Yield the pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for each in entry:
            yield from _pages_in(each)
    else:
        yield from _pages_in(list(entry.values()))


def _link_to(page: str) -> str:
    """Return a page's link with its title and the first sentence of its text."""
    text = re.sub(r"<!--.*?-->", "", (HERE / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n", text))
    prose = next((part for part in paragraphs if re.match(r"[A-Z*`]", part)), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(prose.split())).replace("**", "")
    first = re.match(r".+?[.?](?=\s|$)", plain)
    name = (title[1] if title else page).replace("`", "")
    return f"- [{name}]({page})" + (f": {first[0]}" if first else "")


def main() -> None:
    """Write the pages and the tables in other pages, and remove the pages of evaluators that are gone."""
    (HERE / "errors.md").write_text(errors_page(), encoding="utf-8")
    _write_table("mechanisms/architecture.md", "rooms", room_tables())
    _write_table("datasets.md", "formats", format_table())
    _write_table("datasets.md", "columns", column_table())
    _write_table("which-evaluator.md", "purposes", purpose_table())
    _write_table("perturb.md", "perturbed", perturbed_table())
    _write_table("trust.md", "trust", trust_table(linked="evaluators/"))
    for name in PUBLISHED:
        _write_table("results.md", name, published_table(name))
    _write_table("results.md", "lines", report_lines())
    for name in ("scores", "aggregates", "problems"):
        _write_table("python.md", name, published_table(name, typed=True))
    _write_table("python.md", "runs", runs_table())
    (HERE / "settings.md").write_text(settings_page(), encoding="utf-8")
    STUB.write_text(metrics_stub(), encoding="utf-8")
    (HERE / "llms.txt").write_text(llms_text(), encoding="utf-8")
    folder = HERE / "evaluators"
    folder.mkdir(exist_ok=True)
    current = pages()
    for stale in {path.name for path in folder.glob("*.md")} - set(current):
        (folder / stale).unlink()
    for name, text in current.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(current) - 1} evaluators described in {folder} (others: entry point group {ENTRY_POINTS!r})")


def _write_table(page: str, name: str, table: str) -> None:
    path = HERE / page
    marked = re.compile(rf"<!-- {name}: .*?<!-- end of {name} -->", re.DOTALL)
    path.write_text(marked.sub(lambda _: table, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
