"""The evaluation set of Databricks' Mosaic AI Agent Evaluation (MLflow 2)."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import MODEL_COLUMNS, DatasetFormat, Values
from leadline.tasks.load.formats.chat import reply
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.values import anything, chunks, documents, key, message, texts, unpacked

_OF_CASE: Final = ("expected_facts", "guidelines", "guidelines_context", "custom_expected")


@register
class Databricks(DatasetFormat):
    """Reads an evaluation set.

    ``expected_facts``, ``guidelines`` and ``custom_expected`` become metadata of the case: facts are claims that
    an answer must support, no acceptable answers. A missing ``response`` is taken from the trace.
    """

    name = "databricks"
    title = "Databricks"
    recognised_by = "`request`"
    question_column = "request"
    answer_column = "response"
    needs = ("request",)
    columns: ClassVar[Columns] = {
        **MODEL_COLUMNS,
        "request_id": ("case", key),
        "request": ("request", anything),
        "response": ("response", anything),
        "expected_response": ("expected", texts),
        "retrieved_context": ("context", chunks),
        "expected_retrieved_context": ("documents", documents),
        "error": ("error", message),
        **{name: (name, unpacked) for name in _OF_CASE},  # Parquet has no type for a map of anything
        "trace": ("trace", anything),
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are records of an evaluation set."""
        return 0.7 if "request" in names else 0

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Unpack chat-shaped requests and responses, and gather what belongs to the case."""
        self.take_question(place, values, "request", values.pop("request", None))
        trace = values.pop("trace", None)
        response = values.pop("response", None)
        if response is None and isinstance(trace, dict) and isinstance(trace.get("data"), dict):
            response = trace["data"].get("response")
        answer = reply(self.faults, place, "response", response)
        if answer is not None:
            values["answer"] = answer
        metadata = {name: values.pop(name) for name in _OF_CASE if name in values}
        if metadata:
            values["case_metadata"] = metadata
        if trace is not None:
            others["trace"] = trace
