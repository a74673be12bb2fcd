"""Keeping API keys out of error texts, which end in logs, the ledger and reports."""

from __future__ import annotations

import os
import re
from typing import Final

from leadline.evaluators.judge.engine.judge_config import JudgeConfig

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_LOOKS_SECRET: Final = re.compile(
    r"\b(?:sk|pk|rk|key|Bearer|AIza|gsk|hf)[-_ :=][A-Za-z0-9_\-./+*]{6,}|//[^/\s:@]+:[^/\s@]+@", re.IGNORECASE
)
_SHORTEST: Final = 6
LONGEST: Final = 300


def looks_secret(text: str) -> bool:
    """Return whether something in a text looks like a key."""
    return _LOOKS_SECRET.search(text) is not None


def without_secrets(text: str, config: JudgeConfig | None = None, *, longest: int = LONGEST) -> str:
    """Return an error text that may be logged: one short line without keys.

    Taken out are the values of all environment variables that are named like secrets, the judge's own key, and
    whatever looks like a key.

    Args:
        text: The error text, of any length.
        config: The judge whose key is taken out too; ``None`` when the error is not about a judge.
        longest: Where the line is cut.
    """
    secrets = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    if config is not None and config.api_key_env:
        secrets.add(os.environ.get(config.api_key_env, ""))
    for secret in sorted(map(str.strip, secrets), key=len, reverse=True):  # a key is sent without a line's end
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "[key]")
    return " ".join(_LOOKS_SECRET.sub("[key]", text[: 20 * longest]).split())[:longest]
