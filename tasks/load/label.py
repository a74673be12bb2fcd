"""A label: one person's opinion of one answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from leadline.evaluators.core.registry import find
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.tasks.policy.asked_questions import DECIDED_BY_ROWS

ADJUDICATED: Final = "adjudicated"
"""The person of a label that was agreed on; it stands for all others of its row."""

TIE: Final = 0.5
"""What people say together of a row that as many pass as fail."""

_KEY: Final = re.compile(r"[0-9a-f]{32}")
LONGEST: Final = 2_000
"""Characters of a text of a label, such as its note."""


@dataclass(frozen=True, slots=True)
class Label:
    """One person's opinion of one answer.

    Attributes:
        key: Digest of what the person saw: question, contexts, expected answer and answer, 32 hex digits.
        question: What was asked: ``EVALUATOR.METRIC``.
        value: 1 for good and 0 for bad, or a number of the metric's range; ``None`` for "can't tell".
        person: Who said so, or :data:`ADJUDICATED`.
        at: When, as an ISO time.
        case: Key of the case, for readers.
        model: Key of the model, for readers.
        saw_judge: Whether the person saw the judge's verdict.
        sample: Id of the sample in which the row was drawn; ``""`` where somebody chose it.
        note: What the person added.
    """

    key: str
    question: str
    value: float | None
    person: str
    at: str
    case: str = ""
    model: str = ""
    saw_judge: bool = False
    sample: str = ""
    note: str = ""


def read_label(record: Mapping[str, Any], where: str) -> Label:
    """Return a label from a record of a file.

    Args:
        record: Its fields by name; unknown ones are left out.
        where: Where it stands, for errors.

    Raises:
        UsageError: A field is missing or makes no sense.
    """

    def text(name: str, default: str = "") -> str:
        found = record.get(name)
        if found is None or found == "":
            return default
        if not isinstance(found, str) or len(found) > LONGEST:
            raise _refused(where, name, found, f"a text of at most {LONGEST:,} characters")
        return found

    key = text("key")
    if not _KEY.fullmatch(key):
        raise _refused(where, "key", key, "32 hex digits")
    question, person = text("question"), text("person")
    if not question or not person:
        raise _refused(where, "person" if question else "question", "", "a text")
    value, (low, high) = read_value(record.get("value"), where), value_range(question)
    if value is not None and not low <= value <= high:
        raise _refused(where, "value", f"{value:g}", f"from {low:g} to {high:g} for {question}")
    return Label(
        key=key,
        question=question,
        value=value,
        person=person,
        at=text("at", datetime.now(UTC).isoformat(timespec="seconds")),
        case=text("case"),
        model=text("model"),
        saw_judge=str(record.get("saw_judge")).lower() in ("true", "1"),
        sample=text("sample"),
        note=text("note"),
    )


def read_value(found: object, where: str) -> float | None:
    """Return the value of a label as people and programs write it; ``None`` for "can't tell".

    Args:
        found: A number, a truth value, or a word such as ``pass``, ``fail`` or ``can't tell``.
        where: Where it stands, for errors.

    Raises:
        UsageError: It is none of these.
    """
    try:
        return label_value(found)
    except ValueError:
        raise _refused(where, "value", found, "a number, pass, fail or can't tell") from None


def label_value(found: object) -> float | None:
    """Return the value of a label as people and programs write it; ``None`` for "can't tell".

    Args:
        found: A number, a truth value, or a word such as ``pass``, ``fail`` or ``can't tell``.

    Raises:
        ValueError: It is none of these.
    """
    if found is None:
        return None
    if isinstance(found, str) and (word := found.strip().lower()) in _WORDS:
        return _WORDS[word]
    if not isinstance(found, str | int | float):
        raise ValueError("neither a number nor a word")
    try:
        value = float(found)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


@lru_cache(maxsize=1_000)
def value_range(question: str) -> tuple[float, float]:
    """Return the least and the greatest value of a metric's labels: 0 and 1, for fail and pass, and its range.

    Args:
        question: ``EVALUATOR.METRIC``, or ``EVALUATOR`` for its primary one; one that is not known here has no bounds.
    """
    if question in DECIDED_BY_ROWS:
        return 0.0, 1.0
    for evaluator, key in ((question, ""), question.rpartition(".")[::2]):
        kind = find(evaluator.partition("#")[0])
        for metric in kind.spec.metrics if kind else ():
            if metric.key == key or (metric.primary and not key):
                return min(0.0, metric.range[0]), max(1.0, metric.range[1])
    return -math.inf, math.inf


_WORDS: Final[Mapping[str, float | None]] = {
    **dict.fromkeys(("pass", "good", "yes", "true", "correct", "ok"), 1.0),
    **dict.fromkeys(("fail", "bad", "no", "false", "incorrect", "wrong"), 0.0),
    **dict.fromkeys(("", "can't tell", "cannot tell", "unsure", "skip", "null", "none"), None),
}


def consensus(labels: Sequence[Label], *, binary: bool) -> float | None:
    """Return what people say together of a row: the mean of numbers, the majority of verdicts, a tie is one half.

    Args:
        labels: The last label of each person on the row; an adjudicated one stands for all.
        binary: Whether rows pass or fail.

    Returns:
        The value, or ``None`` where everybody can't tell.
    """
    agreed = [label for label in labels if label.person == ADJUDICATED] or labels
    values = [label.value for label in agreed if label.value is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return (float(mean > TIE) if mean != TIE else TIE) if binary else mean


def _refused(where: str, name: str, found: object, wanted: str) -> UsageError:
    shown = str(found)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return UsageError(f"{where}: {name} is {shown!r}, and must be {wanted}.", code=ErrorCode.LABEL_FILE)
