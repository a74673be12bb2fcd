"""A run that is being published, as sections of the report and output formats see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import sql
from leadline.tasks.publish.facts import Facts, collect
from leadline.tasks.publish.report.page_data import PageData, page_data
from leadline.tasks.publish.summary import Summary, summarize
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SMALL_RUN: Final = 2_000
"""Row scores up to which a run in a folder is published in the formats that repeat every row, whether asked or not.

They are many small files, each of which takes a bucket as long as a large one.
"""


@dataclass(frozen=True)
class RunResults:
    """The results of a run.

    Attributes:
        connection: The run's database, with the views ``run_models`` and ``run_rows``.
        repeats_rows: Whether the run is published in the formats that write every row once more.
        asked: Name of a format in which it is published because the request names it.
        earlier_page: The cases in the page of an earlier run with the same findings, which show the same.
    """

    connection: DuckDBPyConnection
    facts: Facts
    repeats_rows: bool
    asked: str = ""
    earlier_page: PageData | None = None

    @cached_property
    def page_data(self) -> PageData:
        """The single cases that the page contains."""
        return self.earlier_page or page_data(self.connection, self.facts)

    @cached_property
    def summary(self) -> Summary:
        """The run in sentences."""
        return summarize(self.connection, self.facts)

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
        record: Its record (``run.json``); every key is optional.
    """
    facts = collect(connection, run.id, record)
    config = record.get("config") or {}
    asked = str(config.get("results") or "")
    small = not run.remote and count_row_scores(connection) <= SMALL_RUN
    return RunResults(connection, facts, repeats_rows=asked == "sonar" or small, asked=asked)


def count_row_scores(connection: DuckDBPyConnection) -> int:
    """Return what evaluators were asked for: their rows, those to which they do not apply included, times trials."""
    ((count,),) = connection.execute(sql("publish/row_scores")).fetchall()
    return int(count)
