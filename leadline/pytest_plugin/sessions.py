"""A session of pytest, or a worker's part of one: settings, one run per suite for all processes, fixture, summary.

The first process that needs the result takes the suite's lock, evaluates, and leaves the outcome in a folder that the
session's processes share; the others wait for it. What failed is left as well, so that nobody pays for it again.

::

    [pytest]
    against = "tag:production"
    inconclusive = "skip"
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest
from filelock import FileLock
from pydantic import Field, ValidationError

from leadline.api.answer_check import AnswerFailed, check
from leadline.api.evaluation import evaluate
from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    LeadlineError,
    UsageError,
    count,
    first_refusal,
    one_line,
    settings_table,
)
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.flows.shared.form import FormModel
from leadline.pytest_plugin.outcomes import Outcome, RunOutcomes
from leadline.pytest_plugin.suite import Suite, SuiteCheck, collect_suite, located
from leadline.tasks.ground.files import write_json
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.run_sentences import calls_line, cost_line, gate_reason, work_line
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.api.result import Result


TABLE: Final = "pytest"
"""Table of ``leadline.toml``."""


def _given(config: pytest.Config, name: str) -> str:
    """Return an option of the command line, else of pytest's configuration file, else ``""``."""
    return str(config.getoption(name) or config.getini(name) or "")


class PluginSession:
    """The settings and results of a session.

    Attributes:
        name: Name under which its judge calls are put on record.

    Args:
        config: pytest's configuration.
        shared: Folder that it shares with other workers; ``None`` for a session in one process.
    """

    def __init__(self, config: pytest.Config, shared: Path | None) -> None:
        self._config = config
        self._own_folder = None if shared else tempfile.TemporaryDirectory(prefix="leadline-pytest-")
        self._folder = shared or Path(self._own_folder.name)  # type: ignore[union-attr]
        self._suites: dict[str, Suite] = {}
        self._outcomes: dict[str, RunOutcomes] = {}
        self._failed: dict[str, str] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._checks: dict[str, int] = {}
        given = {name: _given(config, f"leadline_{name}") for name in SessionSettings.model_fields}
        self.settings = session_settings({name: value for name, value in given.items() if value})
        self.name = f"pytest-{self._folder.name.removeprefix('leadline-pytest-')}"

    def suite(self, settings: Mapping[str, Any], folder: Path) -> Suite:
        """Return the tests of a function.

        Args:
            settings: Settings of its marker, with the dataset.
            folder: The folder of its file, where the dataset is looked for first.

        Raises:
            LeadlineError: The request makes no sense, or the dataset was refused.
        """
        given = {**self.settings.defaults(), **settings}
        if self.settings.against:
            given["against"] = self.settings.against
        data = located(given.pop("dataset"), folder, self._config.rootpath)
        suite = collect_suite(data, given, self._folder)
        return self._suites.setdefault(suite.key, suite)

    def outcome(self, check: SuiteCheck) -> Outcome:
        """Return the outcome of a test; the first one of its suite evaluates."""
        key = check.suite
        if key not in self._outcomes and key not in self._failed:
            suite = self._suites[key]
            found = _evaluate_once(suite, self._folder)
            if "error" in found:
                self._failed[key] = found["error"]
            else:
                outcome, store = EvaluateResult.model_validate(found["outcome"]), Store.open(found["store"])
                against = suite.settings.get("against") not in (None, "", NONE)
                read = RunOutcomes(store, outcome, fail_cases=self.settings.fail_cases, against=against)
                self.tell_run(outcome, found["store"], read.note)
                self._outcomes[key] = read
        if key in self._failed:
            pytest.fail(self._failed[key], pytrace=False)
        return self._outcomes[key].of(check)

    def tell_run(self, outcome: EvaluateResult, store: str, note: str = "") -> None:
        """Keep a run for the summary.

        Args:
            store: Location of its store.
            note: What is to be said of it besides.
        """
        opened = Store.open(store)
        self._told[outcome.run] = {
            "run": outcome.run,
            "gate": outcome.gate,
            "reason": gate_reason(outcome),
            "questions": [f"{answer.words} {answer.line}" for answer in outcome.questions],
            "report": run_link(opened, opened.run(outcome.run), outcome.report),
            "work": f"{work_line(outcome)}; {cost_line(outcome)}",
            "note": note,
        }

    def count_check(self, store: Any) -> None:
        """Count an answer that is checked by itself.

        Args:
            store: The store with the ledger of its judge calls.
        """
        location = store.location if isinstance(store, Store) else Store.open(store).location
        self._checks[location] = self._checks.get(location, 0) + 1

    def told(self) -> list[dict[str, Any]]:
        """Return what the summary says: runs, and answers that were checked by themselves."""
        checks = [{"checks": n, "store": store, "session": self.name} for store, n in self._checks.items()]
        return [*self._told.values(), *checks]


def print_summary(terminal: pytest.TerminalReporter, told: Sequence[Mapping[str, Any]]) -> None:
    """Print what the processes of a session did.

    Args:
        told: What each process has to tell; a run that several worked with is there several times.
    """
    terminal.section("leadline")
    runs = {each["run"]: each for each in told if "run" in each}
    for run in runs.values():
        terminal.write_line(f"run {run['run']}: {run['gate'].upper()}. {one_line(run['reason'])}".rstrip())
        for line in run["questions"]:
            terminal.write_line(f"  {one_line(line)}")
        terminal.write_line(f"  {run['work']}")
        if run["note"]:
            terminal.write_line(f"  {one_line(run['note'])}")
        terminal.write_line(f"  report: {run['report']}")
    for store, session in sorted({(each["store"], each["session"]) for each in told if "checks" in each}):
        checks = sum(each["checks"] for each in told if each.get("store") == store and "checks" in each)
        total = read_ledger(Store.open(store)).total(session)
        calls = calls_line(total.answered, total.cost_usd, total.unknown_price)
        terminal.write_line(f"{count(checks, 'answer')} checked; {calls}")


def _evaluate_once(suite: Suite, folder: Path) -> dict[str, Any]:
    """Evaluate a suite unless a process of the session did so already; return its outcome, or why there is none."""
    left = folder / f"{suite.key}.json"
    with FileLock(folder / f"{suite.key}.lock"):
        if not left.exists():
            write_json(left, _evaluated(suite))
        found: dict[str, Any] = json.loads(left.read_text(encoding="utf-8"))
    return found


def _evaluated(suite: Suite) -> dict[str, Any]:
    try:
        result = evaluate(suite.data, progress=False, **suite.settings)
    except LeadlineError as error:
        return {"error": f"{error.code}: {error}"}
    except Exception as error:
        return {"error": f"the evaluation failed: {type(error).__name__}: {one_line(str(error))}"}
    return {"outcome": result.outcome.model_dump(mode="json"), "store": result.store.location}


class SessionSettings(FormModel):
    """The settings of a session of pytest."""

    against: str | None = Field(None, description="Earlier run: what failed there too is known.")
    inconclusive: Literal["fail", "skip", "xfail"] = Field("fail", description="Fate of tests that cannot be decided.")
    fail_cases: Literal["should", "must", "never"] = Field(
        "should", description="Least role of a metric that fails its cases' tests."
    )
    store: str | None = Field(None, description="The store, where a test names none.")
    judge: str | None = Field(None, description="The judge, where a test names none.")

    def defaults(self) -> dict[str, Any]:
        """Return what evaluations take that name nothing else."""
        return {name: value for name in ("store", "judge") if (value := getattr(self, name))}


def session_settings(given: Mapping[str, str] | None = None) -> SessionSettings:
    """Return the settings of a session.

    Args:
        given: Those that come before the file's.

    Raises:
        UsageError: There is no such setting, or a value makes no sense.
    """
    table = settings_table(TABLE, SessionSettings.model_fields)
    for values, where in ((table, f"{FILE}, [{TABLE}]"), ({**table, **(given or {})}, "The options of pytest")):
        try:
            found = SessionSettings.model_validate(values)
        except ValidationError as error:
            raise UsageError(
                f"{where}: {first_refusal(error, SessionSettings)}.", code=ErrorCode.CONFIG_OPTION
            ) from None
    return found


class LeadlineFixture:
    """Checks answers and evaluates data with the settings of the session and of the test's marker.

    Args:
        node: The test, which gets the values as properties.
        settings: Settings of the test's marker.
    """

    def __init__(self, session: PluginSession, node: pytest.Item, settings: Mapping[str, Any]) -> None:
        self._session = session
        self._node = node
        self._settings = {name: value for name, value in settings.items() if name != "dataset"}

    def check(
        self,
        answer: str | Sequence[Any],
        *,
        question: str | None = None,
        context: Any = None,
        expected: Any = None,
        condition: str | None = None,
        **settings: Any,
    ) -> dict[str, float]:
        """Assert that an answer is good; see :func:`leadline.check`.

        Args:
            answer: A text, or the messages of a conversation.
            context: What was retrieved for the answer.
            expected: Acceptable answers.
            condition: A condition on the answer's text.
            **settings: ``metrics``, ``limits``, ``expected_tool_calls``, ``judge`` and the others; by default those of
                the marker.
        """
        __tracebackhide__ = True
        given = {**self._session.settings.defaults(), **self._settings, **settings}
        self._session.count_check(given.get("store"))
        try:
            values = check(
                answer,
                question=question,
                context=context,
                expected=expected,
                condition=condition,
                session=self._session.name,
                **given,
            )
        except AnswerFailed as failure:
            self._keep(failure.values)
            raise
        self._keep(values)
        return values

    def evaluate(self, data: Any, **settings: Any) -> Result:
        """Evaluate data; see :func:`leadline.evaluate`.

        Args:
            **settings: Those of the marker are the default.
        """
        given = {name: value for name, value in self._settings.items() if name != "limits"}
        result = evaluate(data, **{"progress": False, **self._session.settings.defaults(), **given, **settings})
        self._session.tell_run(result.outcome, result.store.location, self._node.nodeid)
        return result

    def _keep(self, values: Mapping[str, float]) -> None:
        self._node.user_properties += [(f"leadline.{name}", value) for name, value in values.items()]
