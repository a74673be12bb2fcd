"""Displays of a run for notebooks: its progress, the report's first screen, a case in full, a forest plot of means."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError, visible
from leadline.flows.shared.job import reporting
from leadline.tasks.ground.numbers import figure
from leadline.tasks.ground.templating import render
from leadline.tasks.runs.show import case
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from leadline.flows.evaluate.config import EvaluateResult
    from leadline.flows.shared.job import ProgressEvent


HERE: Final = "leadline.api"
MOST_MEANS: Final = 12
"""Means that the screen shows; the others are counted."""


def first_screen(store: Store, outcome: EvaluateResult, aggregates: DataFrame) -> str:
    """Return the first screen as HTML that stands alone: no scripts, no addresses, all texts escaped."""
    run = store.run(outcome.run)
    store.fetch_results(run)
    summary = json.loads((run.results / "report.json").read_text(encoding="utf-8"))["summary"]
    primary = aggregates[aggregates["primary"] & (aggregates["n_scored"] > 0)]
    return render(
        HERE,
        "first_screen.html",
        run=outcome.run,
        gate=outcome.gate,
        counted=outcome.gate_counted,
        summary=summary,
        worst=[problem | {"look": _look(problem["example"])} for problem in summary["worst"]],
        means=[_mean(line) for line in primary.head(MOST_MEANS).to_dict("records")],
        more=max(0, len(aggregates) - len(primary.head(MOST_MEANS))),
        report=outcome.report_url or str(outcome.report),
    )


def _look(example: Mapping[str, Any] | None) -> str:
    """Return the call that shows the answer which shows a problem best."""
    return f"result.show({example['case']!r}, {example['model']!r})" if example else ""


def label_of(evaluator: str, metric: str) -> str:
    """Return what a metric is called on a screen: with its evaluator where its own name does not say that."""
    return metric if metric.startswith(evaluator) else f"{evaluator} {metric}"


def _mean(line: Mapping[Any, Any]) -> dict[str, str]:
    evaluator, metric = str(line["evaluator"]), str(line["metric"])
    bounds = (line["ci_low"], line["ci_high"])
    known = all(bound == bound for bound in bounds)
    return {
        "label": label_of(evaluator, metric),
        "model": str(line["model"]),
        "value": figure(line["value"]),
        "interval": " to ".join(map(figure, bounds)) if known else "",
        "scored": f"{line['n_scored']:,}",
        "verdict": line["verdict"] if isinstance(line["verdict"], str) else "",
    }


INCHES_PER_MEAN: Final = 0.32
_SPREAD: Final = 0.6
"""Share of a metric's row over which its models are spread."""


def forest_plot(aggregates: DataFrame, metrics: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw means with their intervals.

    Args:
        aggregates: Means, with the columns of :data:`leadline.tasks.publish.exports.published_tables.AGGREGATES`.
        metrics: Keys of metrics or ids of evaluators; by default the primary metric of each evaluator.
        ax: Where to draw; a figure of its own by default.

    Raises:
        UsageError: matplotlib is not installed, or nothing was scored that could be drawn.
    """
    lines = _chosen(aggregates, metrics)
    pyplot = _pyplot()
    labels = list(dict.fromkeys(zip(lines["evaluator"], lines["metric"], strict=True)))
    models = list(dict.fromkeys(lines["model"]))
    if ax is None:
        height = 0.9 + INCHES_PER_MEAN * max(len(lines), len(labels) + 1)
        _, ax = pyplot.subplots(figsize=(7.5, height), layout="constrained")
    places = {label: place for place, label in enumerate(labels)}
    for number, model in enumerate(models):
        shift = _SPREAD * ((number + 0.5) / len(models) - 0.5)
        own = lines[lines["model"] == model]
        at = [places[label] + shift for label in zip(own["evaluator"], own["metric"], strict=True)]
        reach = [own["value"] - own["ci_low"], own["ci_high"] - own["value"]]
        sides = [side.clip(lower=0).fillna(0) for side in reach]
        ax.errorbar(own["value"], at, xerr=sides, fmt="o", capsize=3, label=_plain(model))
    for label, threshold in {label: _threshold(lines, label) for label in labels}.items():
        if threshold == threshold:  # not NaN
            ax.plot([threshold] * 2, [places[label] - 0.42, places[label] + 0.42], color="0.5", linestyle=":")
    ax.set_yticks(range(len(labels)), [_plain(label_of(*label)) for label in labels])
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlabel("mean with 95 % interval; dotted: threshold")
    ax.grid(axis="x", alpha=0.3)
    if len(models) > 1:
        ax.legend(title="model", fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
    else:
        ax.set_title(_plain(models[0]), fontsize="medium")
    return ax


def _chosen(aggregates: DataFrame, metrics: Sequence[str] | None) -> DataFrame:
    scored = aggregates[aggregates["value"].notna()]
    if metrics is None:
        lines = scored[scored["primary"]]
    else:
        both = scored["evaluator"] + "." + scored["metric"]
        lines = scored[scored["metric"].isin(metrics) | scored["evaluator"].isin(metrics) | both.isin(metrics)]
    if lines.empty:
        raise UsageError(
            "There is no mean to draw.",
            hint="Look at result.aggregates for what was measured, and at result.problems for what was not.",
            code=ErrorCode.CONFIG_OPTION,
        )
    return lines


def _threshold(lines: DataFrame, label: tuple[str, str]) -> float:
    evaluator, metric = label
    return float(lines[(lines["evaluator"] == evaluator) & (lines["metric"] == metric)]["threshold"].iloc[0])


def _plain(text: str) -> str:
    """Return a text that matplotlib does not take for a formula."""
    return text[:60].replace("$", r"\$")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError(
            "Plots need matplotlib, which is not installed.",
            hint="Install it: pip install 'leadline[plot]'",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from None
    return pyplot


@dataclass(frozen=True)
class ShownCase:
    """A case; a notebook shows it as a page, ``print`` as text.

    Attributes:
        values: All that is known of it, as ``leadline show RUN --case KEY --json`` prints it.
    """

    values: Mapping[str, Any]

    @property
    def answers(self) -> Sequence[Mapping[str, Any]]:
        """The models' answers, each with its scores."""
        answers: Sequence[Mapping[str, Any]] = self.values["answers"]
        return answers

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return render(
            HERE,
            "case.html",
            case=self.values,
            texts=_texts_of_case(self.values),
            answers=[
                {
                    "model": answer["model"],
                    "texts": _texts_of_answer(answer),
                    "scores": [_score(score) for score in answer["scores"]],
                }
                for answer in self.answers
            ],
        )

    def _lines(self) -> Iterator[str]:
        yield visible(f"Case {self.values['case_key']} (run {self.values['run']})")
        yield from _labelled(_texts_of_case(self.values))
        for answer in self.answers:
            yield f"\n{visible(answer['model'])}"
            yield from _labelled(_texts_of_answer(answer))
            for score in map(_score, answer["scores"]):
                told = (score["label"], score["value"], score["verdict"], score["why"])
                yield visible("  " + "  ".join(part for part in told if part))


def shown_case(store: Store, run: Run, key: str, model: str | None = None) -> ShownCase:
    """Return a case of a run.

    Raises:
        UsageError: The run's dataset has no such case, or nothing of this model on it.
    """
    found = case(store, run, key)
    if model is not None:
        known = [answer["model"] for answer in found["answers"]]
        if model not in known:
            raise UsageError(
                f"Model {model!r} did not answer case {key!r}.",
                hint=f"Its models: {', '.join(known)}.",
                code=ErrorCode.DATA_NO_MODEL,
            )
        found = found | {"answers": [answer for answer in found["answers"] if answer["model"] == model]}
    return ShownCase(found)


def _texts_of_case(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    texts = [("Question", values["question"]), *(("Expected", each) for each in values["expected_answers"])]
    return [(label, text) for label, text in (*texts, ("Condition", values["condition"])) if text is not None]


def _texts_of_answer(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    chunks = [(f"Context {number}", each["content"]) for number, each in enumerate(answer["retrieved_context"], 1)]
    texts = [("Answer", answer["actual_answer"]), ("Error", answer["error"]), *chunks]
    return [(label, text) for label, text in texts if text is not None]


def _labelled(texts: Sequence[tuple[str, str]]) -> Iterator[str]:
    for label, text in texts:
        yield f"{label:<10}" + f"\n{'':<10}".join(visible(line) for line in text.splitlines() or [""])


def _score(score: Mapping[str, Any]) -> dict[str, str]:
    """Return a score in words; what it rests on in one line."""
    evidence = score.get("evidence") or {}
    flags = [flag["message"] for flag in score.get("flags") or []]
    why = [score["reason"], score.get("error"), evidence.get("message"), *flags]
    verdict = "" if score["passes"] is None else "pass" if score["passes"] else "fail"
    trial = f" (trial {score['trial']})" if score["trial"] else ""
    return {
        "label": label_of(score["evaluator"], score["metric"]) + trial,
        "value": "" if score["value"] is None else figure(score["value"]),
        "threshold": "" if score["threshold"] is None else figure(score["threshold"]),
        "verdict": score["status"].replace("_", " ") if score["value"] is None else verdict,
        "why": " · ".join(str(each) for each in why if each),
    }


class NotebookBars:
    """Draws a bar per lane, and names the step that runs, in one output of a cell; nothing remains of it at the end.

    The output is HTML that the notebook itself replaces, so that no widgets need be installed.
    """

    def __init__(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._html = ipython.HTML
        self._lanes: dict[str, tuple[int, int]] = {}
        self._step = ""
        self._lock = Lock()
        self._shown = ""
        self._handle: Any = ipython.display(self._html(""), display_id=True)

    def __call__(self, event: ProgressEvent) -> None:
        """Draw what an event says; a bar is drawn anew with each whole percent."""
        with self._lock:
            if event.lane:
                self._lanes[f"{event.step}: {event.lane}"] = (event.done, event.total)
            else:
                self._step = "" if event.done else event.step
            text = "".join(self._lines())
            if text != self._shown and self._handle is not None:
                self._shown = text
                self._handle.update(self._html(text))

    def _lines(self) -> Iterator[str]:
        for name, (done, total) in self._lanes.items():
            percent = 100 * done // max(1, total)
            yield (
                f'<div>{html.escape(name)} <progress max="100" value="{percent}" style="vertical-align: middle">'
                f"</progress> {percent} % of {total:,}</div>"
            )
        if self._step:
            yield f"<div>{html.escape(self._step)} …</div>"

    def close(self) -> None:
        """Take the bars away."""
        with self._lock:
            if self._handle is not None:
                self._handle.update(self._html(""))


@contextmanager
def shown(progress: bool | None) -> Iterator[None]:
    """Show the progress of the runs within the block.

    Args:
        progress: Whether to; by default in notebooks and on terminals.
    """
    with ExitStack() as drawn:
        if progress is not False and in_notebook():
            bars = NotebookBars()
            drawn.callback(bars.close)
            drawn.enter_context(reporting(bars))
        elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            from leadline.flows.command.running import Bars, terminal_bars

            drawn.enter_context(reporting(Bars(drawn.enter_context(terminal_bars()))))
        yield


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which shows HTML; no terminal's IPython is."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
