"""Prompts as people read them: names in brackets stand for the texts that a judge is shown."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leadline.evaluators.judge.prompting import Prompt


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
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=_Name, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data"] = lambda text, label="data": f"[{label}]"
    environment.filters["length"] = lambda items: _Name(name="number")
    return environment


def readable(prompt: Prompt) -> str:
    """Return a prompt's text with names for what it shows; its source where that cannot be."""
    try:
        return _environment().from_string(prompt.source).render().strip()
    except (TemplateError, TypeError, ValueError):
        return prompt.source.strip()
