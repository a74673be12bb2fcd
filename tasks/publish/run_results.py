"""A run that is being published, as sections of the report and output formats see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leadline.tasks.publish.facts import collect
from leadline.tasks.publish.report.page_data import PageData, kept_page_data
from leadline.tasks.publish.reuse import RowsFiles, rows_files
from leadline.tasks.publish.views import Facts
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class RunResults:
    """The results of a run.

    Attributes:
        connection: The run's database, with the views ``run_models`` and ``run_rows``.
        facts: Everything but single rows.
        kept: The files of rows that earlier runs wrote.
    """

    connection: DuckDBPyConnection
    facts: Facts
    kept: RowsFiles

    @cached_property
    def page_data(self) -> PageData:
        """The single cases that the page contains."""
        return kept_page_data(self.connection, self.facts, self.kept)

    @cached_property
    def position(self) -> Mapping[str, Mapping[int, int]]:
        """The places of models and evaluators in the page's data, by their ids."""
        return {
            "model": {model.id: place for place, model in enumerate(self.facts.models)},
            "evaluator": {evaluator.id: place for place, evaluator in enumerate(self.facts.evaluators)},
        }


def read_results(connection: DuckDBPyConnection, run: Run, record: Mapping[str, Any]) -> RunResults:
    """Read the results of a run.

    Args:
        connection: The run's database, with all tables filled and the dataset's views.
        run: The run.
        record: Its record (``run.json``); every key is optional.
    """
    facts = collect(connection, run.id, record)
    return RunResults(connection, facts, rows_files(connection, run, record.get("dataset")))
