"""Progress bars in notebooks, which need no widgets."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from leadline.api.displays import in_notebook, shown
from leadline.flows.shared.job import report


class Handle:
    def __init__(self) -> None:
        self.pages: list[str] = []

    def update(self, page: Any) -> None:
        self.pages.append(page.data)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """Be in a kernel, as far as modules tell."""
    handle = Handle()
    display: Any = ModuleType("IPython.display")
    display.HTML = lambda text: SimpleNamespace(data=text)
    display.display = lambda page, display_id: handle
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return handle


def test_a_notebook_has_a_bar_per_lane_that_is_gone_at_the_end(handle: Handle) -> None:
    with shown(None):
        report("plan", done=0)
        report("plan", done=1)
        for done in range(1001):
            report("score", "cpu", done, 1000)
        report("collect", "<b>model</b>", 1, 2)
    assert any("plan …" in page for page in handle.pages)
    assert any('value="50"' in page and "score: cpu" in page for page in handle.pages)
    assert "&lt;b&gt;model&lt;/b&gt;" in handle.pages[-2]
    assert handle.pages[-1] == ""
    assert len(handle.pages) < 120  # one for each percent, not for each row


def test_nothing_is_shown_where_it_is_not_wanted(handle: Handle) -> None:
    with shown(False):
        report("score", "cpu", 1, 2)
    assert handle.pages == []


def test_a_script_without_a_terminal_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    with shown(None):
        report("score", "cpu", 1, 2)
    assert capfd.readouterr() == ("", "")
