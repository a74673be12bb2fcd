"""Rows on which people are tied: as many call an answer good as bad, so that somebody has to decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.tasks.judges.labels.judged_rows import JudgedRows
from leadline.tasks.load.label import TIE, Label, consensus


@dataclass(frozen=True, slots=True)
class Tie:
    """A row on which people are tied.

    Attributes:
        index: Its place in the judged rows.
        labels: What each of them said, by name.
    """

    index: int
    labels: tuple[Label, ...]

    @property
    def said(self) -> list[str]:
        """The words of each: ``anna: good (as the map has it)``."""
        words = {1.0: "good", 0.0: "bad", None: "can't tell"}
        return [
            f"{label.person}: {words.get(label.value, label.value)}" + f" ({label.note})" * bool(label.note)
            for label in self.labels
        ]

    @property
    def sample(self) -> str:
        """The sample in which the row was drawn, ``""`` for none: a label that decides the tie is of it too."""
        return max(label.sample for label in self.labels)


def ties(judged: JudgedRows, labels: Sequence[Label]) -> list[Tie]:
    """Return the rows of a run on which people are tied, each thing that they saw once.

    Args:
        judged: The rows that a metric scored.
        labels: The last label of each person on each row.

    Raises:
        UsageError: Rows have numbers, of which the mean counts.
    """
    if not judged.metric.is_binary:
        raise UsageError(
            f"{judged.metric.id} is a number: of several people's labels the mean counts, and none is a tie.",
            code=ErrorCode.LABEL_SAMPLE,
        )
    by_key: defaultdict[str, list[Label]] = defaultdict(list)
    for label in sorted(labels, key=lambda label: label.person):
        by_key[label.key].append(label)
    place = {key: index for index, key in reversed(list(enumerate(judged.keys)))}
    return [
        Tie(index, tuple(by_key[key]))
        for key, index in sorted(place.items(), key=lambda item: item[1])
        if consensus(by_key[key], binary=True) == TIE
    ]
