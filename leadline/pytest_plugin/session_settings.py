"""Settings of a session: of the command line, else of pytest's configuration file, else of ``leadline.toml``.

::

    [pytest]
    against = "tag:production"
    inconclusive = "skip"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.refusal import first_refusal
from leadline.evaluators.ground.settings_file import FILE, settings_table
from leadline.flows.shared.form import FormModel

TABLE: Final = "pytest"
"""Table of ``leadline.toml``."""


class SessionSettings(FormModel):
    """The settings of a session of pytest."""

    against: str | None = Field(None, description="Earlier run: what failed there too is known.")
    inconclusive: Literal["fail", "skip", "xfail"] = Field("fail", description="Fate of tests that cannot be decided.")
    fail_cases: Literal["should", "must", "never"] = Field(
        "should", description="Least role of a metric that fails its cases' tests."
    )
    store: str | None = Field(None, description="The store, where a test names none.")
    judge: str | None = Field(None, description="The judge, where a test names none.")

    def defaults(self) -> dict[str, Any]:
        """Return what evaluations take that name nothing else."""
        return {name: value for name in ("store", "judge") if (value := getattr(self, name))}


def session_settings(given: Mapping[str, str] | None = None) -> SessionSettings:
    """Return the settings of a session.

    Args:
        given: Those that come before the file's.

    Raises:
        UsageError: There is no such setting, or a value makes no sense.
    """
    table = settings_table(TABLE, SessionSettings.model_fields)
    for values, where in ((table, f"{FILE}, [{TABLE}]"), ({**table, **(given or {})}, "The options of pytest")):
        try:
            found = SessionSettings.model_validate(values)
        except ValidationError as error:
            raise UsageError(
                f"{where}: {first_refusal(error, SessionSettings)}.", code=ErrorCode.CONFIG_OPTION
            ) from None
    return found
