"""ragas: evaluation datasets of one question and one answer a record."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import IDENTITY_COLUMNS, DatasetFormat, Values
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.values import Reading, anything, chunks, documents, filled, text, texts

_OLD_NAMES: Final = frozenset({"answer", "contexts", "ground_truth", "ground_truths"})
"""Fields that only ragas before 0.2 wrote beside ``question``."""


@register
class RagasDataset(DatasetFormat):
    """Reads a ragas evaluation dataset, also with the field names of ragas before 0.2."""

    name = "ragas"
    title = "ragas"
    recognised_by = "`user_input`; `question` beside `answer`, `contexts` or `ground_truth`"
    question_column = "user_input"
    answer_column = "response"
    columns: ClassVar[Columns] = {
        **IDENTITY_COLUMNS,
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

    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {"chat": ("question", filled)}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are ragas' records; the old names are less certain."""
        if "user_input" in names:
            return 0.6
        return 0.2 if "question" in names and names & _OLD_NAMES else 0

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Take the question from a conversation, and join the documents' ids with their chunks."""
        self.take_question(place, values, "user_input", values.pop("chat", None))
        uris = values.pop("context_ids", [])
        found = values.get("context", [])
        if uris and found and len(uris) != len(found):
            self.faults.add(
                place, "retrieved_context_ids", f"there are {len(uris)} ids for {len(found)} retrieved contexts"
            )
        elif uris:
            contents = [content for content, _ in found] or [""] * len(uris)
            values["context"] = list(zip(contents, uris, strict=True))

    def needed(self) -> tuple[str, ...]:
        """Return the columns that some record must have, in the names of its version of ragas."""
        return ("question", "answer") if "question" in self.flat.seen else ("user_input", "response")
