"""``leadline service emit``: what makes no sense is refused before a server is looked for."""

from __future__ import annotations

import pytest

from leadline.cli.main import run


def test_a_setting_that_does_not_exist_is_refused_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["service", "emit", "model-version", "m", "--version", "1", "--suite", "s", "--set", "foo=1"]
    assert run(command) == 2
    streams = capsys.readouterr()
    assert "foo: there is no such" in streams.err
    assert "Prefect server" not in streams.err
    assert streams.out == ""
