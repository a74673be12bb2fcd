"""Files that a CI system reads: the summary, results for programs, each check's report, JUnit and SARIF."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError, from_home, plain
from leadline.plugins.ci.change_facts import CheckOutcome
from leadline.plugins.ci.change_summary import worst
from leadline.plugins.ci.checkout import Checkout
from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.store.store import Store

SUMMARY: Final = "summary.md"
RESULT: Final = "ci.json"
FORMATS: Final = {"html": "report.html", "junit": "junit.xml", "sarif": "leadline.sarif"}
"""Output formats of each check, and their files."""


def folder_of(output: str, check: str) -> Path:
    """Return the folder of a check's files: the job's own for the only one, else one below it.

    Args:
        output: The job's folder.
        check: The check; "" for the only one.
    """
    return from_home(output) / check if check else from_home(output)


def export_check(store: Store, outcome: CheckOutcome, output: str) -> None:
    """Write a check's report, JUnit and SARIF files; those of an earlier job go, whatever became of this one.

    Args:
        outcome: What became of the check.
        output: The job's folder.
    """
    folder = folder_of(output, outcome.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in FORMATS.values():
            (folder / file).unlink(missing_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error
    for name in FORMATS if outcome.result else ():
        export_run(store, store.run(outcome.result.run), name, folder)  # type: ignore[union-attr]


def write_summary(
    outcomes: Sequence[CheckOutcome],
    summary: str,
    *,
    exit_code: int,
    checkout: Checkout,
    output: str,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Write ``summary.md`` and ``ci.json``, and what GitHub Actions shows and hands to later steps.

    Args:
        summary: All of them as Markdown.
        exit_code: What the job leaves with.
        checkout: What was checked out.
        output: The job's folder.
        environment: The job's variables.

    Returns:
        What ``ci.json`` has.

    Raises:
        UsageError: A file cannot be written.
    """
    folder = from_home(output)
    record = {"schema": "leadline.ci", "verdict": worst(outcomes), "exit_code": exit_code} | {
        "branch": checkout.branch,
        "commit": checkout.commit,
        "base_branch": checkout.base_branch,
        "number": checkout.number,
        "checks": [_record(outcome) for outcome in outcomes],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUMMARY).write_text(summary, encoding="utf-8")
        (folder / RESULT).write_text(
            json.dumps(plain(record), ensure_ascii=False, indent=2) + "\n", encoding="utf-8", errors="replace"
        )
        _append(environment.get("GITHUB_STEP_SUMMARY"), f"{summary}\n")
        _append(environment.get("GITHUB_OUTPUT"), _outputs(record, folder))
    except OSError as error:
        raise _not_written(folder, error) from error
    return record


def _record(outcome: CheckOutcome) -> dict[str, Any]:
    facts, result = outcome.facts, outcome.result
    return {
        **{
            name: getattr(outcome, name)
            for name in ("name", "dataset", "verdict", "reason", "base", "exit_code", "tag")
        },
        "report": outcome.report,
        "run": result.run if result else None,
        "newly_broken": facts.n_broken if facts else None,
        "newly_fixed": facts.n_fixed if facts else None,
        "cannot_be_told": len(facts.untold) if facts else None,
        "reused": result.reused if result else None,
        "computed": result.computed if result else None,
        "judge_calls": result.judge_calls if result else None,
        "judge_cost_usd": result.judge_cost_usd if result else None,
        "seconds": result.time.total if result else None,
    }


def _outputs(record: Mapping[str, Any], folder: Path) -> str:
    """Return the outputs of the step; none of them is a text that somebody else wrote."""
    checks = record["checks"]
    values = {
        "verdict": record["verdict"],
        "exit-code": record["exit_code"],
        "newly-broken": sum(check["newly_broken"] or 0 for check in checks),
        "newly-fixed": sum(check["newly_fixed"] or 0 for check in checks),
        "folder": " ".join(str(folder).split()),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _append(path: str | None, text: str) -> None:
    if path:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(text)


def _not_written(folder: Path, error: OSError) -> UsageError:
    where = error.filename or folder
    return UsageError(
        f"{where} cannot be written: {error.strerror or error}.",
        hint="Name another folder: -o DIR",
        code=ErrorCode.CONFIG_OUTPUT,
    )
