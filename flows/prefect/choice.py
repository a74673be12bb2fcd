"""The choice of a Prefect server for a run, and how long a kept one stays: option, environment, ``leadline.toml``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.settings_file import FILE, settings_table
from leadline.flows.prefect import flock

IDLE_MINUTES: Final = 30.0
"""Minutes without a request after which a server that a run started ends."""


class ServerUse(StrEnum):
    """The server of a run where no Prefect API is configured that answers."""

    KEPT = "kept"
    TEMPORARY = "temporary"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Choice:
    """The server that a run is to use.

    Attributes:
        use: Which server.
        stated: Whether the user said so. If not, a configured API comes first even where ``use`` is none.
    """

    use: ServerUse
    stated: bool = True


def chosen_server(option: str | None = None) -> Choice:
    """Return which server a run uses: what was said, else none on a CI machine or where none can be kept, else one.

    Args:
        option: Value of ``--server``; comes before ``$LEADLINE_SERVER`` and ``[server]`` of ``leadline.toml``.

    Raises:
        UsageError: There is no such choice.
    """
    for source, value in (
        ("--server", option),
        ("LEADLINE_SERVER", os.environ.get("LEADLINE_SERVER")),
        (f"{FILE}, [server] use", settings_table("server", ("use", "idle")).get("use")),
    ):
        if value:
            try:
                return Choice(ServerUse(str(value)))
            except ValueError:
                raise UsageError(
                    f"{source}: {str(value)[:40]!r} is none of {', '.join(ServerUse)}.", code=ErrorCode.CONFIG_OPTION
                ) from None
    none = _on_ci() or not flock.AVAILABLE
    return Choice(ServerUse.NONE if none else ServerUse.KEPT, stated=False)


def idle_minutes() -> float | None:
    """Return after how many minutes without a request a server that a run started ends; ``None`` for never.

    Raises:
        UsageError: It is neither a number of minutes nor ``never``.
    """
    for source, value in (
        ("LEADLINE_SERVER_IDLE", os.environ.get("LEADLINE_SERVER_IDLE")),
        (f"{FILE}, [server] idle", settings_table("server", ("use", "idle")).get("idle")),
    ):
        if value not in (None, ""):
            return minutes(str(value), source)
    return IDLE_MINUTES


def minutes(text: str, source: str) -> float | None:
    """Read a number of minutes, or ``never``.

    Args:
        text: The value.
        source: Where it was given, for the refusal.

    Raises:
        UsageError: It is neither.
    """
    if text == "never":
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(
            f"{source}: {text[:40]!r} is neither a number of minutes nor 'never'.", code=ErrorCode.CONFIG_OPTION
        )
    return number


def _on_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no", "off")
