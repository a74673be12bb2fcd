"""``leadline.sarif``: the failing rows with their places in the dataset's file, for code scanning (SARIF 2.1.0).

SARIF is OASIS' format of findings in files. Metrics are its rules. A row that fails what must hold is an error, one
that fails what should hold a warning. The place is the line of the file on which the row stands, if that can be told.

Reference:
    * Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard, 27 March 2020.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from leadline.evaluators.ground import plain, visible
from leadline.tasks.db import records, show_targets, sql
from leadline.tasks.ground.numbers import bound, figure
from leadline.tasks.load.source import Sought, find_lines
from leadline.tasks.publish.exports.exporter import Exporter, register_exporter
from leadline.tasks.publish.facts import Facts
from leadline.tasks.publish.run_results import RunResults

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST: Final = 5_000
"""Results of a run; GitHub shows no more."""
_MOST_TEXT: Final = 1_000
_MOST_QUESTION: Final = 20_000
_LEVELS: Final = {"must": "error", "should": "warning"}


@register_exporter
class Sarif(Exporter):
    """The failing rows for code scanning."""

    name = "sarif"
    files = ("leadline.sarif",)

    def write(self, results: RunResults, folder: Path) -> None:
        """Write ``leadline.sarif``."""
        show_targets(results.connection)
        lines = records(results.connection, sql("sarif/failing_rows").format(lines=MOST, most=_MOST_QUESTION))
        found = _document(results.facts, lines)
        text = json.dumps(plain(found), ensure_ascii=False, indent=1)
        (folder / self.files[0]).write_text(f"{text}\n", encoding="utf-8", errors="replace")


def _document(facts: Facts, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    source = str(facts.record.get("dataset_source") or "")
    file = Path(source)
    wanted = [Sought(row["case"], row["model"], row["question"]) for row in rows]
    places = find_lines(file, wanted) if source and "://" not in source else {}
    rules = _rules(facts, rows)
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    results = [
        _result(facts, row, index[row["rule"]], _location(file, places.get(sought)))
        for row, sought in zip(rows, wanted, strict=True)
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Leadline", "semanticVersion": version("leadline"), "rules": rules}},
                "automationDetails": {"id": f"leadline/{_category(facts)}/"},
                "columnKind": "unicodeCodePoints",
                "properties": {"run": facts.run, "gate": facts.gate},
                "results": results,
            }
        ],
    }


def _category(facts: Facts) -> str:
    """Return what tells these results from others of the same commit: the check in CI, or the dataset."""
    check = facts.record.get("ci")
    named = check.get("check") if isinstance(check, Mapping) else ""
    return _short(str(named or facts.record.get("dataset_name") or "run")).replace("/", "-")


def _rules(facts: Facts, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the metrics that some row fails, as rules."""
    failed = {row["rule"]: row["role"] for row in rows}
    return [
        {
            "id": f"{evaluator.key}.{metric.key}",
            "name": _short(evaluator.label(metric)),
            "shortDescription": {"text": _short(evaluator.label(metric))},
            "fullDescription": {"text": _short(metric.description or metric.name)},
            "defaultConfiguration": {"level": _LEVELS[failed[f"{evaluator.key}.{metric.key}"]]},
            "properties": {"tags": ["leadline", _short(evaluator.family)]},
        }
        for evaluator in facts.evaluators
        for metric in evaluator.metrics
        if f"{evaluator.key}.{metric.key}" in failed
    ]


def _result(facts: Facts, row: Mapping[str, Any], rule: int, location: Mapping[str, Any]) -> dict[str, Any]:
    identity = "\0".join((row["rule"], row["model"], row["case"]))
    return {
        "ruleId": row["rule"],
        "ruleIndex": rule,
        "level": _LEVELS[row["role"]],
        "message": {"text": _message(facts, row)},
        "locations": [
            {"physicalLocation": location, "logicalLocations": [{"name": _short(row["case"]), "kind": "case"}]}
        ],
        "partialFingerprints": {"leadlineRow/v1": hashlib.sha256(identity.encode()).hexdigest()},
        "properties": {"model": _short(row["model"]), "value": row["value"], "newlyBroken": row["broken"]},
    }


def _message(facts: Facts, row: Mapping[str, Any]) -> str:
    """Return a result's sentences; brackets would be links in SARIF's messages."""
    direction = "at least" if row["higher_is_better"] else "at most"
    asked = f"{direction} {bound(row['threshold'], row['share'])}"
    value = figure(row["value"], row["share"])
    text = f"{row['model']} on {row['case']}: {row['metric_name']} is {value}, {asked} was asked."
    if row["broken"] and facts.changes:
        text += f" Newly broken since {facts.changes.baseline.label}."
    if row["message"]:
        text += f" {row['message']}"
    escaped = _short(text).replace("\\", "\\\\")
    return escaped.replace("[", "\\[").replace("]", "\\]")


def _location(file: Path, line: int | None) -> dict[str, Any]:
    """Return the dataset's file as seen from the root of the repository, and the line."""
    here = _root(file)
    inside = file.is_absolute() and file.is_relative_to(here)
    path = file.relative_to(here) if inside else file
    artifact: dict[str, Any] = {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}
    if not path.is_absolute():
        artifact["uriBaseId"] = "%SRCROOT%"
    # Without a region GitHub refuses to show a result in the file.
    return {"artifactLocation": artifact, "region": {"startLine": line or 1}}


def _root(file: Path) -> Path:
    """Return the folder that a forge shows paths from: the job's checkout, else the Git repository that has a file."""
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        checkout = Path(os.environ.get(variable) or "/nowhere")
        if file.is_relative_to(checkout):
            return checkout
    return next((folder for folder in file.parents if (folder / ".git").exists()), Path.cwd())


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 1]}…"
