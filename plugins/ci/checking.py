"""Checking a change: each check is evaluated, compared and marked; then come the job's files, and the comment.

A check that is refused or fails is told like the others and does not keep them from being made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import LeadlineError, count
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.prefect.report_links import run_link
from leadline.plugins.ci.change_facts import CheckOutcome, decide, exit_code, read_change
from leadline.plugins.ci.change_summary import LARGEST, summarise
from leadline.plugins.ci.checkout import BaseRun, Checkout, find_base, find_checkout, mark_run
from leadline.plugins.ci.config import BASE, CheckConfig, CheckRequest, CiConfig
from leadline.plugins.ci.forges.sticky_comment import Posting, keep_comment, marker
from leadline.plugins.ci.job_files import FORMATS, export_check, folder_of, write_summary
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
        posting: What became of the pull request's comment.
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
        request: What is to be checked.
        store: The store; ``None`` for the usual one.
        environment: The job's variables.
        evaluate: Runs an evaluation.
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
