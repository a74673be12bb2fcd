"""A session of pytest, or a worker's part of one: its settings, its suites with their runs, and what it has to tell."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.pytest_plugin.outcomes import Outcome, RunOutcomes
from leadline.pytest_plugin.session_settings import SessionSettings, session_settings
from leadline.pytest_plugin.shared_run import EvaluationFailed, evaluate_once
from leadline.pytest_plugin.suite import Suite, SuiteCheck, collect_suite, located
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.run_sentences import cost_line, gate_reason, work_line
from leadline.tasks.store.store import Store


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
        """Return the outcome of a test; the first one of its suite evaluates.

        Args:
            check: The test.
        """
        key = check.suite
        if key not in self._outcomes and key not in self._failed:
            try:
                self._outcomes[key] = self._evaluated(self._suites[key])
            except EvaluationFailed as error:
                self._failed[key] = str(error)
        if key in self._failed:
            pytest.fail(self._failed[key], pytrace=False)
        return self._outcomes[key].of(check)

    def _evaluated(self, suite: Suite) -> RunOutcomes:
        found = evaluate_once(suite, self._folder)
        against = suite.settings.get("against") not in (None, "", NONE)
        outcomes = RunOutcomes(
            Store.open(found.store), found.outcome, fail_cases=self.settings.fail_cases, against=against
        )
        self.tell_run(found.outcome, found.store, outcomes.note)
        return outcomes

    def tell_run(self, outcome: EvaluateResult, store: str, note: str = "") -> None:
        """Keep a run for the summary.

        Args:
            outcome: The run.
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
