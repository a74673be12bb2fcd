"""Sections, the parts of the report: the page and ``report.md`` are lists of them.

A section is a class. What it shows stands beside its module, in files of the name that it declares (``file``), or else
of the module's: a Jinja template for the page (``.html``), one for ``report.md`` (``.md``), a script (``.js``) and a
style (``.css``). Each of the four is optional. Other packages bring sections by an entry point in the group
``leadline.sections`` that names a module to import.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from traceback import extract_tb
from typing import Any, ClassVar, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.tasks.ground.plugins import Plugins, failure
from leadline.tasks.ground.templating import render_source
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.run_results import RunResults

LAST: Final = 1000


class Section(ABC):
    """One part of the report.

    Its templates know ``facts`` (what the run found), ``results`` (the :class:`RunResults` behind them), ``section``,
    ``position`` (the numbers of models and evaluators in the page's data) and what :meth:`context` returns. Its script
    may call ``onData((data, page) => ...)``: it is run with the cases of the page when they are unpacked.

    Attributes:
        name: Its anchor in the page.
        title: Its name in the page's navigation.
        order: Its place; the sections stand by increasing numbers.
        file: The name of its files without the ending, if it is not its module's; a subclass names its own.
        html: Its template for the page, if it is not in a file.
        markdown: Its template for ``report.md``, if it is not in a file.
        script: Its script, if it is not in a file.
        style: Its style, if it is not in a file.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int] = LAST
    file: ClassVar[str] = ""
    html: ClassVar[str | None] = None
    markdown: ClassVar[str | None] = None
    script: ClassVar[str | None] = None
    style: ClassVar[str | None] = None

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return what the templates need of a run; ``None`` leaves the section out."""
        return {}

    def count(self, facts: Facts) -> int | None:
        """Return a number to show beside the title in the navigation."""
        return None

    @classmethod
    def text(cls, part: str) -> str:
        """Return a part of the section as text, ``""`` where it has none.

        Args:
            part: ``html``, ``markdown``, ``script`` or ``style``.
        """
        given: str | None = getattr(cls, part)
        return _beside(*cls._named(part)) if given is None else given

    @classmethod
    def place(cls, part: str) -> str:
        """Return where a part stands: its file, or that it is in the class.

        Args:
            part: As of :meth:`text`.
        """
        return str(_file(*cls._named(part))) if getattr(cls, part) is None else f"its inline {part}"

    @classmethod
    def _named(cls, part: str) -> tuple[str, str, str]:
        """Return the module, the name given for its files, and the ending of a part's file."""
        return cls.__module__, vars(cls).get("file", ""), _SUFFIXES[part]


PACKAGE: Final = "leadline.tasks.publish"
"""Package with the templates that sections may include."""

SECTIONS: Final[Plugins[Section]] = Plugins("section", "leadline.tasks.publish.report.sections", "leadline.sections")
register_section = SECTIONS.register

_SUFFIXES: Final = {"html": ".html", "markdown": ".md", "script": ".js", "style": ".css"}


def _file(module: str, stem: str, suffix: str) -> Traversable | None:
    """Return the file beside a module, which need not be there; ``None`` for a module without a package."""
    package, _, name = module.rpartition(".")
    return files(package) / f"{stem or name}{suffix}" if package else None


@cache
def _beside(module: str, stem: str, suffix: str) -> str:
    """Return what a file beside a module contains, ``""`` without one."""
    file = _file(module, stem, suffix)
    return file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""


def all_sections() -> list[Section]:
    """Return every section, in the order of the report."""
    return sorted((section() for section in SECTIONS.all()), key=lambda section: section.order)


def render_section(section: Section, part: str, results: RunResults) -> str | None:
    """Fill in a template of a section; return ``None`` if the section leaves itself out.

    Args:
        part: ``html`` or ``markdown``.
    """
    name = f"{section.name}{_SUFFIXES[part]}"
    with naming(section, {name: section.place(part)}):
        context = section.context(results)
        if context is None:
            return None
        known = {"section": section, "results": results, "facts": results.facts, "position": results.position}
        return render_source(PACKAGE, section.text(part), name, **known, **context)


@contextmanager
def naming(section: Section, templates: Mapping[str, str] | None = None) -> Iterator[None]:
    """Name a section in an error of it that nobody foresaw, and the line of its template or module.

    Args:
        templates: What is said of its templates, by what tracebacks call them.
    """
    try:
        yield
    except LeadlineError:
        raise
    except Exception as error:
        module = getattr(sys.modules.get(type(section).__module__), "__file__", None) or ""
        places = {module: module} | dict(templates or {})
        lines = [line for line in extract_tb(error.__traceback__) if line.filename in places]
        where = f"{places[lines[-1].filename]}, line {lines[-1].lineno}" if lines else ""
        raise failure(SECTIONS.kind, section, error, ErrorCode.RUN_PUBLISHING, where) from error
