"""Judging a case again: what a judge replied to an answer each time it was asked, and a form to ask it once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any, Final

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import Settings
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.plugins.ui.site import PersonRole, Site, does, noted, shows
from leadline.tasks.db import open_run, sql
from leadline.tasks.judges.drift.epochs import with_epochs
from leadline.tasks.judges.judge_again import judge_again, row_replies
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.plan.jobs import EvaluatorJob, make_jobs, read_jobs
from leadline.tasks.store.store import JOBS, Run

AT_ONCE: Final = 2
"""Judges that are asked at the same time."""

MOST_CALLS: Final = 12
"""Calls of a reply whose texts are shown."""


def routes(site: Site) -> list[Route]:
    """Return the page and what asks."""
    free = BoundedSemaphore(AT_ONCE)

    def show(request: Request) -> Response:
        line = site.run(request.path_params["name"])
        named = {name: request.query_params.get(name, "")[:2000] for name in ("case", "model", "evaluator")}
        run = site.store.run(line.id)
        row, trials = _row(site, run, named)
        settings, job, _ = as_configured(site, run, named["evaluator"])
        found = row_replies(site.store, line.dataset_digest, row, job, settings)
        texts = {reply.trial: _texts(site, reply.calls) for reply in found.replies}
        return site.page(request, "again.html", run=line, named=named, found=found, texts=texts, trials=trials)

    def ask(request: Request, form: Mapping[str, str]) -> Response:
        line = site.run(request.path_params["name"])
        named = {name: form.get(name, "")[:2000] for name in ("case", "model", "evaluator")}
        run = site.store.run(line.id)
        row, _ = _row(site, run, named)
        settings, job, limits = as_configured(site, run, named["evaluator"])
        if not free.acquire(blocking=False):
            raise UsageError(
                f"{AT_ONCE} judges are being asked already.", hint="Try again in a moment.", code=ErrorCode.RUN_FAILED
            )
        try:
            trial = judge_again(site.store, line.dataset_digest, row, job, settings, limits)
        finally:
            free.release()
        noted(request, "asked a judge again", run=line.id, trial=trial + 1, **named)
        return site.back("runs", line.id, "again", **named)

    return [shows("/runs/{name}/again", show), does("/runs/{name}/again", PersonRole.EDITOR, ask)]


def as_configured(site: Site, run: Run, evaluator: str) -> tuple[Settings, EvaluatorJob, Limits]:
    """Return an evaluator as a run asked its judge, with the judge as it is configured now, and what may be spent.

    Raises:
        UsageError: The run has no such evaluator, requests from outside may not name its judge, or judge or evaluator
            are others by now: another's reply is no repeat.
    """
    from leadline.flows.prefect.outside_requests import allowed, check_judges

    site.store.fetch_plan(run)
    try:
        access = EvaluateConfig.model_validate(run.read().get("config")).judges
        settings, jobs = read_jobs(run.plan / JOBS)
    except (ValidationError, FileNotFoundError):
        raise UsageError(
            f"Run {run.id} has no record of how it asked its judge.", code=ErrorCode.STORE_NO_RESULTS
        ) from None
    job = next((job for job in jobs if job.evaluator == evaluator and job.lane == "judge"), None)
    if job is None:
        raise UsageError(f"Run {run.id} asked no judge for {evaluator[:100]!r}.", code=ErrorCode.PLAN_NO_EVALUATOR)
    check_judges(allowed(), access)
    now = with_epochs(site.store, replace(settings, judges=judges_of(access)))
    [same] = make_jobs([job.build()], now)
    if same.config != job.config:
        raise UsageError(
            f"{evaluator} or its judge has changed since run {run.id}, so that its reply would be no repeat.",
            hint="Evaluate the dataset again.",
            code=ErrorCode.JUDGE_CONFIG,
        )
    return now, same, limits_of(access)


def _row(site: Site, run: Run, named: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of an answer, and how often the run asked about it."""
    with open_run(site.store, run, read_only=True) as connection:
        found = connection.execute(sql("ui_cases/judged_row"), dict(named)).fetchone()
    if found is None:
        raise HTTPException(404)
    return int(found[0]), int(found[1])


def _texts(site: Site, calls: Iterable[str]) -> list[dict[str, Any]]:
    """Return the calls that a reply rests on, as far as the ledger has them."""
    found = []
    ledger = read_ledger(site.store)
    for call in list(calls)[:MOST_CALLS]:
        with suppress(UsageError):  # of another ledger
            found.append(ledger.one(call))
    return found
