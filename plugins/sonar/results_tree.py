"""The results tree, in H2O Eval Studio's layout: a folder per evaluator with rows, leaderboards, findings and log.

A folder of an evaluator has a folder for each explanation, and in it a folder and a ``.meta`` file for each media type.
DuckDB writes the rows with their scores without passing Python.
"""

from __future__ import annotations

import csv
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Details
from leadline.evaluators.ground import count, jsonio, visible
from leadline.tasks.db import Insight, Problem, literal, sql
from leadline.tasks.db.csv_files import guarded_cell, is_guarded, write_csv
from leadline.tasks.ground.templating import render
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.exports.report_json import descriptor, finding, metric_meta
from leadline.tasks.publish.facts import EvaluatorView, Facts, MetricView, number, read_details, standings, value_of
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


JSON: Final = "application/json"
CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"
MARKDOWN: Final = "text/markdown"
LEADERBOARD_MARKDOWN: Final = "application/vnd.h2oai-evalstudio-leaderboard.markdown"
HTML: Final = "text/html"
ZIP: Final = "application/zip"

_EXTENSIONS: Final = {
    JSON: "json",
    CSV: "csv",
    PARQUET: "parquet",
    MARKDOWN: "md",
    LEADERBOARD_MARKDOWN: "md",
    HTML: "html",
    ZIP: "zip",
}

KIND: Final = "global-llm-eval-results"
TEXT_BUDGET: Final = 100_000_000
"""Characters that the texts of all rows may take, over all evaluators of a run and before they are written in three
formats; where they take more, the files name the rows and leave their texts in the dataset."""

HARDEST: Final = 20
"""Cases that most models failed, of each evaluator."""


@register_exporter
class ResultsTree(Exporter):
    """A folder for each evaluator."""

    name = "sonar"
    files = ()
    order = 700

    def write(self, results: RunResults, folder: Path) -> None:
        """Write the folders."""
        texts = fits_texts(results.connection, results.facts)
        for evaluator in results.facts.evaluators:
            _write_evaluator(results, evaluator, folder / evaluator.folder, texts=texts)


def _write_evaluator(results: RunResults, evaluator: EvaluatorView, folder: Path, *, texts: bool) -> None:
    """Write all files of one evaluator; with ``texts`` the rows' files repeat questions, answers and contexts."""
    connection, facts = results.connection, results.facts
    folder.mkdir(parents=True)
    if evaluator.keeps_rows:
        write_eval_results(results, evaluator, folder, texts=texts)
    hardest = hardest_cases(connection, evaluator)
    write_leaderboards(facts, evaluator, folder, hardest)
    _write_details(connection, facts, evaluator, folder)
    problems = [problem for problem in facts.problems if _concerns(problem, evaluator)]
    insights = [insight for insight in facts.insights if _concerns(insight, evaluator)]
    for name, found in (("problems", problems), ("insights", insights)):
        path = folder / name / f"{name}_and_actions.json"
        jsonio.write(path, {name: [finding(facts, item, kind(evaluator)) for item in found]})
    context = {
        "facts": facts,
        "evaluator": evaluator,
        "standings": standings(facts, evaluator),
        "hardest": hardest,
        "problems": problems,
        "insights": insights,
        "unmeasured": [u for u in facts.unmeasured if u.evaluator_id == evaluator.id],
    }
    fragment = explanation(folder, "global-html-fragment", HTML)
    fragment.write_text(render(__package__ or "", "fragment.html", **context), "utf-8")
    (folder / "work").mkdir()
    (folder / "work" / "report.md").write_text(render(__package__ or "", "evaluator.md", **context), "utf-8")
    _write_log(connection, facts, evaluator, folder)
    _write_archive(folder)
    jsonio.write(folder / "result_descriptor.json", _result(facts, evaluator, folder, len(problems), len(insights)))


def _write_details(connection: DuckDBPyConnection, facts: Facts, evaluator: EvaluatorView, folder: Path) -> None:
    """Write an evaluator's details as JSON, and its values by label as CSV; nothing where there are none."""
    found = read_details(connection, evaluator.id)
    if not found:
        return
    models = {model.id: model.key for model in facts.models}
    by_model = {models[model_id]: details for model_id, details in found.items() if model_id in models}
    mimes = (JSON, CSV)
    path, table = (explanation(folder, "global-details", mime) for mime in mimes)
    jsonio.write(path, {"evaluator": evaluator.key, "models": by_model})
    lines = list(_flat(by_model))
    names = list(dict.fromkeys(name for line in lines for name in line))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        guarded = is_guarded()
        writer.writerows(
            {name: guarded_cell(value) if guarded and isinstance(value, str) else value for name, value in line.items()}
            for line in lines
        )


def _flat(by_model: Mapping[str, Details]) -> Iterator[dict[str, Any]]:
    for model, details in by_model.items():
        for line in details.get("labels", ()):
            yield {"model": model, "label_key": line["key"], "label": line["value"], **line["values"]}


def _write_log(connection: DuckDBPyConnection, facts: Facts, evaluator: EvaluatorView, folder: Path) -> None:
    started = str(facts.record.get("started") or "")
    lines = [
        f"{evaluator.name} ({evaluator.key}), configuration {evaluator.config}",
        f"row scores: {evaluator.reused} reused, {evaluator.computed} to compute",
        *([f"could not run: {evaluator.error}"] if evaluator.error else []),
    ]
    for lost in facts.unmeasured:
        if lost.evaluator_id == evaluator.id:
            lines.append(f"{count(lost.n_rows, 'row')} unscored: {lost.reason}")
    query = sql("publish/error_messages").format(
        metric_ids=", ".join(str(metric.id) for metric in evaluator.metrics) or "NULL", evaluator_id=evaluator.id
    )
    for reason, message, rows in connection.execute(query).fetchall():
        lines.append(f"{reason}, {count(rows, 'row')}: {message}")
    identity = evaluator.folder.rsplit("_", 1)[1]
    path = folder / "log" / f"explainer_run_{identity}.log"
    path.parent.mkdir()
    one_line = (re.sub(r"\s+", " ", visible(line)) for line in lines)
    path.write_text("".join(f"{started} {line}\n".lstrip() for line in one_line), "utf-8")


def _write_archive(folder: Path) -> None:
    """Zip the evaluator's files. Of the rows only the Parquet file is in it, for JSON and CSV contain the same."""
    archive = explanation(folder, "global-work-dir-archive", ZIP)
    rows = KIND.replace("-", "_")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            repeated = name.parts[0] == rows and path.suffix in (".json", ".csv")
            if path.is_file() and name.parts[0] != "global_work_dir_archive" and not repeated:
                # A fixed time, so that publishing a run again gives the same bytes.
                entry = zipfile.ZipInfo(name.as_posix(), (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                packed = path.suffix == ".parquet"  # compressed already
                entry.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                with path.open("rb") as source, zipped.open(entry, "w") as target:
                    while block := source.read(1 << 20):
                        target.write(block)


def _concerns(item: Problem | Insight, evaluator: EvaluatorView) -> bool:
    """Return whether a finding is this evaluator's, alone or with others (then ``attrs`` names them)."""
    shared = item.attrs.get("evaluator_ids")
    return item.evaluator_id == evaluator.id or (isinstance(shared, list) and evaluator.key in shared)


def _result(facts: Facts, evaluator: EvaluatorView, folder: Path, problems: int, insights: int) -> dict[str, Any]:
    explanations: dict[str, dict[str, Any]] = {}
    for meta in sorted(folder.glob("global_*/*.meta")):
        entry = explanations.setdefault(meta.parent.name, {"formats": {}})
        place = meta.with_suffix("")
        entry["formats"][place.name] = [path.relative_to(folder).as_posix() for path in sorted(place.iterdir())]
    return {
        "run": facts.run,
        "status": "failed" if evaluator.error else "finished",
        "error": evaluator.error,
        "evaluator": descriptor(evaluator),
        "reused": evaluator.reused,
        "computed": evaluator.computed,
        "problems": problems,
        "insights": insights,
        "explanations": explanations,
    }


def fits_texts(connection: DuckDBPyConnection, facts: Facts) -> bool:
    """Return whether every evaluator's files can repeat the texts of the rows.

    Args:
        facts: The run.
    """
    ((size,),) = connection.execute(sql("publish/text_size")).fetchall()
    return int(size) * max(1, sum(evaluator.keeps_rows for evaluator in facts.evaluators)) <= TEXT_BUDGET


def write_eval_results(results: RunResults, evaluator: EvaluatorView, folder: Path, *, texts: bool) -> None:
    """Write the three files of ``global-llm-eval-results``.

    Args:
        results: What the run found.
        evaluator: The evaluator whose rows are written.
        folder: The evaluator's folder.
        texts: Whether to repeat questions, answers and contexts.
    """
    connection, facts = results.connection, results.facts
    mimes = (CSV, PARQUET, JSON)
    csv, parquet, json = (explanation(folder, KIND, mime) for mime in mimes)
    frame = {**_frame(facts, evaluator), "texts": "included" if texts else "in the dataset"}
    splitter = str(facts.record.get("splitter") or "unknown")
    columns = _columns(evaluator)
    _make_rows(connection, evaluator, columns)
    _write_flat(connection, columns, csv, parquet, texts=texts)
    _write_json(connection, _json_query(evaluator, columns, splitter, texts=texts), json, frame)


def _columns(evaluator: EvaluatorView) -> dict[int, str]:
    """Return the column of each metric that rows have, quoted, by the metric's id."""
    metrics = [metric for metric in evaluator.metrics if not metric.dataset_level]
    names = _column_names([metric.key for metric in metrics])
    return {metric.id: _name(name) for metric, name in zip(metrics, names, strict=True)}


def _make_rows(connection: DuckDBPyConnection, evaluator: EvaluatorView, columns: Mapping[int, str]) -> None:
    """Create the table ``eval_rows``."""
    connection.execute(
        sql("publish/eval_rows").format(
            pivot="".join(
                f"max(value) FILTER (metric_id = {number} AND status = 'scored') AS {name},\n"
                for number, name in columns.items()
            ),
            metric_ids=", ".join(str(metric.id) for metric in evaluator.metrics) or "NULL",
            metrics="".join(f"measured.{name}, " for name in columns.values()),
            evaluator_id=evaluator.id,
        )
    )


def _write_flat(
    connection: DuckDBPyConnection, columns: Mapping[int, str], csv: Path, parquet: Path, *, texts: bool
) -> None:
    flat = sql("publish/eval_flat").format(
        texts=sql("publish/eval_flat_texts") if texts else "", metrics="".join(f"{name}, " for name in columns.values())
    )
    write_csv(connection, flat, csv)
    connection.execute(f"COPY ({flat}) TO {literal(parquet)} (FORMAT parquet, COMPRESSION zstd)")


def _json_query(evaluator: EvaluatorView, columns: Mapping[int, str], splitter: str, *, texts: bool) -> str:
    primary = evaluator.primary
    return sql("publish/eval_json").format(
        texts=sql("publish/eval_json_texts") if texts else "",
        metrics="".join(
            f"CASE WHEN isfinite({name}) THEN to_json({name}) WHEN {name} > 0 THEN to_json('Infinity')"
            f" WHEN {name} < 0 THEN to_json('-Infinity') END AS {name}, "
            for name in columns.values()
        ),
        tokenization=_text(splitter),
        primary=_text(primary.key if primary else "value"),
    )


def _write_json(connection: DuckDBPyConnection, query: str, path: Path, frame: dict[str, Any]) -> None:
    """Write ``{"results": [...], **frame}``: DuckDB writes the list, which is then wrapped."""
    rows = path.with_name(".rows.json")
    try:
        connection.execute(f"COPY ({query}) TO {literal(rows)} (FORMAT json, ARRAY true)")
        with rows.open("rb") as source, path.open("wb") as target:
            target.write(b'{"results": ')
            shutil.copyfileobj(source, target, 1 << 20)
            target.write(b"," + jsonio.dump(frame)[1:] + b"\n")
    finally:
        rows.unlink(missing_ok=True)


def _frame(facts: Facts, evaluator: EvaluatorView) -> dict[str, Any]:
    return {
        "models": [
            {"key": m.key, "name": m.name, "version": m.version, "model_type": "rag" if m.is_rag else "llm"}
            for m in facts.models
        ],
        "evaluator": descriptor(evaluator),
    }


_TAKEN: Final = frozenset(
    {
        "key", "test_case_key", "model_key", "trial", "question", "expected_answers", "expected_documents", "condition",
        "categories", "actual_answer", "retrieved_context", "duration_s", "cost_usd", "host_error", "unscored_reason",
        "result_error_message", "evidence", "row_id", "reason", "input", "corpus", "context", "expected_output",
        "actual_output", "output_condition", "actual_duration", "cost", "message", "actual_output_meta", "spans",
        "error",
    }
)  # fmt: skip


def _column_names(keys: list[str]) -> list[str]:
    """Return a column for each metric; one that would hide a field of the row gets the prefix ``metric_``."""
    taken = set(_TAKEN)
    names = []
    for key in keys:
        name = key
        while name.lower() in taken:
            name = f"metric_{name}"
        taken.add(name.lower())
        names.append(name)
    return names


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def kind(evaluator: EvaluatorView) -> str:
    """Return the explanation's type."""
    return f"global-llm-{'bool' if evaluator.board == 'bool' else 'heatmap'}-leaderboard"


def write_leaderboards(
    facts: Facts, evaluator: EvaluatorView, folder: Path, hardest: Sequence[Mapping[str, Any]]
) -> None:
    """Write the leaderboard's JSON, index and Markdown files.

    Args:
        facts: The run.
        folder: The evaluator's folder.
        hardest: The cases that most models failed.
    """
    board = kind(evaluator)
    index = explanation(folder, board, JSON)
    files = {"ALL_METRICS": "leaderboard_0.json"}
    jsonio.write(index.with_name("leaderboard_0.json"), _board(facts, evaluator.metrics))
    for position, metric in enumerate(evaluator.metrics, start=1):
        files[metric.key] = f"leaderboard_{position}.json"
        jsonio.write(index.with_name(files[metric.key]), _board(facts, (metric,)))
    jsonio.write(index, {"files": files})
    context = {
        "facts": facts,
        "evaluator": evaluator,
        "standings": standings(facts, evaluator),
        "hardest": hardest,
    }
    explanation(folder, board, MARKDOWN).write_text(render(__package__ or "", "leaderboard.md", **context), "utf-8")
    explanation(folder, board, LEADERBOARD_MARKDOWN).write_text(
        render(__package__ or "", "leaderboard_summary.md", **context), "utf-8"
    )


def hardest_cases(connection: DuckDBPyConnection, evaluator: EvaluatorView) -> list[dict[str, Any]]:
    """Return the cases that most models failed by the primary metric, hardest first."""
    primary = evaluator.primary
    if primary is None or primary.threshold is None or primary.dataset_level:
        return []
    query = sql("publish/hardest").format(
        fails=f"value {'<' if primary.higher_is_better else '>'} {primary.threshold!r}::DOUBLE"
        if abs(primary.threshold) != float("inf")
        else "false",
        metric_id=primary.id,
        limit=HARDEST,
    )
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]


def _board(facts: Facts, metrics: tuple[MetricView, ...]) -> dict[str, Any]:
    return {
        "data": {
            model.key: {metric.key: number(value_of(facts, metric, model)) for metric in metrics}
            for model in facts.models
        },
        "metadata": {metric.key: metric_meta(metric) for metric in metrics},
    }


def explanation(folder: Path, kind: str, mime: str) -> Path:
    """Return the path of an explanation's file, after making its folder and its ``.meta`` file.

    Args:
        folder: The evaluator's folder.
        kind: The explanation, e.g. ``global-llm-eval-results``.
        mime: The media type.
    """
    place = folder / re.sub(r"[^0-9A-Za-z]", "_", kind) / re.sub(r"[^0-9A-Za-z]", "_", mime)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"explanation.{_EXTENSIONS[mime]}"
    jsonio.write(
        place.with_name(f"{place.name}.meta"),
        {"explanation_type": kind, "mime": mime, "file": f"{place.name}/{path.name}"},
    )
    return path
