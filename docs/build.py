"""Writes the pages made of the program: evaluators, errors, settings, dataset formats. Run: ``make docs``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leadline.evaluators.core.base import Evaluator, describe
from leadline.evaluators.core.error_codes import AREAS, ErrorCode
from leadline.evaluators.core.registry import ENTRY_POINTS, all_evaluators
from leadline.flows.cli.check_version import OPTIONS
from leadline.flows.collect.config import CollectConfig
from leadline.flows.compare.config import CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.generate.config import GenerateConfig
from leadline.flows.model_version.config import ModelVersionConfig
from leadline.flows.perturb.config import PerturbConfig
from leadline.flows.shared.form import FormModel, Setting, settings_in
from leadline.tasks.load.formats.registry import all_formats

HERE = Path(__file__).parent
FORMS: dict[str, type[FormModel]] = {
    "evaluate": EvaluateConfig,
    "collect": CollectConfig,
    "check-version": ModelVersionConfig,
    "compare": CompareConfig,
    "generate": GenerateConfig,
    "perturb": PerturbConfig,
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
    out = {f"{page['id']}.md": template.render(e=page) for page in described}
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


def format_table() -> str:
    """Return the table of dataset formats for ``datasets.md``, between the comments that mark it."""
    lines = [f"| {kind.title} | `{kind.name}` | {kind.recognised_by} |\n" for kind in all_formats().values()]
    head = "| format | `--format` | recognised by |\n|---|---|---|\n"
    return f"<!-- formats: written by make docs -->\n{head}{''.join(lines)}<!-- end of formats -->"


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
    spelt = setting.option.metavar if setting.option and not setting.flags else ", ".join(setting.flags)
    if command == "check-version" and setting.path not in (*OPTIONS, "store"):
        spelt = f"--set {setting.path}=…"
    columns = {"name": setting.path, "option": spelt or "", "default": default.rstrip("."), "text": text}
    return {name: value.replace("|", "\\|") for name, value in columns.items()}


def main() -> None:
    """Write the pages and the table of formats, and remove the pages of evaluators that are gone."""
    (HERE / "errors.md").write_text(errors_page(), encoding="utf-8")
    datasets = HERE / "datasets.md"
    text = datasets.read_text(encoding="utf-8")
    table = re.compile(r"<!-- formats: .*?<!-- end of formats -->", re.DOTALL)
    datasets.write_text(table.sub(lambda _: format_table(), text), encoding="utf-8")
    (HERE / "settings.md").write_text(settings_page(), encoding="utf-8")
    folder = HERE / "evaluators"
    folder.mkdir(exist_ok=True)
    current = pages()
    for stale in {path.name for path in folder.glob("*.md")} - set(current):
        (folder / stale).unlink()
    for name, text in current.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(current) - 1} evaluators described in {folder} (others: entry point group {ENTRY_POINTS!r})")


if __name__ == "__main__":
    main()
