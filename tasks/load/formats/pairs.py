"""Formats of test libraries whose records are one question with one answer: ragas and deepeval.

A column ``model`` tells several models apart and ``case`` (or ``id``) names the case, though neither library
writes them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import MODEL_COLUMNS, Columns, Converter, Values
from leadline.tasks.load.formats.chat import last_user_message
from leadline.tasks.load.kinds import DatasetFormat
from leadline.tasks.load.values import anything, chunks, documents, filled, key, message, money, number, text, texts

_SHARED: Final[Columns] = {
    **MODEL_COLUMNS,
    "case": ("case", key),
    "case_key": ("case", key),
    "id": ("case", key),
    "error": ("error", message),
}


class Ragas(Converter):
    """Converts a ragas evaluation dataset, also with the field names of ragas before 0.2."""

    format = DatasetFormat.RAGAS
    columns: ClassVar[Columns] = {
        **_SHARED,
        "user_input": ("chat", anything),
        "question": ("chat", anything),
        "response": ("answer", text),
        "answer": ("answer", text),
        "retrieved_contexts": ("context", chunks),
        "contexts": ("context", chunks),
        "retrieved_context_ids": ("context_ids", documents),
        "reference": ("expected", texts),
        "ground_truth": ("expected", texts),
        "ground_truths": ("expected", texts),
        "reference_context_ids": ("documents", documents),
    }
    answer_column = "response"

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Take the question from a conversation, and the documents' ids to their chunks."""
        question = self.read_chat(place, "user_input", values.pop("chat", None))
        if question is not None:
            values["question"] = question
        uris = values.pop("context_ids", [])
        found = values.get("context", [])
        if uris and found and len(uris) != len(found):
            self.faults.add(
                place, "retrieved_context_ids", f"there are {len(uris)} ids for {len(found)} retrieved contexts"
            )
        elif uris:
            contents = [content for content, _ in found] or [""] * len(uris)
            values["context"] = list(zip(contents, uris, strict=True))

    def read_chat(self, place: Place, column: str, chat: Any) -> str | None:
        """Return the last thing that the user said."""
        return last_user_message(self.faults, place, column, chat)

    def needed(self) -> tuple[str, ...]:
        """Return the columns that some record must have, in the names of its generation."""
        return ("question", "answer") if "question" in self._seen else ("user_input", "response")


class Deepeval(Converter):
    """Converts deepeval's test cases."""

    format = DatasetFormat.DEEPEVAL
    columns: ClassVar[Columns] = {
        **_SHARED,
        "name": ("case", key),
        "input": ("question", filled),
        "actual_output": ("answer", text),
        "expected_output": ("expected", texts),
        "retrieval_context": ("context", chunks),
        "completion_time": ("duration_s", number),
        "token_cost": ("cost_usd", money),
        "tags": ("categories", texts),
    }
    answer_column = "actual_output"
    needs = ("input", "actual_output")
