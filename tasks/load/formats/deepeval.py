"""deepeval: test cases of one input and one output a record."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.formats.base import IDENTITY_COLUMNS, DatasetFormat
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.values import Reading, chunks, filled, key, money, number, text, texts

_OWN_NAMES: Final = frozenset({"actual_output", "retrieval_context", "expected_output"})


@register
class Deepeval(DatasetFormat):
    """Reads deepeval's test cases."""

    name = "deepeval"
    title = "deepeval"
    recognised_by = "`input` beside `actual_output`"
    question_column = "input"
    answer_column = "actual_output"
    needs = ("input", "actual_output")
    keeps = frozenset({"context"})  # the ideal one
    columns: ClassVar[Columns] = {
        **IDENTITY_COLUMNS,
        "name": ("case", key),
        "input": ("question", filled),
        "actual_output": ("answer", text),
        "expected_output": ("expected", texts),
        "retrieval_context": ("context", chunks),
        "completion_time": ("duration_s", number),
        "token_cost": ("cost_usd", money),
        "tags": ("categories", texts),
    }

    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are deepeval's test cases."""
        return 0.3 if "input" in names and names & _OWN_NAMES else 0
