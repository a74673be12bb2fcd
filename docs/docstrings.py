"""Reads docstrings for the site: roles of Sphinx, which editors understand, become plain code in Markdown."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_ROLE: Final = re.compile(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?(?:[\w.]+ <)?([^`>]+)>?`")


class PlainRoles(griffe.Extension):
    """Replaces each role in a docstring by its target in backticks, and ``::`` before an example by a colon."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
