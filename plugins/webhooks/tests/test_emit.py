"""``leadline service emit``: what makes no sense is refused before a server is looked for."""

from __future__ import annotations

import pytest

from leadline.evaluators.ground import UsageError
from leadline.flows.command.session import Session
from leadline.plugins.webhooks import events_command


def test_a_setting_that_does_not_exist_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "leadline.plugins.webhooks.events_command.lasting_api", lambda *_: pytest.fail("a server is looked for")
    )
    command = ["model-version", "m", "--version", "1", "--suite", "s", "--set", "foo=1"]
    with pytest.raises(UsageError, match="foo: there is no such"):
        events_command.emit.main(command, obj=Session(), standalone_mode=False)
