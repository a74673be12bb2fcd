"""Parameters that ``leadline.toml`` gives to evaluators whether or not a run names them: ``[privacy] allow``."""

from __future__ import annotations

from typing import Any

from leadline.evaluators.core.registry import all_evaluators
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.settings_file import FILE, settings_table


def standing_params() -> dict[str, dict[str, Any]]:
    """Return the parameters by evaluator id.

    Raises:
        UsageError: The file cannot be read, or the table holds something else.
    """
    allow = settings_table("privacy", ["allow"]).get("allow", [])
    if not isinstance(allow, list) or not all(isinstance(text, str) for text in allow):
        raise UsageError(
            f"{FILE}: [privacy] allow is a list of texts.",
            hint='Write: allow = ["support@acme.com", "@acme.com", "+1 212 736 5000"]',
            code=ErrorCode.CONFIG_CONTENT,
        )
    if not allow:
        return {}
    return {
        id_: {"allow": tuple(allow)}
        for id_, kind in all_evaluators().items()
        if kind.spec.family == "privacy" and "allow" in kind.parameters.model_fields
    }
