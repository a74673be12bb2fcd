"""Prompts of users: plain text with placeholders for a row's texts, each of which is fenced as data by itself.

``{INPUT}`` or ``{question}``, ``{EXPECTED_OUTPUT}`` or ``{expected_answer}``, ``{CONTEXT}`` or ``{retrieved_context}``,
``{ACTUAL_OUTPUT}`` or ``{actual_answer}``; doubled braces do as well. Every other brace is text, so that a prompt can
show JSON.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.evaluators.data import Row, RowField
from leadline.evaluators.judge.prompting import Prompt, prompt_from

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
    }
)
_LABELS: Final[Mapping[RowField, str]] = MappingProxyType(
    {
        RowField.QUESTION: "question",
        RowField.EXPECTED_ANSWER: "expected-answer",
        RowField.RETRIEVED_CONTEXT: "context",
        RowField.ACTUAL_ANSWER: "answer",
    }
)
_NAMES: Final = "|".join(PLACEHOLDERS)
_PLACEHOLDER: Final = re.compile(rf"\{{\{{[ ]?({_NAMES})[ ]?\}}\}}|\{{({_NAMES})\}}")
_NAME_LIKE: Final = re.compile(r"\{([A-Za-z_]{3,40})\}")


@dataclass(frozen=True)
class UserPrompt:
    """A prompt that a user wrote.

    Attributes:
        fields: The fields that it shows, in the order of :class:`RowField`.
        prompt: The prompt; its texts are named by field.
    """

    fields: tuple[RowField, ...]
    prompt: Prompt

    def texts(self, row: Row, expected_answer: str = "") -> dict[str, str]:
        """Return a row's texts for it; the chunks of the context are joined by line feeds.

        Args:
            expected_answer: The one of its expected answers to show.
        """
        texts = {
            RowField.QUESTION: row.question or "",
            RowField.EXPECTED_ANSWER: expected_answer,
            RowField.RETRIEVED_CONTEXT: "\n".join(chunk.content for chunk in row.retrieved_context),
            RowField.ACTUAL_ANSWER: row.actual_answer or "",
        }
        return {field.value: texts[field] for field in self.fields}


def user_prompt(name: str, text: str) -> UserPrompt:
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
        source += [_verbatim(text[end : found.start()]), f'{{{{ {field.value} | data("{_LABELS[field]}") }}}}']
        end = found.end()
    source.append(_verbatim(text[end:]))
    for name_like in _NAME_LIKE.findall(_PLACEHOLDER.sub("", text)):
        meant = _meant(name_like)
        if meant:
            raise ValueError(f"{{{name_like}}} is no placeholder; is {{{meant}}} meant?")
    if not fields:
        raise ValueError("it has no placeholder, so that it would ask the same of every row")
    return UserPrompt(tuple(field for field in RowField if field in fields), prompt_from(name, "".join(source)))


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
