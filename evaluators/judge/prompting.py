"""Prompts: Jinja files beside the evaluators, the fields they show, and the fence around text under evaluation.

A prompt marks what is data with the filter ``data``::

    {{ question | data("question") }}

which puts the text between ``<question-FENCE>`` and ``</question-FENCE>``. The fence is drawn for each call, so no text
can contain it; the system message warns the judge that nothing between such marks is an instruction.

Prompts of users are plain text with placeholders for a row's texts, each of which is fenced as data by itself:
``{INPUT}`` or ``{question}``, ``{EXPECTED_OUTPUT}`` or ``{expected_answer}``, ``{CONTEXT}`` or ``{retrieved_context}``,
``{ACTUAL_OUTPUT}`` or ``{actual_answer}``, and of conversations ``{messages}``, ``{history}`` and ``{tool_calls}``;
doubled braces do as well. Every other brace is text, so that a prompt can show JSON.

Of a conversation the filter ``transcript`` makes fenced pieces, of calls alone the filter ``calls``; ``json`` makes a
text of any value::

    {{ history | transcript("earlier-") }}
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from leadline.evaluators.data import MadeCall, Messages, Row, RowField
from leadline.evaluators.judge.transcript import TranscriptPiece, as_json_text, pieces_of, pieces_of_calls
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
            {"role": "system", "content": fence.join(_between_fences())},
            {"role": "user", "content": user if user.isascii() else without_surrogates(user)},
        )


@cache
def _between_fences() -> list[str]:
    """Return what the system message, which has the same words for all, says before, between and after its fences."""
    mark = "\0"
    return prompt(_SYSTEM).template.render(fence=mark).split(mark)


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


@pass_context
def _transcript(context: Context, messages: Messages, prefix: str = "", *, reasoning: bool = False) -> str:
    return _fenced(context, pieces_of(messages, prefix, reasoning=reasoning))


@pass_context
def _calls(context: Context, calls: Sequence[MadeCall]) -> str:
    return _fenced(context, pieces_of_calls(calls))


def _fenced(context: Context, pieces: Iterable[TranscriptPiece]) -> str:
    shown = [part for label, text, remark in pieces for part in (_data(context, text, label), remark) if part]
    return "\n".join(shown) or "(There is nothing.)"


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"data": _data, "transcript": _transcript, "calls": _calls, "json": as_json_text}
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
    environment.filters |= dict.fromkeys(("transcript", "calls", "json"), lambda value, *_, **__: str(value))
    return environment


def readable(prompt: Prompt) -> str:
    """Return a prompt's text with names for what it shows; its source where that cannot be."""
    try:
        return _plain_environment().from_string(prompt.source).render().strip()
    except (TemplateError, TypeError, ValueError):
        return prompt.source.strip()


@dataclass(frozen=True)
class RowPrompt:
    """A prompt that shows fields of a row.

    Attributes:
        source: The template in Jinja.
        shows: The fields by variable. Of several fields the texts that there are, are joined by line feeds.
        apart: Whether the retrieved context alone is the list of its chunks, instead of these joined by line feeds.
    """

    name: str
    source: str
    shows: Mapping[str, tuple[RowField, ...]]
    apart: bool = False

    @property
    def fields(self) -> tuple[RowField, ...]:
        """The fields that it shows, in the order of :class:`RowField`."""
        shown = {field for fields in self.shows.values() for field in fields}
        return tuple(field for field in RowField if field in shown)

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt, compiled."""
        return prompt_from(self.name, self.source)

    def texts(self, row: Row, expected_answer: str = "") -> dict[str, Any]:
        """Return a row's texts for it; messages, calls, tools and a scenario as they are.

        Args:
            expected_answer: The one of its expected answers to show.
        """
        chunks = [chunk.content for chunk in row.retrieved_context]
        texts = {
            RowField.QUESTION: row.question or "",
            RowField.EXPECTED_ANSWER: expected_answer,
            RowField.RETRIEVED_CONTEXT: "\n".join(chunks),
            RowField.ACTUAL_ANSWER: row.actual_answer or "",
            RowField.EXPECTED_OUTCOME: row.expected_outcome or "",
        }
        whole: dict[RowField, Any] = {field: getattr(row, field.attribute) or () for field in OF_CONVERSATIONS}
        if self.apart:
            whole[RowField.RETRIEVED_CONTEXT] = chunks
        return {
            name: whole[fields[0]]
            if len(fields) == 1 and fields[0] in whole
            else "\n".join(texts[field] for field in fields if texts[field])
            for name, fields in self.shows.items()
        }


OF_CONVERSATIONS: Final = (
    RowField.MESSAGES,
    RowField.HISTORY,
    RowField.TOOL_CALLS,
    RowField.TOOLS,
    RowField.SCENARIO,
)
"""Fields that reach a prompt as they are, and that a filter makes texts of."""


PLACEHOLDERS: Final[Mapping[str, RowField]] = MappingProxyType(
    {
        "INPUT": RowField.QUESTION,
        "EXPECTED_OUTPUT": RowField.EXPECTED_ANSWER,
        "CONTEXT": RowField.RETRIEVED_CONTEXT,
        "ACTUAL_OUTPUT": RowField.ACTUAL_ANSWER,
        "question": RowField.QUESTION,
        "expected_answer": RowField.EXPECTED_ANSWER,
        "retrieved_context": RowField.RETRIEVED_CONTEXT,
        "actual_answer": RowField.ACTUAL_ANSWER,
        "messages": RowField.MESSAGES,
        "history": RowField.HISTORY,
        "tool_calls": RowField.TOOL_CALLS,
    }
)
_FILTERS: Final[Mapping[RowField, str]] = MappingProxyType(
    {
        RowField.QUESTION: 'data("question")',
        RowField.EXPECTED_ANSWER: 'data("expected-answer")',
        RowField.RETRIEVED_CONTEXT: 'data("context")',
        RowField.ACTUAL_ANSWER: 'data("answer")',
        RowField.MESSAGES: "transcript",
        RowField.HISTORY: 'transcript("earlier-")',
        RowField.TOOL_CALLS: "calls",
    }
)
_NAMES: Final = "|".join(PLACEHOLDERS)
_PLACEHOLDER: Final = re.compile(rf"\{{\{{[ ]?({_NAMES})[ ]?\}}\}}|\{{({_NAMES})\}}")
_NAME_LIKE: Final = re.compile(r"\{([A-Za-z_]{3,40})\}")


def user_prompt(name: str, text: str) -> RowPrompt:
    """Read a prompt with placeholders.

    Args:
        name: Name of the prompt.
        text: The prompt as its author wrote it.

    Raises:
        ValueError: It has none, or one that looks like a misspelt one.
    """
    fields: set[RowField] = set()
    source: list[str] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        field = PLACEHOLDERS[found[1] or found[2]]
        fields.add(field)
        source += [_verbatim(text[end : found.start()]), f"{{{{ {field.value} | {_FILTERS[field]} }}}}"]
        end = found.end()
    source.append(_verbatim(text[end:]))
    for name_like in _NAME_LIKE.findall(_PLACEHOLDER.sub("", text)):
        meant = _meant(name_like)
        if meant:
            raise ValueError(f"{{{name_like}}} is no placeholder; is {{{meant}}} meant?")
    if not fields:
        raise ValueError("it has no placeholder, so that it would ask the same of every row")
    shows = {field.value: (field,) for field in RowField if field in fields}
    return RowPrompt(name, "".join(source), shows)


def _meant(name_like: str) -> str:
    """Return the placeholder that a word in braces is most like, ``""`` when it is like none."""
    near = difflib.get_close_matches(name_like, PLACEHOLDERS, n=1, cutoff=0.75)
    parts = [name for name in PLACEHOLDERS if name_like.lower() in name.lower().split("_")]
    return next(iter([*near, *parts]), "")


def _verbatim(text: str) -> str:
    """Return a text as Jinja source that prints exactly it, whatever braces are in it."""
    if not text:
        return ""
    escaped = text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'{{{{ "{escaped}" }}}}'
