"""Prompts in Jinja with the fields of a row that their variables show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from leadline.evaluators.data.row import Row, RowField
from leadline.evaluators.judge.prompting import Prompt, prompt_from


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
