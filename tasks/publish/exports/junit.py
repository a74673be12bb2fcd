"""``junit.xml``: a test case per model and metric that the policy says must or should hold, in a suite per evaluator.

Metrics that are information are no tests. A metric that fails by the policy is a failure. An instrument that could not
measure is an error, so that CI shows the two apart. A metric whose rows lack an input is skipped, and so is one that
too few rows can decide. The suite ``changes`` has a test case per model: whether it is worse than in the baseline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from leadline.evaluators.core.jsonio import clean
from leadline.evaluators.core.text import count
from leadline.tasks.numbers import bound, figure, percent
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import Aggregate, EvaluatorView, Facts, MetricView, ModelView

FAILING_ROWS: Final = "failing_rows"
"""Kind of the problem that names the rows which fail a metric that must hold."""
_MOST_CASES: Final = 10

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
        lines = results.connection.execute("SELECT metric_id, min_rows FROM rules").fetchall()
        _write(Tests(results.facts, dict(lines)), folder / "junit.xml")


@dataclass(frozen=True, slots=True)
class Tests:
    """A run as tests.

    Attributes:
        facts: The run.
        min_rows: By metric, the least number of scored rows that can fail it.
    """

    facts: Facts
    min_rows: Mapping[int, int]

    @property
    def certain(self) -> bool:
        """True if a metric passes only where its whole interval is on the good side of its threshold."""
        policy = self.facts.record.get("policy")
        return isinstance(policy, Mapping) and bool(policy.get("certain"))


def _write(tests: Tests, path: Path) -> None:
    root = Element("testsuites", name=_xml(tests.facts.title))
    suites = [_suite(tests, evaluator) for evaluator in tests.facts.evaluators]
    root.extend(suite for suite in (*suites, _changes(tests.facts)) if len(suite))
    for total in ("tests", "failures", "errors"):  # the schema knows no "skipped" here
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", "0")
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(tests: Tests, evaluator: EvaluatorView) -> Element:
    suite = _empty_suite(tests.facts, evaluator.key)
    for metric in evaluator.metrics:
        for model in tests.facts.models if metric.role != "information" else ():
            case = _case(suite, f"{model.key} · {metric.key}")
            _judge(case, tests, evaluator, metric, model)
    if not evaluator.metrics and evaluator.error:
        _outcome(_case(suite, "run"), "error", "evaluator_error", evaluator.error)
    return _counted(suite)


def _changes(facts: Facts) -> Element:
    """Return the suite that says of each model whether it is worse than in the baseline."""
    suite = _empty_suite(facts, "changes")
    for model in facts.changes.models if facts.changes else ():
        case = _case(suite, f"{model.model} · regression")
        cases = ", ".join(row.case for row in model.broken[:_MOST_CASES])
        broken = f" Newly broken: {cases}{' …' if model.n_broken > _MOST_CASES else ''}." if cases else ""
        text = f"{model.in_words}. {model.reason}{broken}"
        if model.verdict == "fail":
            _outcome(case, "failure", "regression", text)
        elif model.verdict == "inconclusive":
            _outcome(case, "skipped", "", text)
        else:
            SubElement(case, "system-out").text = _xml(text)
    return _counted(suite)


def _empty_suite(facts: Facts, name: str) -> Element:
    suite = Element("testsuite", name=_xml(name))
    if started := _started(facts):
        suite.set("timestamp", started)
    return suite


def _case(suite: Element, name: str) -> Element:
    return SubElement(suite, "testcase", classname=suite.get("name", ""), name=_xml(name), time="0")


def _counted(suite: Element) -> Element:
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


def _judge(case: Element, tests: Tests, evaluator: EvaluatorView, metric: MetricView, model: ModelView) -> None:
    found = tests.facts.aggregates.get((metric.id, model.id))
    if evaluator.error:
        _outcome(case, "error", "evaluator_error", evaluator.error)
    elif found is None or found.n_scored + found.n_unscored == 0:
        _outcome(case, "skipped", "", "No row of this model has the inputs that the metric needs.")
    elif found.n_scored == 0:
        _outcome(
            case, "error", "unscored", f"None of {count(found.n_unscored, 'row')} could be scored: {_reasons(found)}."
        )
    elif found.verdict == "fail":
        _fail(case, tests, metric, model, found)
    elif found.verdict == "inconclusive":
        _doubt(case, tests, metric, model, found)


def _fail(case: Element, tests: Tests, metric: MetricView, model: ModelView, found: Aggregate) -> None:
    text = _sentence(metric, model, found) + _failing_cases(tests.facts, metric, model)
    least = tests.min_rows.get(metric.id, 1)
    if found.n_scored < least:
        _outcome(case, "skipped", "", f"Too few rows for a decision: the policy asks for {least:,}. {text}")
    else:
        _outcome(case, "failure", metric.role, text)


def _failing_cases(facts: Facts, metric: MetricView, model: ModelView) -> str:
    """Return the failing cases of a metric that must hold, as its problem names them."""
    problems = (p for p in facts.problems if (p.metric_id, p.model_id, p.kind) == (metric.id, model.id, FAILING_ROWS))
    rows = next((problem.row_ids for problem in problems), ())
    cases = [facts.rows[row][0] for row in rows[:_MOST_CASES] if row in facts.rows]
    return f" Failing: {', '.join(cases)}{' …' if len(rows) > _MOST_CASES else ''}." if cases else ""


def _doubt(case: Element, tests: Tests, metric: MetricView, model: ModelView, found: Aggregate) -> None:
    """Say why a metric cannot be decided; one on the good side passes unless the policy asks for certainty."""
    text = _sentence(metric, model, found)
    if found.n_unscored:
        unscored = count(found.n_unscored, "row is", "rows are")
        _outcome(case, "error", "inconclusive", f"{text} {unscored} unscored: {_reasons(found)}.")
    elif tests.certain or found.value is None or not metric.passes(found.value):
        _outcome(case, "skipped", "", f"Inconclusive: the interval contains the threshold. {text}")


def _sentence(metric: MetricView, model: ModelView, found: Aggregate) -> str:
    if metric.role == "must" and found.n_pass is not None:
        failed = found.n_scored - found.n_pass
        return f"{metric.name}: {failed:,} of {count(found.n_scored, 'row')} of {model.key} fail what must hold."
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
