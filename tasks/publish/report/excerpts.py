"""Excerpts: texts and evidence cut to what a page has room for, so that what was found in them stays in view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.evaluators.ground import jsonio

ITEMS: Final = 20
"""Chunks, expected answers, labels and entries of a list that are shown of a row."""
SPANS: Final = 40
"""Stretches of text that an evaluator points at in one row."""
LINE: Final = 300
"""Characters of a note, a label, or the name of a document."""
LEAST: Final = 100
"""Characters that a message keeps however little room there is."""


@dataclass(frozen=True, slots=True)
class Room:
    """The characters that texts of a row may take in the page; longer ones are cut.

    Attributes:
        text: Of a question, an answer or an expected answer.
    """

    text: int

    @property
    def chunk(self) -> int:
        """Of a chunk of the context."""
        return self.text // 2

    @property
    def message(self) -> int:
        """Of an evaluator's words on a row."""
        return max(LEAST, min(self.text, 1000))

    def from_of(self, source: str, starts: Iterable[int]) -> int:
        """Return where the excerpt of a text begins, which something was found in.

        Args:
            source: The kind of text.
            starts: Where that begins, in code points.
        """
        most = self.chunk if source == "retrieved_context" else self.text
        first = min(starts, default=0)
        return 0 if first < most * 3 // 4 else first - most // 4


@dataclass(frozen=True, slots=True)
class ShownEvidence:
    """An evaluator's evidence on one row, as far as a page has room for it.

    Attributes:
        evaluator: Its place in the page.
        message: Its words.
        spans: Stretches of text, with positions in the whole text.
        data: Anything else that it says.
        error: The instrument's message where the row is unscored.
    """

    evaluator: int
    message: str
    spans: Sequence[Mapping[str, Any]]
    data: Any
    error: str | None

    @classmethod
    def read(cls, evaluator: int, text: str | None, error: str | None) -> ShownEvidence:
        """Read evidence as it is stored.

        Args:
            evaluator: The evaluator's place in the page.
            text: JSON.
            error: The instrument's message.
        """
        value = _object(text)
        found = value.get("spans")
        spans = [_short_span(span) for span in found if _is_span(span)] if isinstance(found, list) else []
        return cls(
            evaluator, str(value.get("message") or ""), spans[:SPANS], _pruned(value.get("data"), 1500) or None, error
        )

    def starts(self, source: str, index: int) -> list[int]:
        """Return where the stretches of a text begin.

        Args:
            source: The kind of text.
            index: Which of several.
        """
        return [span["start"] for span in self.spans if span.get("source") == source and span.get("index", 0) == index]

    def packed(self, room: Room, begins: Mapping[tuple[str, int], int]) -> list[Any]:
        """Return it as the page's data has it, with positions in the excerpts.

        Args:
            room: The room of its row.
            begins: Where the excerpts of texts begin, if not at their beginning, by source and number.
        """
        spans = []
        for span in self.spans:
            source, index = str(span.get("source")), span.get("index", 0)
            most = room.chunk if source == "retrieved_context" else room.text
            begin = begins.get((source, index), 0)
            start, end = max(0, span["start"] - begin), min(most, span["end"] - begin)
            if start < end:
                spans.append({**span, "start": start, "end": end})
        data = _pruned(self.data, room.message)
        if isinstance(data, dict) and len(jsonio.dump_plain(data)) > 2 * room.message:
            plain = {name: value for name, value in data.items() if not isinstance(value, list | dict)}
            data = plain | {"…": "the rest is too long for this page"}
        elif isinstance(data, list) and len(jsonio.dump_plain(data)) > 2 * room.message:
            data = "too long for this page"
        return [self.evaluator, cut(self.message, room.message), spans, data, self.error and cut(self.error, room.text)]


def cut(text: str, most: int) -> str:
    """Return the beginning of a text with the number of characters that are left out.

    Args:
        most: Its characters at most, but for the note.
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _short_span(span: Mapping[str, Any]) -> dict[str, Any]:
    short = {name: span[name] for name in ("source", "start", "end", "value") if span.get(name) is not None}
    if isinstance(short.get("value"), float):
        short["value"] = float(f"{short['value']:.4g}")
    elif "value" in short:
        short["value"] = _pruned(short["value"], LINE)
    if type(span.get("index")) is int:
        short["index"] = span["index"]
    return short | ({"note": cut(str(span["note"]), LINE)} if span.get("note") else {})


def _is_span(span: Any) -> bool:
    return isinstance(span, dict) and all(type(span.get(edge)) is int for edge in ("start", "end"))


def _pruned(value: Any, most: int, depth: int = 4) -> Any:
    """Return a JSON value with its long texts cut, its long lists and objects shortened, and its depths left out."""
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list):
        kept = [_pruned(item, most // 2, depth - 1) for item in value[:ITEMS]] if depth else []
        return [*kept, f"… ({len(value) - len(kept):,} more)"] if len(value) > len(kept) else kept
    if isinstance(value, dict):
        names = list(value)[:ITEMS] if depth else []
        kept_of = {cut(name, LINE): _pruned(value[name], most, depth - 1) for name in names}
        return kept_of | ({"…": f"{len(value) - len(names):,} more"} if len(value) > len(names) else {})
    return value


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = jsonio.load(text) if text else {}
    except ValueError:
        return {"message": "The evidence of this row cannot be read."}
    return value if isinstance(value, dict) else {"data": value}
