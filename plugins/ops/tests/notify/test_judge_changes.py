"""The event of a judge that changed: what it says, and what people are told of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from prefect.events.schemas.events import ReceivedEvent, Resource

from leadline.flows.shared.judge_access import judge_changed
from leadline.plugins.ops.notify import watching
from leadline.plugins.ops.notify.recipients import Kind

STANDING = {
    "key": "a1",
    "model": "openai/judge",
    "epoch": 0,
    "in_words": "CHANGED since 2026-11-24: 17.0 of 100 probes get another verdict",
    "signs": [{"severity": "medium", "text": "the provider's fingerprint went from fp_a1 to fp_c7"}],
}


@pytest.fixture
def sent() -> dict[str, Any]:
    return judge_changed("small", STANDING)


def test_it_names_the_judge_and_the_command_that_accepts_the_change(sent: dict[str, Any]) -> None:
    assert sent["event"] == "leadline.judge.changed"
    assert sent["resource"] == {"prefect.resource.id": "leadline.judge.a1", "prefect.resource.name": "small"}
    assert sent["payload"]["accept"] == "leadline judges accept small"
    assert sent["payload"]["signs"] == ["the provider's fingerprint went from fp_a1 to fp_c7"]


def test_people_are_told_once_of_a_change_that_several_runs_found(
    sent: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        ReceivedEvent(
            event=sent["event"],
            resource=Resource(sent["resource"]),
            payload=sent["payload"],
            id=uuid4(),
            occurred=datetime.now(UTC),
            received=datetime.now(UTC),
        )
        for _ in range(2)
    ]
    monkeypatch.setattr(watching, "pages", lambda client, wanted, limit: events)
    notices = list(watching._judges(None, datetime.now(UTC)))  # type: ignore[arg-type]
    assert len({notice.key for notice in notices}) == 1
    assert notices[0].kind is Kind.CHANGED
    assert notices[0].title == "The judge small is not the one that was enrolled any more"
    assert "17.0 of 100 probes" in notices[0].body
    assert "leadline judges accept small" in notices[0].body
