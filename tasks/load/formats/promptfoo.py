"""promptfoo: the results of an evaluation, ``promptfoo eval --output results.json``."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from leadline.tasks.load.field_names import field_of
from leadline.tasks.load.formats.other import Other
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers.item import Item

_OF_CASE: Final = ("question", "expected_answer", "retrieved_context", "categories")
_KEPT: Final = ("success", "score", "namedScores")


@register
class Promptfoo(Other):
    """Reads one answer a result: what was asked and expected are variables with known names.

    Without a variable that is known to be the question, the only one is it, else the prompt as it was sent. The model
    is the provider; further prompts of it are models of their own. The error of a failed assertion is none of the host.
    """

    name = "promptfoo"
    title = "promptfoo"
    recognised_by = "an object `results` with a list `results`"
    answer_column = "response"
    sections = ("results.results",)
    is_flat = False

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are promptfoo's results."""
        return 0.95 if "results.results" in sections else 0

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a result."""
        response, provider = _object(record.get("response")), record.get("provider")
        provider = _object(provider).get("label") or _object(provider).get("id") or provider
        number = record.get("promptIdx")
        usage = _object(response.get("tokenUsage"))
        answered = response.get("output") is not None
        flat = {
            **_of_case(_object(record.get("vars")), _object(record.get("prompt")).get("raw")),
            "model": f"{provider} prompt {number + 1}" if isinstance(number, int) and number else provider,
            "actual_answer": response.get("output"),
            "error": None if answered else response.get("error") or record.get("error"),
            "latency_ms": record.get("latencyMs"),
            "cost_usd": response.get("cost", record.get("cost")),
            "input_tokens": usage.get("prompt"),
            "output_tokens": usage.get("completion"),
            **{name: record[name] for name in _KEPT if record.get(name)},
        }
        super().convert_record(item, flat)


def _of_case(variables: dict[str, Any], prompt: Any) -> dict[str, Any]:
    """Return the fields of the case; variables of no known name are kept under their own."""
    named = {match.field: name for name in variables if (match := field_of(name)) and match.field in _OF_CASE}
    others = [name for name in variables if name not in named.values()]
    if "question" not in named and len(others) == 1 and isinstance(variables[others[0]], str):
        named["question"] = others[0]
    found = {field: variables[name] for field, name in named.items()}
    kept = {name: value for name, value in variables.items() if name not in named.values()}
    return {"question": prompt, **found, **({"vars": kept} if kept else {})}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
