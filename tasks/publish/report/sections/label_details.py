"""Values by label, curves, confusion matrices and examples of errors, drawn as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Confusion, Details, LabelValues
from leadline.tasks.publish.facts import read_details
from leadline.tasks.publish.report.canvas import Canvas, canvas
from leadline.tasks.publish.report.plots import Plot, plot
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import EvaluatorView, Facts, ModelView

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_MODELS: Final = 12
"""Models of one evaluator whose details the page shows; the files contain all."""
MOST_ROWS: Final = 60
"""Labels in the page's table."""
MOST_SQUARES: Final = 25
"""Labels in the page's confusion matrix."""
MOST_PICTURES: Final = 24
"""Examples in the page, for each model."""


@register_section
class LabelDetails(Section):
    """The details that evaluators give of a model beyond its metrics."""

    name = "details"
    title = "Labels"
    order = 700

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the drawings by evaluator and model; without any, the section is left out."""
        found = _page_details(results.connection, results.facts)
        return {"details": found} if found else None


@dataclass(frozen=True, slots=True)
class Square:
    """One field of a confusion matrix: its count, how dark it is (0 to 4), and its title."""

    count: float
    depth: int
    right: bool
    title: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A confusion matrix ready to be drawn; each line is an expected label with its squares."""

    key: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Square]]]
    cut: int


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """The details of one model, ready to be drawn.

    Attributes:
        names: Columns of the table of labels.
        keys: Lines of whole label keys.
        labels: Lines of labels.
        more: Labels that the table leaves out.
        plots: Charts.
        matrices: Confusion matrices.
        pictures: Examples.
        notes: What the reader should know.
    """

    model: ModelView
    names: Sequence[str]
    keys: Sequence[LabelValues]
    labels: Sequence[LabelValues]
    more: int
    plots: Sequence[Plot]
    matrices: Sequence[Matrix]
    pictures: Sequence[Canvas]
    notes: Sequence[str]


def _page_details(connection: DuckDBPyConnection, facts: Facts) -> list[tuple[EvaluatorView, list[ModelDetails]]]:
    """Return what the page draws, by evaluator; evaluators without details are left out."""
    out = []
    for evaluator in facts.evaluators:
        found = read_details(connection, evaluator.id)
        shown = [_drawn(model, found[model.id]) for model in facts.models if model.id in found][:MOST_MODELS]
        if shown:
            out.append((evaluator, shown))
    return out


def _drawn(model: ModelView, details: Details) -> ModelDetails:
    lines = details.get("labels", ())
    labels = [line for line in lines if line["value"]]
    return ModelDetails(
        model=model,
        names=list(dict.fromkeys(name for line in (*labels, *lines) for name in line["values"])),
        keys=[line for line in lines if not line["value"]],
        labels=labels[:MOST_ROWS],
        more=max(0, len(labels) - MOST_ROWS),
        plots=[plot(curve) for curve in details.get("curves", ())],
        matrices=[_matrix(confusion) for confusion in details.get("confusion", ())],
        pictures=[canvas(example) for example in details.get("examples", ())[:MOST_PICTURES]],
        notes=details.get("notes", ()),
    )


def _matrix(confusion: Confusion) -> Matrix:
    """Shade each square by its share of its line; only the first labels of a large matrix are shown."""
    columns = confusion["predicted"]
    across = range(min(len(columns), MOST_SQUARES))
    lines = []
    for expected, counts in list(zip(confusion["expected"], confusion["counts"], strict=True))[:MOST_SQUARES]:
        total = sum(counts)
        squares = [
            Square(
                count=counts[at],
                depth=_depth(counts[at] / total) if total else 0,
                right=columns[at] == expected,
                title=f"expected {expected}, predicted {columns[at]}: {counts[at]:g} of {total:g}",
            )
            for at in across
        ]
        lines.append((expected, squares))
    cut = max(len(columns), len(confusion["expected"])) - MOST_SQUARES
    return Matrix(confusion["key"], columns[:MOST_SQUARES], lines, max(0, cut))


def _depth(share: float) -> int:
    return 0 if not share else 1 + min(3, int(share * 4))
