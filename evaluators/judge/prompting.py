"""Prompts: Jinja files beside the evaluators, and the fence that keeps text under evaluation from being obeyed.

A prompt marks what is data with the filter ``data``::

    {{ question | data("question") }}

which puts the text between ``<question-FENCE>`` and ``</question-FENCE>``. The fence is drawn for each call, so no text
can contain it; the system message warns the judge that nothing between such marks is an instruction.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import StrictUndefined, Template, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from leadline.evaluators.text.sentences import without_surrogates

_SYSTEM: Final = Path(__file__).with_name("system.jinja")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file.

    Attributes:
        name: The file's name without its ending.
        digest: Digest of its text and of the system message; part of score keys.
        template: The compiled template.
        source: Its text.
    """

    name: str
    digest: str
    template: Template
    source: str

    def messages(self, fence: str, texts: dict[str, Any]) -> tuple[dict[str, str], ...]:
        """Return the system and the user message with the texts filled in.

        Args:
            fence: The mark around texts under evaluation, see :func:`draw_fence`.
            texts: Values of the template's variables.
        """
        user = self.template.render(texts | {"fence": fence})
        return (
            {"role": "system", "content": prompt(_SYSTEM).template.render(fence=fence)},
            {"role": "user", "content": user if user.isascii() else without_surrogates(user)},
        )


def canonical(messages: Sequence[Mapping[str, str]], fence: str) -> str:
    """Return what messages say apart from their fence; different questions never come out equal.

    A fixed text in the fence's place could be part of a text under evaluation; the pieces between the fences cannot.

    Args:
        messages: The messages that :meth:`Prompt.messages` returned.
        fence: The fence that they were made with.
    """
    return json.dumps([message["content"].split(fence) for message in messages], ensure_ascii=False)


@pass_context
def _data(context: Context, text: str, label: str = "data") -> str:
    fence = context["fence"]
    return f"<{label}-{fence}>\n{text}\n</{label}-{fence}>"


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data"] = _data
    return environment


@cache
def prompt(path: Path) -> Prompt:
    """Read a prompt file."""
    return prompt_from(path.stem, path.read_text(encoding="utf-8"))


def prompt_from(name: str, source: str) -> Prompt:
    """Make a prompt of its text.

    Args:
        name: Name of the prompt.
        source: The template in Jinja.
    """
    system = _SYSTEM.read_text(encoding="utf-8")
    identity = hashlib.sha256(f"{system}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Prompt(name, identity, _environment().from_string(source), source)


def draw_fence() -> str:
    """Return a fence that no text can know."""
    return secrets.token_hex(8)
