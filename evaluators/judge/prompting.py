"""Prompts: Jinja files beside the evaluators, the fields they show, and the fence around text under evaluation.

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
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from leadline.evaluators.data import Row, RowField
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class _Name(Undefined):
    """A variable that prints its name, and that a template may loop over, count and compare."""

    def __str__(self) -> str:
        return f"[{str(self._undefined_name).replace('_', ' ')}]"

    def __iter__(self) -> Iterator[_Name]:
        yield _PromptItem(name=self._undefined_name)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name=name)

    def _true(self, other: Any) -> bool:
        return True

    __lt__ = __le__ = __gt__ = __ge__ = _true  # type: ignore[assignment]

    def __index__(self) -> int:
        return 1


class _PromptItem(_Name):
    """A turn of a loop, which may be a pair."""

    def __iter__(self) -> Iterator[_Name]:
        yield self
        yield self


@cache
def _plain_environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=_Name, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data"] = lambda text, label="data": f"[{label}]"
    environment.filters["length"] = lambda items: _Name(name="number")
    return environment


def readable(prompt: Prompt) -> str:
    """Return a prompt's text with names for what it shows; its source where that cannot be."""
    try:
        return _plain_environment().from_string(prompt.source).render().strip()
    except (TemplateError, TypeError, ValueError):
        return prompt.source.strip()


@dataclass(frozen=True)
class TemplatePrompt:
    """A prompt in Jinja.

    Attributes:
        source: The template.
        shows: The fields by variable. The retrieved context alone is the list of its chunks; of several fields the
            texts that there are, are joined by line feeds.
    """

    name: str
    source: str
    shows: Mapping[str, tuple[RowField, ...]]

    @property
    def fields(self) -> tuple[RowField, ...]:
        """The fields that it shows, in the order of :class:`RowField`."""
        shown = {field for fields in self.shows.values() for field in fields}
        return tuple(field for field in RowField if field in shown)

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt, compiled."""
        return prompt_from(self.name, self.source)

    def texts(self, row: Row, expected_answer: str = "") -> dict[str, str | list[str]]:
        """Return a row's texts for it.

        Args:
            expected_answer: The one of its expected answers to show.
        """
        chunks = [chunk.content for chunk in row.retrieved_context]
        texts = {
            RowField.QUESTION: row.question or "",
            RowField.EXPECTED_ANSWER: expected_answer,
            RowField.RETRIEVED_CONTEXT: "\n".join(chunks),
            RowField.ACTUAL_ANSWER: row.actual_answer or "",
        }
        return {
            name: chunks
            if fields == (RowField.RETRIEVED_CONTEXT,)
            else "\n".join(texts[field] for field in fields if texts[field])
            for name, fields in self.shows.items()
        }
