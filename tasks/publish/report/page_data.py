"""The cases that the page can show: chosen within a budget, and packed as columns."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import jsonio
from leadline.tasks.db.statements import sql
from leadline.tasks.publish.reuse import RowsFiles
from leadline.tasks.publish.views import Facts, MetricView, PublishedFinding, number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

BUDGET: Final = 24_000_000
"""Bytes of text and scores that the page contains before compression."""
MAX_PACKED: Final = 18_000_000
"""Characters that they may take in the page; where text does not compress the budget is lowered to fit."""
MOST_NAMED: Final = 40
"""Labels that stand for the annotations of a data item."""
FILE: Final = "page_cases.json"
"""The file of a run with the packed cases of its page; a later run with the same results copies it."""
MAX_CASES: Final = 20_000
MAX_FLIPS: Final = 2_000
MAX_PROBLEMS: Final = 2_000
MAX_ROWS_OF_PROBLEM: Final = 200


@dataclass(frozen=True, slots=True)
class PageData:
    """The single cases in the page.

    Attributes:
        packed: JSON, compressed with gzip, as base64.
        n_cases: Cases in it.
        n_rows: Answers in it.
        n_flips: Pairs in it.
        n_problems: Problems in it.
    """

    packed: str
    n_cases: int
    n_rows: int
    n_flips: int
    n_problems: int


def kept_page_data(connection: DuckDBPyConnection, facts: Facts, kept: RowsFiles) -> PageData:
    """Return the packed cases, copied from an earlier run with the same results where there is one.

    Args:
        connection: The run's database.
        facts: The run.
        kept: The files of rows of earlier runs.
    """
    parts = {
        "inputs": kept.inputs,
        "models": [(model.id, model.key, model.label) for model in facts.models],
        "evaluators": [(evaluator.id, evaluator.key, evaluator.short) for evaluator in facts.evaluators],
        "metrics": [
            (metric, evaluator.label(metric)) for evaluator in facts.evaluators for metric in evaluator.metrics
        ],
        "problems": facts.problems[:MAX_PROBLEMS],
        "flips": connection.execute(sql("publish/flips_digest")).fetchall(),
    }
    content = kept.remember(FILE, parts, lambda: jsonio.dump(page_data(connection, facts)))
    return PageData(**jsonio.load(content.decode()))


def page_data(connection: DuckDBPyConnection, facts: Facts, *, budget: int | None = None) -> PageData:
    """Choose the cases and pack them; the page's scripts read the result.

    Args:
        connection: The run's database.
        facts: What the run found.
        budget: Bytes of text and scores before compression, :data:`BUDGET` if not given.
    """
    budget = BUDGET if budget is None else budget
    while True:
        data = _pack(connection, facts, budget)
        if len(data.packed) <= MAX_PACKED or data.n_cases == 0:
            return data
        budget = budget // 2


def _pack(connection: DuckDBPyConnection, facts: Facts, budget: int) -> PageData:
    _choose(connection, budget)
    metrics = [metric for evaluator in facts.evaluators for metric in evaluator.metrics if not metric.dataset_level]
    models = {model.id: position for position, model in enumerate(facts.models)}
    evaluators = {evaluator.id: position for position, evaluator in enumerate(facts.evaluators)}
    positions = {metric.id: position for position, metric in enumerate(metrics)}
    cases = _cases(connection)
    rows, chunks = _rows(connection, {case["id"]: n for n, case in enumerate(cases)}, models)
    at = {row_id: position for position, row_id in enumerate(rows["id"])}
    flips = _flips(connection, positions, models)
    problems = [_problem(item, at, models, evaluators) for item in facts.problems[:MAX_PROBLEMS]]
    data = {
        "models": [{"key": model.key, "label": model.label} for model in facts.models],
        "evaluators": [{"key": evaluator.key, "name": evaluator.short} for evaluator in facts.evaluators],
        "metrics": [_metric(facts, metric, evaluators) for metric in metrics],
        "cases": cases,
        "rows": rows,
        "chunks": chunks,
        "scores": _scores(connection, positions, at),
        "trials": _trials(connection, positions, at),
        "unscored": _unscored(connection, evaluators, at),
        "evidence": _evidence(connection, evaluators, at),
        "flipped": [row_id for (row_id,) in connection.execute(sql("publish/flipped_rows")).fetchall()],
        "flips": flips,
        "problems": problems,
    }
    return PageData(
        packed=base64.b64encode(gzip.compress(jsonio.dump_plain(data), compresslevel=4, mtime=0)).decode("ascii"),
        n_cases=len(cases),
        n_rows=len(at),
        n_flips=len(flips),
        n_problems=len(problems),
    )


def _choose(connection: DuckDBPyConnection, budget: int) -> None:
    """Fill the table ``page_cases``. A case that does not fit any more makes room for smaller ones."""
    chosen: list[int] = []
    cursor = connection.execute(sql("publish/page_ranking"))
    while lines := cursor.fetchmany(10_000):
        for case_id, size in lines:
            if size <= budget and len(chosen) < MAX_CASES:
                chosen.append(case_id)
                budget -= size
    connection.execute("CREATE OR REPLACE TEMP TABLE page_cases AS SELECT unnest(?::UINTEGER[]) AS case_id", [chosen])


def _labels(column: str) -> str:
    """Return the SQL of the labels of a column of annotations."""
    values = f"json_extract_string({column}, '$[*].labels[*].value')"
    more = f"if(len({values}) > {MOST_NAMED}, ', …', '')"
    return (
        f"CASE WHEN {column} = '[]' THEN '(nothing)' "
        f"WHEN {column} IS NOT NULL THEN array_to_string({values}[:{MOST_NAMED}], ', ') || {more} END"
    )


def _cases(connection: DuckDBPyConnection) -> list[dict[str, Any]]:
    labels = _labels("expected_annotations")
    cursor = connection.execute(sql("publish/page_cases").format(labels=labels))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def _rows(
    connection: DuckDBPyConnection, cases: dict[int, int], models: dict[int, int]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the rows as columns, and the texts of the context's chunks, each once."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("id", "case", "model", "answer", "error", "duration", "cost", "context")
    }
    chunks: dict[str, int] = {}
    for row_id, case, model, answer, error, duration, cost, context in connection.execute(
        sql("publish/page_rows").format(labels=_labels("predicted_annotations"))
    ).fetchall():
        values = (row_id, cases[case], models[model], answer, error, number(duration), number(cost))
        for name, value in zip(rows, values, strict=False):
            rows[name].append(value)
        rows["context"].append(
            [[chunks.setdefault(c["content"] or "", len(chunks)), c["doc_uri"]] for c in context or ()]
        )
    return rows, list(chunks)


def _metric(facts: Facts, metric: MetricView, evaluators: dict[int, int]) -> dict[str, Any]:
    evaluator = facts.evaluator(metric.evaluator_id)
    return {
        "key": metric.key,
        "name": metric.name,
        "label": evaluator.label(metric) if evaluator else metric.name,
        "e": evaluators[metric.evaluator_id],
        "hib": metric.higher_is_better,
        "threshold": number(metric.threshold),
        "primary": metric.primary,
        "share": metric.share,
    }


def _scores(connection: DuckDBPyConnection, metrics: dict[int, int], at: dict[int, int]) -> list[list[Any]]:
    """Return a column per metric: a number, or null where there is none."""
    import numpy as np

    found: Mapping[str, Any] = connection.execute(sql("publish/page_scores")).fetchnumpy()
    known = np.isin(found["metric_id"], list(metrics)) & np.isin(found["row_id"], list(at))
    value = found["value"][known]
    item = value.astype(object)
    infinite = ~np.isfinite(value)
    item[infinite] = [number(value) for value in value[infinite].tolist()]
    columns = np.full((len(metrics), len(at)), None)
    columns[_numbered(metrics, found["metric_id"][known]), _numbered(at, found["row_id"][known])] = item
    lists: list[list[Any]] = columns.tolist()
    return lists


def _numbered(positions: Mapping[int, int], ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the position of each id."""
    import numpy as np

    every = np.fromiter(positions, np.int64, len(positions))
    order = np.argsort(every)
    at = np.fromiter(positions.values(), np.int64, len(positions))
    return at[order[np.searchsorted(every, ids, sorter=order)]]


def _short(value: float) -> float:
    """Six significant digits are what a reader can use; the exact value is in ``scores.parquet``."""
    return float(f"{value:.6g}")


def _trials(
    connection: DuckDBPyConnection, metrics: dict[int, int], at: dict[int, int]
) -> dict[int, dict[int, list[Any]]]:
    """Return the score of each trial by row and metric, where there were several."""
    found: dict[int, dict[int, list[Any]]] = {}
    for metric, row_id, values in connection.execute(sql("publish/page_trials")).fetchall():
        if metric in metrics and row_id in at:
            scores = [None if value is None else number(_short(value)) for value in values]
            found.setdefault(at[row_id], {})[metrics[metric]] = scores
    return found


def _unscored(
    connection: DuckDBPyConnection, evaluators: dict[int, int], at: dict[int, int]
) -> dict[int, dict[int, str]]:
    found: dict[int, dict[int, str]] = {}
    for evaluator, row_id, reason in connection.execute(sql("publish/page_unscored")).fetchall():
        if row_id in at:
            found.setdefault(at[row_id], {})[evaluators[evaluator]] = reason
    return found


def _evidence(
    connection: DuckDBPyConnection, evaluators: dict[int, int], at: dict[int, int]
) -> dict[int, list[list[Any]]]:
    """Return per row: [evaluator, message, spans, data, error]."""
    found: dict[int, list[list[Any]]] = {}
    for evaluator, row_id, text, error in connection.execute(sql("publish/page_evidence")).fetchall():
        if row_id not in at or evaluator not in evaluators:
            continue
        value = _object(text)
        spans = [span for span in _list(value.get("spans")) if _is_span(span)]
        entry = [evaluators[evaluator], str(value.get("message") or ""), spans, value.get("data") or None, error]
        found.setdefault(at[row_id], []).append(entry)
    return found


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = jsonio.load(text) if text else {}
    except ValueError:
        return {"message": "The evidence of this row cannot be read."}
    return value if isinstance(value, dict) else {"data": value}


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _is_span(span: Any) -> bool:
    return isinstance(span, dict) and all(type(span.get(edge)) is int for edge in ("start", "end"))


def _flips(connection: DuckDBPyConnection, metrics: dict[int, int], models: dict[int, int]) -> list[dict[str, Any]]:
    lines = connection.execute(sql("publish/page_flips").format(limit=MAX_FLIPS)).fetchall()
    return [
        {
            "metric": metrics[metric],
            "model": models[model],
            "cases": [original, perturbed],
            "rows": [original_row, perturbed_row],
            "values": [number(_short(before)), number(_short(after))],
            "direction": direction,
            "how": how,
        }
        for metric, model, original, perturbed, original_row, perturbed_row, before, after, direction, how in lines
        if metric in metrics and model in models
    ]


def _problem(
    item: PublishedFinding, at: dict[int, int], models: dict[int, int], evaluators: dict[int, int]
) -> dict[str, Any]:
    return {
        "severity": item.severity,
        "type": item.type,
        "instrument": item.instrument,
        "evaluator": None if item.evaluator_id is None else evaluators.get(item.evaluator_id),
        "model": None if item.model_id is None else models.get(item.model_id),
        "description": item.description,
        "actions": item.actions,
        "n": len(item.row_ids),
        "rows": _in_page(item.row_ids, at),
    }


def _in_page(row_ids: Sequence[int], at: dict[int, int]) -> list[int]:
    return [row_id for row_id in row_ids if row_id in at][:MAX_ROWS_OF_PROBLEM]
