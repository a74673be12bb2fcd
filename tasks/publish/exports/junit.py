"""``junit.xml``: a test suite per evaluator, a test case per metric and model, for the test view of any CI system.

A metric that misses its threshold is a failure. An instrument that could not measure is an error, so that CI shows the
two apart. A metric whose rows lack an input, and one that cannot be decided (its interval contains the threshold), is
skipped. A metric without a threshold passes: it was measured, and nothing was asked of it.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from leadline.evaluators.core.jsonio import clean
from leadline.evaluators.core.text import count
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.numbers import bound, figure, percent
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Aggregate, EvaluatorView, Facts, MetricView, ModelView

# What XML 1.0 allows, without the controls that it merely discourages.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@register_exporter
class JUnit(Exporter):
    """The verdicts for the test view of a CI system."""

    name = "junit"
    files = ("junit.xml",)
    published = True
    order = 600

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``junit.xml``."""
        _write(results.facts, folder / "junit.xml")


def _write(facts: Facts, path: Path) -> None:
    root = Element("testsuites", name=_xml(facts.title))
    for evaluator in facts.evaluators:
        root.append(_suite(facts, evaluator))
    for total in ("tests", "failures", "errors"):  # the schema knows no "skipped" here
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", "0")
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(facts: Facts, evaluator: EvaluatorView) -> Element:
    suite = Element("testsuite", name=_xml(evaluator.key))
    if started := _started(facts):
        suite.set("timestamp", started)
    for metric in evaluator.metrics:
        for model in facts.models:
            case = SubElement(
                suite, "testcase", classname=_xml(evaluator.key), name=_xml(f"{model.key} · {metric.key}"), time="0"
            )
            _judge(case, evaluator, metric, model, facts.aggregates.get((metric.id, model.id)))
    if not evaluator.metrics and evaluator.error:
        case = SubElement(suite, "testcase", classname=_xml(evaluator.key), name="run", time="0")
        _outcome(case, "error", "evaluator_error", evaluator.error)
    suite.set("tests", str(len(suite.findall("testcase"))))
    for total, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(total, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", "0")
    return suite


def _started(facts: Facts) -> str | None:
    """The attribute is a local time without a zone, and optional."""
    try:
        moment = datetime.fromisoformat(str(facts.record.get("started")))
    except ValueError:
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def _judge(
    case: Element, evaluator: EvaluatorView, metric: MetricView, model: ModelView, found: Aggregate | None
) -> None:
    if evaluator.error:
        _outcome(case, "error", "evaluator_error", evaluator.error)
    elif found is None or found.n_scored + found.n_unscored == 0:
        _outcome(case, "skipped", "", "No row of this model has the inputs that the metric needs.")
    elif found.n_scored == 0:
        _outcome(
            case, "error", "unscored", f"None of {count(found.n_unscored, 'row')} could be scored: {_reasons(found)}."
        )
    elif found.verdict == "fail":
        _outcome(case, "failure", "threshold", _sentence(metric, model, found))
    elif found.verdict == "inconclusive":
        if found.n_unscored:
            unscored = count(found.n_unscored, "row is", "rows are")
            text = f"{_sentence(metric, model, found)} {unscored} unscored: {_reasons(found)}."
            _outcome(case, "error", "inconclusive", text)
        else:
            text = f"Inconclusive: the interval contains the threshold. {_sentence(metric, model, found)}"
            _outcome(case, "skipped", "", text)


def _sentence(metric: MetricView, model: ModelView, found: Aggregate) -> str:
    direction = "at least" if metric.higher_is_better else "at most"
    interval = "" if found.ci_low is None else f" [{figure(found.ci_low)}, {figure(found.ci_high)}]"
    asked = f"{direction} {bound(found.threshold, metric.share)} was asked"
    return (
        f"{metric.name} of {model.key} is {figure(found.value)}{interval}, {asked}"
        f" ({count(found.n_scored, 'row')} scored, coverage {percent(found.coverage)})."
    )


def _reasons(found: Aggregate) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in found.reasons.items()) or "no reason given"


def _outcome(case: Element, tag: str, kind: str, message: str) -> None:
    element = SubElement(case, tag, message=_xml(message))
    if kind:
        element.set("type", kind)


def _xml(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", clean(text))
