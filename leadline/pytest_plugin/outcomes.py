"""The outcome of each test of a suite, read from the suite's run.

The answers of a model fail tests. An instrument that could not measure is an error of the set-up, and what cannot be
decided is inconclusive. Against an earlier run, what failed there too is known.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from leadline.api.failure_text import AnswerTexts, Failure, evidence_lines, failure_text
from leadline.evaluators.ground import nouns, one_line, visible
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.pytest_plugin.suite import AnswerUnderTest, SuiteCheck
from leadline.tasks.analyse.changes import ModelChange
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Role
from leadline.tasks.publish.facts import Facts, collect
from leadline.tasks.publish.policy_lines import PolicyLine, policy_lines
from leadline.tasks.runs.show import RowCheck, row_checks
from leadline.tasks.runs.show import case as show_case
from leadline.tasks.store.store import Run, Store

Status: TypeAlias = Literal["pass", "fail", "known", "error", "inconclusive", "skip"]

ROLES: Final = (Role.MUST.value, Role.SHOULD.value)
"""Roles that can fail a test, the weightiest first."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test.

    Attributes:
        status: The decision. ``error``: the instrument could not measure; ``skip``: nothing applies.
        message: Why, ``""`` for a test that passes.
        properties: What a report of the tests keeps of it: names and values.
        of: The run that it was read from.
    """

    status: Status
    message: str
    properties: tuple[tuple[str, object], ...]
    check: SuiteCheck
    of: RunOutcomes

    @property
    def calls_function(self) -> bool:
        """True if the marked function is run after the check passed."""
        return self.check.calls_function

    def told(self, chosen: Iterable[SuiteCheck]) -> Outcome:
        """Return the outcome as known where the tests of its failing answers say all of it: one answer, one failure."""
        if self.status != "fail" or self.check.kind == "case":
            return self
        cases = self.of.failing_cases(self.check)
        if not cases or not cases <= {(check.case, check.model) for check in chosen if check.suite == self.check.suite}:
            return self
        said = f"{self.message}\nThe {nouns(len(cases), 'test of its case fails', 'tests of its cases fail')}."
        return replace(self, status="known", message=said)

    def failing(self) -> Outcome:
        """Return the outcome with what is inconclusive as a failure."""
        if self.status != "inconclusive":
            return self
        return replace(self, status="fail", message=f"INCONCLUSIVE: {self.message.removeprefix('Inconclusive: ')}")

    def answer(self) -> AnswerUnderTest:
        """Return the answer that the test is about."""
        return self.of.answer(self.check)


class RunOutcomes:
    """The outcomes of the tests of a suite.

    Args:
        outcome: The suite's run.
        fail_cases: Least role of a metric that fails a case.
        against: Whether failures of the run's baseline are known.
    """

    def __init__(self, store: Store, outcome: EvaluateResult, *, fail_cases: str, against: bool) -> None:
        self._store = store
        self._run: Run = store.run(outcome.run)
        self._outcome = outcome
        self._roles = ROLES[: ROLES.index(fail_cases) + 1] if fail_cases in ROLES else ()
        self._against = against

    def of(self, check: SuiteCheck) -> Outcome:
        """Return the outcome of a test."""
        kinds = {"case": self._case, "line": self._line, "gate": self._gate}
        status, message, properties = kinds[check.kind](check)
        run = [("leadline.run", self._outcome.run), ("leadline.report", self.report)]
        return Outcome(status, visible(message), (*run, *properties), check, self)

    def failing_cases(self, check: SuiteCheck) -> frozenset[tuple[str, str]]:
        """Return the cases and models whose tests fail for the reasons of a line of the policy or the gate.

        None are returned where one of the reasons is no answer whose test fails, or one that failed before.
        """
        wanted = [(check.evaluator, check.metric, check.model), (check.evaluator, "", "")]
        lines = [
            line
            for key, line in self._lines.items()
            if line.outcome == "fail" and (check.kind == "gate" or key in wanted)
        ]
        found: set[tuple[str, str]] = set()
        for line in lines:
            key = f"{line.evaluator}.{line.metric}"
            cases = {
                (each.case, each.model)
                for of_case in self._checks.values()
                for each in of_case
                if each.failed and each.role in self._roles and (each.key, each.model) == (key, line.model)
                if not self._is_known(each) and not (each.rejudged and self._against)
            }
            if not cases:
                return frozenset()
            found |= cases
        return frozenset(found)

    @property
    def report(self) -> str:
        """The address of the run's report."""
        return run_link(self._store, self._run, self._outcome.report)

    @cached_property
    def note(self) -> str:
        """The reason that nothing could be compared with the baseline that was asked for, or ``""``."""
        changes = self._facts.changes if self._against else None
        return changes.baseline.note if changes else ""

    def answer(self, check: SuiteCheck) -> AnswerUnderTest:
        """Return the answer that a case's test is about."""
        found = self._shown(check)
        values = {f"{score['evaluator']}.{score['metric']}": score["value"] for score in found["scores"]}
        return AnswerUnderTest(check.case, check.model, _texts(found), values, self._outcome.run)

    def _case(self, check: SuiteCheck) -> tuple[Status, str, Iterable[tuple[str, object]]]:
        checks = [each for each in self._checks.get((check.case, check.model), ()) if each.role in ROLES]
        properties: list[tuple[str, object]] = [("leadline.case", check.case), ("leadline.model", check.model)]
        properties += [
            (f"leadline.{each.key}", each.value if each.value is not None else each.reason) for each in checks
        ]
        failed = [each for each in checks if each.failed and each.role in self._roles]
        unscored = [each for each in checks if each.value is None and each.role in self._roles]
        if failed:
            known = {each.key for each in failed if self._is_known(each)}
            rejudged = [each for each in failed if each.rejudged and self._against]
            status: Status = "fail"
            reasons = []
            if len(known) == len(failed):
                status, reasons = "known", [("known", f"it fails in {self._baseline} too")]
            elif len(rejudged) + len(known) == len(failed):
                status = "inconclusive"
                reasons = [("judged", f"the same answer passed in {self._baseline}: the instrument changed its mind")]
            new = [each for each in failed if each.key not in known] or failed
            text, evidence = self._text(check, new, reasons)
            return status, text, [*properties, *evidence]
        if unscored:
            first = unscored[0]
            return "error", f"{first.key} could not be measured: {self._why(check, first)}.", properties
        if not checks:
            return "skip", "No metric that the policy holds for more than information applies to this case.", properties
        return "pass", "", properties

    def _text(
        self, check: SuiteCheck, failed: list[RowCheck], reasons: Iterable[tuple[str, str]]
    ) -> tuple[str, list[tuple[str, object]]]:
        """Return a failing case in words, and its evidence as properties."""
        found = self._shown(check)
        texts = _texts(found)
        failures = [_failure(each, found) for each in failed]
        more = [*reasons, ("see", f"leadline show {self._outcome.run} --case {shlex.quote(check.case)}")]
        properties: list[tuple[str, object]] = [
            (f"leadline.{failure.key}.evidence", "; ".join(lines))
            for failure in failures
            if (lines := list(evidence_lines(failure.evidence, texts)))
        ]
        return failure_text(failures, texts, more), properties

    def _why(self, check: SuiteCheck, unscored: RowCheck) -> str:
        scores = self._shown(check)["scores"]
        errors = (score.get("error") for score in scores if score["evaluator"] == unscored.evaluator)
        said = next((one_line(str(error)) for error in errors if error), "")
        return f"{unscored.reason} ({said})" if said else str(unscored.reason)

    def _line(self, check: SuiteCheck) -> tuple[Status, str, Iterable[tuple[str, object]]]:
        line = self._lines.get((check.evaluator, check.metric, check.model))
        line = line or self._lines.get((check.evaluator, "", ""))
        if line is None:
            return "skip", "The evaluator did not run: the dataset has nothing for it.", ()
        properties = [("leadline.value", line.value), ("leadline.role", line.role)]
        if line.outcome == "not_applicable":
            return "skip", line.message, properties
        if line.outcome == "fail" and self._is_known_line(line):
            return "known", f"{line.message} It fails in {self._baseline} too, and nothing is newly broken.", properties
        return line.outcome, line.message, properties

    def _gate(self, check: SuiteCheck) -> tuple[Status, str, Iterable[tuple[str, object]]]:
        outcome = self._outcome
        properties = [
            ("leadline.gate", outcome.gate),
            ("leadline.gate_reason", outcome.gate_reason),
            ("leadline.judge_calls", outcome.judge_calls),
            ("leadline.judge_cost_usd", outcome.judge_cost_usd),
        ]
        worst = [f"    {one_line(problem)}" for problem in outcome.worst]
        message = "\n".join([outcome.gate_reason, *worst, f"report     {self.report}"])
        if outcome.gate == "fail" and self._nothing_is_new():
            return "known", f"{message}\nIt fails in {self._baseline} too, and nothing is newly broken.", properties
        return outcome.gate, message, properties

    def _nothing_is_new(self) -> bool:
        """Return whether all that fails failed in the baseline too."""
        lines = [line for line in self._lines.values() if line.outcome == "fail"]
        return bool(lines) and all(self._is_known_line(line) for line in lines)

    def _is_known(self, check: RowCheck) -> bool:
        """Return whether the case failed in the baseline too."""
        return (check.case, check.model, check.question, check.key) in self._known

    def _is_known_line(self, line: PolicyLine) -> bool:
        """Return whether a metric failed in the baseline too, is not surely worse, and no row fails anew."""
        key = f"{line.evaluator}.{line.metric}"
        model = self._model_changes.get(line.model)
        change = next((each for each in model.metrics if each.key == key), None) if model else None
        if change is None or change.verdict == "fail":
            return False
        checks = [
            each for found in self._checks.values() for each in found if (each.key, each.model) == (key, line.model)
        ]
        if checks:
            failed = [each for each in checks if each.failed]
            return bool(failed) and all(self._is_known(each) for each in failed)
        metric = next(
            (each for evaluator in self._facts.evaluators for each in evaluator.metrics if each.id == change.metric_id),
            None,
        )
        return metric is not None and change.baseline is not None and metric.passes(change.baseline) is False

    @cached_property
    def _baseline(self) -> str:
        changes = self._facts.changes
        return changes.baseline.label if changes else "the baseline"

    @cached_property
    def _model_changes(self) -> Mapping[str, ModelChange]:
        changes = self._facts.changes if self._against else None
        return {model.model: model for model in changes.models} if changes else {}

    @cached_property
    def _known(self) -> frozenset[tuple[str, str, str | None, str]]:
        """Failures of the baseline by the limits of this run: case, model of this run, question, metric."""
        changes = self._facts.changes if self._against else None
        if changes is None or changes.baseline.run is None or not changes.models:
            return frozenset()
        return frozenset(self._failed_before(self._store.run(changes.baseline.run)))

    def _failed_before(self, baseline: Run) -> Iterator[tuple[str, str, str | None, str]]:
        limits = {each.key: each for found in self._checks.values() for each in found}
        models = {change.baseline_model: model for model, change in self._model_changes.items()}
        for (case, model), found in row_checks(self._store, baseline).items():
            for each in found:
                limit = limits.get(each.key)
                if model in models and limit is not None and each.value is not None and not limit.passes(each.value):
                    yield case, models[model], each.question, each.key

    @cached_property
    def _checks(self) -> Mapping[tuple[str, str], tuple[RowCheck, ...]]:
        return row_checks(self._store, self._run)

    @cached_property
    def _decided(self) -> tuple[Facts, Mapping[tuple[str, str, str], PolicyLine]]:
        with open_run(self._store, self._run, read_only=True) as connection:
            facts = collect(connection, self._run.id, self._run.read())
            lines = list(policy_lines(connection, facts))
        return facts, {(line.evaluator, line.metric, line.model): line for line in lines}

    @property
    def _facts(self) -> Facts:
        return self._decided[0]

    @property
    def _lines(self) -> Mapping[tuple[str, str, str], PolicyLine]:
        return self._decided[1]

    def _shown(self, check: SuiteCheck) -> Mapping[str, Any]:
        """Return the answer with its texts and scores, as ``leadline show`` has them."""
        found = show_case(self._store, self._run, check.case)
        (answer,) = [each for each in found["answers"] if each["model"] == check.model]
        return {**found, **answer}


def _texts(found: Mapping[str, Any]) -> AnswerTexts:
    return AnswerTexts(
        found["actual_answer"] if found["error"] is None else f"(the model's host failed: {found['error']})",
        found["question"],
        tuple(found["expected_answers"]),
        tuple(chunk["content"] or "" for chunk in found["retrieved_context"]),
        found["condition"],
        found["messages"] or (),
    )


def _failure(check: RowCheck, found: Mapping[str, Any]) -> Failure:
    scores = [score for score in found["scores"] if score["evaluator"] == check.evaluator]
    evidence: Mapping[str, Any] = next((score["evidence"] for score in scores if score.get("evidence")), {})
    assert check.value is not None  # noqa: S101 - it failed
    return Failure(
        check.evaluator, check.metric, check.value, check.threshold, check.higher_is_better, check.role, evidence
    )
