"""Formats as an installed package brings them."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

from leadline.tasks.load.formats import registry

ROOT = Path(__file__).parents[3]
GROUP = "leadline.formats"


@pytest.fixture(autouse=True)
def entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the formats as the package that is installed does, whatever version of it that is."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    found = [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in named.items()]
    monkeypatch.setattr("leadline.tasks.ground.plugins.extensions", lambda group: found if group == GROUP else [])
    monkeypatch.setattr(registry.FORMATS, "_found", dict(registry.all_formats()))
    monkeypatch.setattr(registry.FORMATS, "_complete", False)
