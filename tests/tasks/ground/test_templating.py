"""Templates are compiled once for all processes, as Python's modules are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment

from leadline.tasks.ground import templating
from leadline.tasks.ground.templating import render_source


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(templating, "_COMPILED", tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """Be another process."""
    templating._environment.cache_clear()
    templating._compiled.cache_clear()


def test_another_process_compiles_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert render_source("leadline.tasks.publish", "<b>{{ x }}</b>", "a.html", x="<") == "<b>&lt;</b>"
    forget()
    monkeypatch.setattr(Environment, "compile", lambda *args, **rest: pytest.fail("compiled"))
    assert render_source("leadline.tasks.publish", "<b>{{ x }}</b>", "a.html", x="<") == "<b>&lt;</b>"


def test_a_changed_template_is_compiled() -> None:
    assert render_source("leadline.tasks.publish", "one", "a.html") == "one"
    forget()
    assert render_source("leadline.tasks.publish", "two", "a.html") == "two"


def test_nothing_is_written_where_python_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert render_source("leadline.tasks.publish", "one", "a.html") == "one"
    assert list(folder.iterdir()) == []
