"""The event that a judge is not the one that was enrolled, which checks of judges and evaluations emit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

JUDGE_CHANGED: Final = "leadline.judge.changed"


def judge_changed(name: str, standing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event ``leadline.judge.changed``: its name, whom it is about and what it says."""
    return {
        "event": JUDGE_CHANGED,
        "resource": {"prefect.resource.id": f"leadline.judge.{standing['key']}", "prefect.resource.name": name},
        "payload": {
            "judge": name,
            "model": standing["model"],
            "epoch": standing["epoch"],
            "reason": standing["in_words"],
            "signs": [sign["text"] for sign in standing["signs"]],
            "accept": f"leadline judges accept {name}",
        },
    }
