"""Logfire's own spans of OpenAI's Agents SDK; all others of its spans follow the conventions."""

from __future__ import annotations

from typing import Final

from leadline.plugins.traces.dialects.table import Dialect

LOGFIRE: Final = Dialect(
    kinds={"logfire.msg_template": {"function: {name}": "tool", "agent run: {name!r}": "agent"}},
    of_kind={
        "agent": {"name": ("name",)},
        "tool": {"name": ("name",), "arguments": ("input",), "result": ("output",), "error": ("error",)},
    },
)
