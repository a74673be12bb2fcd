"""The results tree, in H2O Eval Studio's layout: a folder per evaluator with rows, leaderboards, findings and log."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.evaluators.data import Details
from leadline.evaluators.ground import count, jsonio, visible
from leadline.plugins.sonar import tree_layout
from leadline.plugins.sonar.eval_results import KIND, fits_texts, write_eval_results
from leadline.plugins.sonar.leaderboards import hardest_cases, kind, write_leaderboards
from leadline.tasks.db import Insight, Problem, sql
from leadline.tasks.db.csv_files import guarded_cell, is_guarded
from leadline.tasks.ground.templating import render
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.exports.report_json import descriptor, finding
from leadline.tasks.publish.facts import EvaluatorView, Facts, read_details, standings
from leadline.tasks.publish.run_results import RunResults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
    fragment = tree_layout.explanation(folder, "global-html-fragment", tree_layout.HTML)
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
    mimes = (tree_layout.JSON, tree_layout.CSV)
    path, table = (tree_layout.explanation(folder, "global-details", mime) for mime in mimes)
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
    archive = tree_layout.explanation(folder, "global-work-dir-archive", tree_layout.ZIP)
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
