"""The paper's tables from a run: accuracy by noise, rejection, integration, counterfactual robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import open_run, records, sql
from leadline.tasks.statistics.statistics import clopper_pearson
from leadline.tasks.store.store import Run, Store


@dataclass(frozen=True, slots=True)
class PaperCell:
    """A figure of a table: a share of answers.

    Attributes:
        hits: Answers that count.
        scored: Answers that were scored.
        n: Answers there are.
    """

    hits: int
    scored: int
    n: int

    @property
    def share(self) -> float | None:
        """The share, ``None`` when nothing was scored."""
        return self.hits / self.scored if self.scored else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval (Clopper and Pearson)."""
        return clopper_pearson(self.hits / self.scored, self.scored) if self.scored else None

    def __str__(self) -> str:
        """In per cent, with the interval, and with the coverage where it is not complete."""
        if self.share is None or self.interval is None:
            return f"- ({self.n} unscored)"
        low, high = self.interval
        coverage = "" if self.scored == self.n else f", {self.scored} of {self.n}"
        return f"{self.share * 100:.2f} ({low * 100:.1f} to {high * 100:.1f}{coverage})"

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON; shares from 0 to 1."""
        low, high = self.interval or (None, None)
        return {
            "share": self.share, "ci_low": low, "ci_high": high, "hits": self.hits, "scored": self.scored, "n": self.n
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a line per model, a figure per column; absent where the run has no such answers.

    Attributes:
        title: What it shows, with the number that it has in the paper.
        columns: Headings of the figures.
        lines: Figures by model and heading.
    """

    title: str
    columns: tuple[str, ...]
    lines: Mapping[str, Mapping[str, PaperCell]]

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "models": {
                model: {name: cell.to_json() for name, cell in cells.items()} for model, cells in self.lines.items()
            },
        }


_BY_NOISE: Final = {
    "noise_robustness": "Noise robustness (table 1): accuracy by noise",
    "information_integration": "Information integration (table 5): accuracy by noise",
}


def tables(store: Store, run: Run) -> tuple[Table, ...]:
    """Lay a run's RGB scores out as the paper does; a testbed and its refined version count apart.

    Args:
        store: The store of the run.
        run: The run, evaluated with the suite ``rgb``.

    Raises:
        UsageError: The run has no scores of RGB's cases.
    """
    with open_run(store, run, read_only=True) as connection:
        lines = records(connection, sql("rgb/rows"))
    if not lines:
        raise UsageError(
            f"Run {run.id} has no scores of RGB's test cases.",
            hint="Make them with leadline data rgb build, and evaluate the answers with --suite rgb.",
            code=ErrorCode.RGB_RESULTS,
        )
    found = [_noise_table(lines, task, title) for task, title in _BY_NOISE.items()]
    found.insert(1, _rejection(lines))
    found.append(_counterfactual(lines))
    return tuple(table for table in found if table.lines)


def _noise_table(lines: Sequence[Mapping[str, Any]], task: str, title: str) -> Table:
    mine = [line for line in lines if line["task"] == task and line["metric"] == "accuracy"]
    return _table(title, [(f"{line['testbed']} {percent(line['noise'])}", line) for line in mine])


def _rejection(lines: Sequence[Mapping[str, Any]]) -> Table:
    mine = [line for line in lines if line["task"] == "negative_rejection" and line["metric"] == "rejection_rate"]
    return _table("Negative rejection (table 3)", [(f"{line['testbed']} Rej", line) for line in mine])


def _counterfactual(lines: Sequence[Mapping[str, Any]]) -> Table:
    names = {
        ("closed_book", "accuracy"): "Acc",
        ("counterfactual_robustness", "accuracy"): "Acc_doc",
        ("counterfactual_robustness", "error_detection_rate"): "ED",
        ("counterfactual_robustness", "error_correction_rate"): "CR",
    }
    order = list(names.values())
    mine = [(names[key], line) for line in lines if (key := (line["task"], line["metric"])) in names]
    mine.sort(key=lambda each: (each[1]["testbed"], order.index(each[0])))
    return _table(
        "Counterfactual robustness (table 7): accuracy without and with the documents, errors detected and corrected",
        [(f"{line['testbed']} {name}", line) for name, line in mine],
    )


def _table(title: str, cells: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    out: dict[str, dict[str, PaperCell]] = {}
    for column, line in cells:
        out.setdefault(line["model_key"], {})[column] = PaperCell(line["hits"], line["scored"], line["n"])
    return Table(title, tuple(dict.fromkeys(column for column, _ in cells)), out)


def percent(noise: float | None) -> str:
    """Return a noise level as the tables show it."""
    return "without documents" if noise is None else f"{noise * 100:g} %"
