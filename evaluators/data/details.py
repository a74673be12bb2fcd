"""Details: what an evaluator has to say of one model beyond its metrics, as JSON.

The tasks room stores them with the run and publishes them: as a JSON file, as a table of the values by label, and as
pictures in the report. Every member may be left out. Sizes are bounded by the constants below; whoever makes details
cuts them to size and says so in ``notes``. A number that is not defined is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from leadline.evaluators.data.annotations import Annotation
from leadline.evaluators.data.messages import Json

MOST_LABELS: Final = 2_000
"""Labels whose values are listed."""

MOST_SERIES: Final = 200
"""Series of one chart. The report draws the first few of them."""

MOST_POINTS: Final = 200
"""Points of one series."""

MOST_CONFUSED: Final = 50
"""Labels of one confusion matrix."""

MOST_EXAMPLES: Final = 60
"""Examples of one model."""

MOST_SHOWN: Final = 200
"""Annotations of one example, on either side."""


class LabelValues(TypedDict):
    """The values of one label. ``value`` is ``""`` for the values over all labels of the key.

    Attributes:
        key: The label's key.
        value: The label's value.
        values: Name of a metric or count to its value, in the order of display.
    """

    key: str
    value: str
    values: Mapping[str, float | int | None]


class Series(TypedDict):
    """One line of a chart: its label, and as many ``x`` as ``y``."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class Curve(TypedDict, total=False):
    """A chart of lines in the unit square.

    Attributes:
        name: What it shows, as a heading.
        x_label: What ``x`` is.
        y_label: What ``y`` is.
        diagonal: Whether the diagonal is drawn, which is chance in a ROC curve.
        series: The lines, the most important first.
    """

    name: str
    x_label: str
    y_label: str
    diagonal: bool
    series: Sequence[Series]


class Confusion(TypedDict):
    """A confusion matrix: ``counts[i][j]`` items with label ``expected[i]`` got the label ``predicted[j]``."""

    key: str
    expected: Sequence[str]
    predicted: Sequence[str]
    counts: Sequence[Sequence[float]]


class Example(TypedDict, total=False):
    """One thing that a model got wrong.

    Attributes:
        kind: ``misclassification``, ``hallucination``, ``no_prediction``, ...
        case: Key of the case.
        key: Key of the label it is about.
        value: Value of the label it is about.
        score: The prediction's score, ``None`` without one.
        expected: Annotations of the ground truth, or their positions in the row's list, which are then filled in.
        predicted: The same of the predictions.
        size: Width and height of the item in pixels; filled in where the dataset says (``width`` and ``height``).
    """

    kind: str
    case: str
    key: str
    value: str
    score: float | None
    expected: Sequence[Annotation | int]
    predicted: Sequence[Annotation | int]
    size: Sequence[float]


class Details(TypedDict, total=False):
    """Curves, tables and examples of one model, beyond its metrics.

    Attributes:
        labels: Values by label, and those over all labels of a key.
        curves: Charts.
        confusion: One matrix per label key.
        examples: What went wrong, the worst first.
        records: Values in the form of the reference, for programs.
        notes: What the reader should know, one sentence each.
    """

    labels: Sequence[LabelValues]
    curves: Sequence[Curve]
    confusion: Sequence[Confusion]
    examples: Sequence[Example]
    records: Sequence[Mapping[str, Json]]
    notes: Sequence[str]
