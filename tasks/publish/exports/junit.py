"""``junit.xml``: a test case per model and metric that the policy says must or should hold, in a suite per evaluator.

Metrics that are information are no tests. A metric that fails by the policy is a failure. An instrument that could not
measure is an error, so that CI shows the two apart. A metric whose rows lack an input is skipped, and so is one that
too few rows can decide. The suite ``changes`` has a test case per model: whether it is worse than in the baseline.

A dataset of conversations has a suite per model besides, with a test case per conversation. It fails by metrics that
fail by the policy, so that no test fails where the gate passes; what the policy tolerates is told as output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from leadline.evaluators.ground import clean
from leadline.tasks.db import has_turns, records, show_row_scores, show_turn_means, sql
from leadline.tasks.ground.numbers import figure
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.policy_lines import PolicyLine, policy_lines
from leadline.tasks.publish.run_results import RunResults

_MOST_CASES: Final = 10
MOST_CONVERSATIONS: Final = 1_000
"""Conversations of a run that are test cases, those that fail first."""
_TAGS: Final = {"fail": "failure", "error": "error", "not_applicable": "skipped", "inconclusive": "skipped"}
"""Elements by the outcome of a line of the policy."""

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
        lines = list(policy_lines(results.connection, results.facts))
        talks = _conversations(results, lines) if has_turns(results.connection) else ()
        _write(results.facts, lines, talks, folder / "junit.xml")


def _write(facts: Facts, lines: Sequence[PolicyLine], talks: Iterable[Element], path: Path) -> None:
    root = Element("testsuites", name=_xml(facts.title))
    suites = [_suite(facts, name, list(found)) for name, found in groupby(lines, attrgetter("evaluator"))]
    root.extend(suite for suite in (*suites, *talks, _changes(facts)) if len(suite))
    for total in ("tests", "failures", "errors"):  # the schema knows no "skipped" here
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", "0")
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(facts: Facts, evaluator: str, lines: Sequence[PolicyLine]) -> Element:
    suite = _empty_suite(facts, evaluator)
    for line in lines:
        case = _case(suite, f"{line.model} · {line.metric}" if line.metric else "run")
        if line.outcome != "pass":
            _outcome(case, _TAGS[line.outcome], line.cause, line.message)
    return _counted(suite)


def _changes(facts: Facts) -> Element:
    """Return the suite that says of each model whether it is worse than in the baseline."""
    suite = _empty_suite(facts, "changes")
    for model in facts.changes.models if facts.changes else ():
        case = _case(suite, f"{model.model} · regression")
        cases = ", ".join(row.where for row in model.broken[:_MOST_CASES])
        broken = f" Newly broken: {cases}{' …' if model.n_broken > _MOST_CASES else ''}." if cases else ""
        text = f"{model.in_words}. {model.reason}{broken}"
        if model.verdict == "fail":
            _outcome(case, "failure", "regression", text)
        elif model.verdict == "inconclusive":
            _outcome(case, "skipped", "", text)
        else:
            SubElement(case, "system-out").text = _xml(text)
    return _counted(suite)


def _conversations(results: RunResults, lines: Sequence[PolicyLine]) -> Iterator[Element]:
    """Yield a suite per model, with a test case per conversation."""
    facts = results.facts
    failing = {(line.evaluator, line.metric, line.model) for line in lines if line.outcome == "fail"}
    show_row_scores(results.connection)
    show_turn_means(results.connection)
    found = records(results.connection, sql("publish/conversation_tests"), {"most": MOST_CONVERSATIONS})
    for model, conversations in groupby(found, itemgetter("model")):
        suite = _empty_suite(facts, f"conversations of {model}")
        for line in conversations:
            case = _case(suite, line["case"])
            for fails in (True, False):
                told = [_told(each) for each in line["failed"] if ((*each[:2], model) in failing) == fails]
                if told and fails:
                    _outcome(case, "failure", "conversation", "\n".join(told))
                elif told:
                    SubElement(case, "system-out").text = _xml("\n".join(["The policy tolerates:", *told]))
            if not line["n_scored"]:
                _outcome(case, "skipped", "", "Nothing that the policy asks was scored.")
        yield _counted(suite)


def _told(failed: tuple[str, str, str, float, int | None, str | None]) -> str:
    """Return where and why a conversation fails a metric: "PII leakage is 1, from turn 3: it contains an address"."""
    _, _, name, value, turn, why = failed
    return f"{name} is {figure(value)}{f', from turn {turn}' if turn else ''}{f': {why}' if why else ''}"


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


def _outcome(case: Element, tag: str, kind: str, message: str) -> None:
    element = SubElement(case, tag, message=_xml(message))
    if kind:
        element.set("type", kind)


def _xml(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", clean(text))
