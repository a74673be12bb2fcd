"""inspect: the logs of its evaluations, as JSON or as archives of its own (``.eval``)."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from leadline.tasks.load.formats.other import Other
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers.item import Item

_OWN_NAMES: Final = frozenset({"epoch", "output", "target"})
_CONTEXT: Final = "retrieved_context"


@register
class Inspect(Other):
    """Reads one answer a sample: its input, its targets, and the completion of the model.

    Retrieved chunks are those at ``retrieved_context`` in the sample's store or metadata, as Leadline's own scorers
    take them. The values of inspect's scorers are kept as metadata; conversation, events and attachments are left out.
    Each epoch but the first is a case of its own.
    """

    name = "inspect"
    title = "inspect"
    recognised_by = "a list `samples` of objects with `epoch`, `target` and `output`; an archive `.eval`"
    answer_column = "output"
    sections = ("samples",)
    is_flat = False

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are samples of a log."""
        return 0.95 if "samples" in sections and names >= _OWN_NAMES else 0

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a sample."""
        output, error, epoch = _object(record.get("output")), _object(record.get("error")), record.get("epoch")
        usage = _object(output.get("usage"))
        metadata = dict(_object(record.get("metadata")))
        context = _object(record.get("store")).get(_CONTEXT) or metadata.get(_CONTEXT)
        metadata.pop(_CONTEXT, None)
        id_ = record.get("id")
        flat = {
            **{f"metadata.{name}": value for name, value in metadata.items()},
            "case": f"{id_} epoch {epoch}" if isinstance(epoch, int) and epoch > 1 else id_,
            "model": output.get("model"),
            "question": _question(record.get("input")),
            "expected_answer": record.get("target") or None,
            "actual_answer": None if error else _completion(output),
            "retrieved_context": context,
            "error": error.get("message"),
            "duration_s": output.get("time"),
            "input_tokens": usage.get("input_tokens"),
            "output_tokens": usage.get("output_tokens"),
            **{f"inspect.{name}": _object(score).get("value") for name, score in _object(record.get("scores")).items()},
        }
        super().convert_record(item, {name: value for name, value in flat.items() if value is not None})


def _question(found: Any) -> Any:
    """Return the input: a text, or what was said last by the user of a conversation."""
    if not isinstance(found, list):
        return found
    said = [_text(message.get("content")) for message in map(_object, found) if message.get("role") == "user"]
    return said[-1] if said else None


def _completion(output: dict[str, Any]) -> str | None:
    """Return the model's answer; older logs have it in their choices only."""
    if isinstance(output.get("completion"), str):
        return str(output["completion"])
    choices = output.get("choices")
    first = _object(choices[0]) if isinstance(choices, list) and choices else {}
    return _text(_object(first.get("message")).get("content"))


def _text(content: Any) -> str | None:
    """Return the text of a message, whose content may be in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "\n".join(part["text"] for part in map(_object, content) if isinstance(part.get("text"), str))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
