"""Checking a change: each check is evaluated, compared and marked; then come the job's files, and the comment.

A check that is refused or fails is told like the others and does not keep them from being made. The job's files are
what a CI system reads: the summary, results for programs, each check's report, JUnit and SARIF.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count, from_home, plain
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.plugins.ci.change_facts import CheckOutcome, decide, exit_code, read_change
from leadline.plugins.ci.change_summary import LARGEST, summarise, worst
from leadline.plugins.ci.checkout import BaseRun, Checkout, find_base, find_checkout, mark_run
from leadline.plugins.ci.config import BASE, CheckConfig, CheckRequest, CiConfig
from leadline.plugins.ci.forges import Posting, keep_comment, marker
from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Store

_TAGGED: Final = "tag:"
_ADDRESS: Final = re.compile(r"https?://[\w.~:/?#@!&+,;=%-]+", re.ASCII)
"""Addresses that can stand in a Markdown link as they are."""


@dataclass(frozen=True, slots=True)
class ChangeChecked:
    """All that became of a change.

    Attributes:
        record: The outcomes, as ``ci.json`` has them.
        summary: The same as Markdown.
        exit_code: What the job leaves with: the highest of its checks' codes.
    """

    record: Mapping[str, Any]
    summary: str
    posting: Posting
    exit_code: int


def check_change(
    request: CheckRequest,
    *,
    store: str | None,
    environment: Mapping[str, str],
    evaluate: Callable[[EvaluateConfig], EvaluateResult],
    tell: Callable[[LeadlineError], None],
) -> ChangeChecked:
    """Make all checks of a change, and tell what they found.

    Args:
        store: The store; ``None`` for the usual one.
        tell: Takes note of the error of a check that could not be made.

    Raises:
        UsageError: The job's folder cannot be written.
    """
    opened, ci = Store.open(store), request.ci
    checkout = find_checkout(environment, base_branch=ci.base_branch)
    outcomes = []
    for name, config in request.checks.items():
        try:
            outcome = _checked(opened, name, config, ci, checkout, evaluate)
        except LeadlineError as error:
            tell(error)
            outcome = _not_made(name, config, error)
        export_check(opened, outcome, ci.output)
        outcomes.append(outcome)
    code = max((outcome.exit_code for outcome in outcomes), default=0)
    mark = marker(ci.title)
    summary = summarise(
        outcomes,
        title=ci.title,
        where=f"the job's artifacts, folder {Path(ci.output).name}" if checkout.forge else f"the folder {ci.output}",
        link=_link(_artifacts(checkout)),
        largest=LARGEST - len(mark) - 1,
    )
    record = write_summary(
        outcomes, summary, exit_code=code, checkout=checkout, output=ci.output, environment=environment
    )
    posting = Posting("not asked")
    if ci.comment:
        posting = keep_comment(checkout, summary, title=ci.title, environment=environment)
    return ChangeChecked(record, summary, posting, code)


def _checked(
    store: Store,
    name: str,
    config: CheckConfig,
    ci: CiConfig,
    checkout: Checkout,
    evaluate: Callable[[EvaluateConfig], EvaluateResult],
) -> CheckOutcome:
    """Make one check."""
    base = _base(store, name, config, checkout)
    against = {"against": base.run or NONE, "store": store.location, "output": None}
    result = evaluate(config.evaluation(**against, name=config.name or _run_name(name, checkout)))
    run = store.run(result.run)
    facts = read_change(store, run, answers=ci.answers)
    tag = mark_run(store, run, name, checkout)
    verdict, reason = decide(config, result, facts)
    report = _link(run_link(store, run)) or _link(_artifact(checkout, ci.output, name))
    code = exit_code(config, verdict)
    return CheckOutcome(name, config.dataset, verdict, reason, base.words, code, result, facts, tag, report)


def _not_made(name: str, config: CheckConfig, error: LeadlineError) -> CheckOutcome:
    said = str(error).splitlines()
    more = f" ({count(len(said) - 1, 'more line')} in the job's log)" if len(said) > 1 else ""
    reason = f"[{error.code}] {said[0] if said else type(error).__name__}{more}"
    return CheckOutcome(name, config.dataset, "error", reason, exit_code=error.exit_code)


def _base(store: Store, name: str, config: CheckConfig, checkout: Checkout) -> BaseRun:
    """Return the run to compare with; a branch or tag without one is said, and no error."""
    against = config.against or NONE
    if against == BASE:
        return find_base(store, name, checkout)
    if not against.startswith(_TAGGED):
        return BaseRun(against, "")
    try:
        found = find_run(store, against)
    except LeadlineError as error:
        return BaseRun("", f"Compared with nothing. {error.message}")
    return BaseRun(found.id, f"Compared with run {found.id}, tagged {against.removeprefix(_TAGGED)}.")


def _run_name(check: str, checkout: Checkout) -> str:
    """Return a name for a run, for those who list them: the check, the branch and the commit."""
    return " ".join(filter(None, (check, checkout.branch, checkout.commit[:9])))[:200]


def _artifacts(checkout: Checkout) -> str:
    return f"{checkout.job_url}/artifacts/browse" if checkout.forge == "gitlab" else checkout.job_url


def _artifact(checkout: Checkout, output: str, name: str) -> str:
    """Return the address of a report among a job's artifacts, where the forge shows single files."""
    folder = folder_of(output, name)
    if checkout.forge != "gitlab" or folder.is_absolute():
        return ""
    return f"{checkout.job_url}/artifacts/file/{(folder / FORMATS['html']).as_posix()}"


def _link(address: str) -> str:
    """Return an address if it is one for a browser that can stand in Markdown, else ""."""
    return address if _ADDRESS.fullmatch(address) else ""


SUMMARY: Final = "summary.md"
RESULT: Final = "ci.json"
FORMATS: Final = {"html": "report.html", "junit": "junit.xml", "sarif": "leadline.sarif"}
"""Output formats of each check, and their files."""


def folder_of(output: str, check: str) -> Path:
    """Return the folder of a check's files: the job's own for the only one, else one below it.

    Args:
        check: The check; "" for the only one.
    """
    return from_home(output) / check if check else from_home(output)


def export_check(store: Store, outcome: CheckOutcome, output: str) -> None:
    """Write a check's report, JUnit and SARIF files; those of an earlier job go, whatever became of this one."""
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
