"""The tools of the MCP server: runs, their verdicts, problems and cases, comparisons, and SQL. None can change a thing.

Each tool reads the store anew, so a client sees runs as they end. At most :data:`AT_ONCE` read at the same time.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.plugins.mcp.bounded_reply import LONGEST_TEXT, MOST_TEXT, bounded, page
from leadline.plugins.mcp.query_process import Query, ask
from leadline.tasks.compare.engine import compare_sides
from leadline.tasks.compare.options import Margins, Options, find
from leadline.tasks.compare.report import record
from leadline.tasks.compare.run_pair import open_sides
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.runs.run_index import RunIndex, Wish
from leadline.tasks.runs.show import case as shown
from leadline.tasks.runs.show import list_cases, list_problems, overview
from leadline.tasks.store.store import Store

AT_ONCE: Final = 4
"""Tools that read at the same time; further ones wait."""

QUERY_S: Final = 20.0
"""Longest time that one query may take."""

QUERIES_AT_ONCE: Final = 2
"""Queries that run at the same time, each in a process of its own."""

QUERY_WAIT_S: Final = 60.0
"""How long a query waits for those before it."""

MOST_RUNS: Final = 200
"""Runs that one query sees at most."""

RUN_FACTS: Final = (
    "run", "name", "status", "started", "seconds", "dataset_name", "rows", "cases", "gate", "gate_reason",
    "scored", "unscored", "not_applicable", "error",
)  # fmt: skip
RECORD_FACTS: Final = ("models", "tags", "changed", "problems_by_fault")
SHOWN_INSIGHTS: Final = 10
SHOWN_CHANGES: Final = 5

RunName = Annotated[str, Field(max_length=300)]
Limit = Annotated[int, Field(ge=1, le=100)]
Offset = Annotated[int, Field(ge=0)]


@dataclass
class StoreTools:
    """The tools over one store.

    Attributes:
        store: The store.
    """

    store: Store
    _index: RunIndex = field(init=False)
    _slots: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))
    _queries: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(QUERIES_AT_ONCE))

    def __post_init__(self) -> None:
        self._index = RunIndex(self.store)

    def tools(self) -> tuple[Callable[..., dict[str, Any]], ...]:
        """Return the tools, each with its name and description."""
        return (self.runs, self.run, self.problems, self.cases, self.case, self.compare, self.sql)

    def runs(
        self, words: str = "", verdict: str = "", dataset: str = "", limit: Limit = 20, offset: Offset = 0
    ) -> dict[str, Any]:
        """List evaluation runs, newest first: verdict and its reason, dataset, models, problems by severity.

        Args:
            words: Words in a run's name, id, dataset, models or tags.
            verdict: pass, fail, inconclusive, or a status such as running or failed.
            dataset: Name of a dataset.
            limit: Runs at most.
            offset: Runs before them: next_offset of the page before.
        """
        wish = Wish(tuple(words.casefold().split()), verdict, dataset)
        found = [line for line in self._index.lines() if wish.fits(line)]
        shown = map(dataclasses.asdict, found[offset : offset + limit])
        return page(shown, offset=offset, total=len(found))

    def run(
        self, run: RunName = "latest", all_metrics: bool = False, limit: Limit = 50, offset: Offset = 0
    ) -> dict[str, Any]:
        """Show one run: the gate's verdict with its reason, counts, insights, and a page of metric values by model.

        Each value has its 95 % interval, threshold and coverage (scored and unscored rows).

        Args:
            run: A run: its id, the beginning of it, latest, latest~1 or tag:NAME.
            all_metrics: All metrics, not just the primary one of each evaluator.
            limit: Metric values at most.
            offset: Values before them: next_offset of the page before.
        """
        with self._slots:
            found = overview(self.store, find_run(self.store, run))
        facts = {name: found[name] for name in RUN_FACTS} | {name: found["record"].get(name) for name in RECORD_FACTS}
        insights = [{"type": one["type"], "description": one["description"]} for one in found["insights"]]
        board = [line for line in found["board"] if all_metrics or line["is_primary"]]
        return {
            **_facts(facts),
            "insights": bounded(insights[:SHOWN_INSIGHTS], 500),
            "metrics": page(board[offset : offset + limit], offset=offset, total=len(board)),
        }

    def problems(
        self,
        run: RunName = "latest",
        severity: Literal["high", "medium", "low"] | None = None,
        model: str | None = None,
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """List a run's problems, the most harmful first: what is wrong, what to do, the first cases it rests on.

        Problems with instrument = true are those of the measurement or the data, not of a model.

        Args:
            run: A run: its id, the beginning of it, latest, latest~1 or tag:NAME.
            severity: Only problems of this severity.
            model: Only problems of this model, by its key.
            limit: Problems at most.
            offset: Problems before them: next_offset of the page before.
        """
        found = find_run(self.store, run)
        with self._slots:
            lines, total = list_problems(self.store, found, severity=severity, model=model, limit=limit, offset=offset)
        return {"run": found.id, **page(lines, offset=offset, total=total)}

    def cases(
        self,
        run: RunName = "latest",
        evaluator: str | None = None,
        metric: str | None = None,
        model: str | None = None,
        outcome: Literal["failed", "unscored", "scored", "passed", "not_applicable"] | None = None,
        problem: Annotated[int, Field(ge=0)] | None = None,
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """List answers of a run with a metric's value and outcome, the worst first. The tool case shows one in full.

        Args:
            run: A run: its id, the beginning of it, latest, latest~1 or tag:NAME.
            evaluator: Only values of this evaluator, by its id.
            metric: Values of this metric; by default the primary one of each evaluator.
            model: Only answers of this model, by its key.
            outcome: Only this outcome; scored is a value without a threshold.
            problem: Only answers behind this problem, by its number.
            limit: Answers at most.
            offset: Answers before them: next_offset of the page before.
        """
        found = find_run(self.store, run)
        with self._slots:
            lines, total = list_cases(
                self.store, found, evaluator=evaluator, metric=metric, model=model, outcome=outcome, problem=problem,
                limit=limit, offset=offset,
            )  # fmt: skip
        return {"run": found.id, **page(lines, offset=offset, total=total)}

    def case(
        self,
        case: Annotated[str, Field(max_length=2_000)],
        run: RunName = "latest",
        model: str | None = None,
        text_length: Annotated[int, Field(ge=100, le=LONGEST_TEXT)] = MOST_TEXT,
        limit: Limit = 5,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Show one case: question, expected answers, and each model's answer with all scores and what they rest on.

        Args:
            case: Key of the case.
            run: A run: its id, the beginning of it, latest, latest~1 or tag:NAME.
            model: Only the answer of this model, by its key.
            text_length: Characters of a text at most.
            limit: Answers at most.
            offset: Answers before them: next_offset of the page before.
        """
        with self._slots:
            found = shown(self.store, find_run(self.store, run), case)
        answers = [one for one in found.pop("answers") if model in (None, one["model"])]
        return {
            **_facts(found, text_length),
            "answers": page(answers[offset : offset + limit], offset=offset, total=len(answers), most=text_length),
        }

    def compare(
        self,
        baseline: RunName,
        candidate: RunName = "latest",
        margin: Annotated[float, Field(ge=0, le=1)] = 0.05,
        metrics: Annotated[list[str], Field(max_length=50)] | None = None,
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Compare two runs case by case: is the candidate worse than the baseline, on which metrics, on which cases?

        A side may also be RUN:MODEL, one model of a run.

        Args:
            baseline: A run: its id, the beginning of it, latest, latest~1 or tag:NAME.
            candidate: The run that is held against it, named in the same way.
            margin: Worsening that is tolerated, as a share of a metric's range.
            metrics: Only these metrics, as EVALUATOR.METRIC or EVALUATOR.
            limit: Metrics at most.
            offset: Metrics before them: next_offset of the page before.
        """
        ours = find(self.store, baseline)
        theirs = find(self.store, candidate, beside=ours)
        options = Options(margins=Margins(margin, {}), metrics=tuple(metrics or ()))
        with self._slots, open_sides(self.store, ours.run, theirs.run) as connection:
            found = record(compare_sides(connection, ours, theirs, options))
        lines = [line | {"changed_rows": line["changed_rows"][:SHOWN_CHANGES]} for line in found["metrics"]]
        facts = {name: found[name] for name in ("baseline", "candidate", "verdict", "reason", "alpha", "notes")}
        return {
            **_facts(facts),
            "metrics": page(lines[offset : offset + limit], offset=offset, total=len(lines), most=500),
        }

    def sql(
        self,
        query: Annotated[str, Field(max_length=20_000)],
        runs: list[str] | None = None,
        last: Annotated[int, Field(ge=1, le=MOST_RUNS)] = 20,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Query runs with SQL, for reading only; tables have a column run.

        Tables: runs, models, cases, rows, relationships, evaluators, metrics, scores, repeats, evidence, aggregates,
        flips, flip_rates, flip_causes, baseline, model_changes, metric_changes, row_changes, problems, insights.
        DESCRIBE TABLE_NAME shows columns. Example: SELECT run, evaluator, metric, model_key, value, ci_low, ci_high
        FROM aggregates.

        Args:
            query: One DuckDB SELECT.
            runs: Only these runs; by default the youngest ones.
            last: How many of the youngest, where no runs are named.
            limit: Rows of the result at most.
            offset: Rows before them: next_offset of the page before.
        """
        if len(runs or ()) > MOST_RUNS:
            raise UsageError(f"A query sees {MOST_RUNS} runs at most.", code=ErrorCode.QUERY_TOO_MANY_RUNS)
        chosen = [find_run(self.store, name) for name in runs] if runs else self.store.runs()[-last:]
        if not self._queries.acquire(timeout=QUERY_WAIT_S):
            raise UsageError(
                f"{QUERIES_AT_ONCE} queries run and others wait.", hint="Ask again later.", code=ErrorCode.QUERY_FAILED
            )
        try:
            asked = Query(self.store.location, [run.id for run in chosen], query, limit, offset, QUERY_S)
            return {"runs": len(chosen), **ask(asked)}
        finally:
            self._queries.release()


def _facts(found: Mapping[str, Any], most: int = MOST_TEXT) -> Mapping[str, Any]:
    short = bounded(found, most)
    return short if isinstance(short, dict) else {"facts": short}
