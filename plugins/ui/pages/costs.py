"""The page of costs: what runs spent on judges, budgets of teams, and how the store's judges stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError
from leadline.evaluators.judge_client.budget import TeamBudget, month_of, team_budgets
from leadline.plugins.ui.site import Site, asked, number, pager, shows
from leadline.tasks.judges.drift.judge_standing import standings
from leadline.tasks.judges.labels.certificates import Certificate, kept_certificates
from leadline.tasks.judges.labels.label_sets import label_sets
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.runs.costs import all_costs, costs_by
from leadline.tasks.runs.history import RunHistory
from leadline.tasks.runs.run_index import RunLine

PATIENCE_S: Final = 1.0
"""Seconds that a page spends on reading runs that were never read, which say who judged."""

PAGE: Final = 50
"""Lines of a table."""

BY: Final = (
    ("day", "By day"),
    ("judge", "By judge"),
    ("evaluator", "By evaluator"),
    ("run", "By run"),
    ("team", "By team"),
    ("tag", "By tag"),
)
DAYS: Final = (("30", "Last 30 days"), ("90", "Last 90 days"), ("365", "Last 365 days"), ("all", "All days"))


def routes(site: Site) -> list[Route]:
    """Return the page's routes."""
    history = RunHistory(site.store, site.index)

    def show(request: Request) -> Response:
        wanted = asked(request, "by", "days")
        by = wanted["by"] if wanted["by"] in dict(BY) else BY[0][0]
        days = wanted["days"] if wanted["days"] in dict(DAYS) else DAYS[0][0]
        every = [line for line in site.index.lines() if line.has_report]
        runs = _since(every, number(days, 0))
        left = history.gather(PATIENCE_S) if by == "judge" else 0
        judged = history.lines("judges", every)
        lines = costs_by(by, runs, {(line["run"], line["evaluator"]): line["judge"] for line in judged})
        place = pager(request, len(lines), PAGE)
        known = {line.id: line for line in every}
        return site.page(
            request, "costs.html", asked={"by": by, "days": days}, by=BY, days=DAYS, left=left, total=all_costs(runs),
            lines=lines[place.offset : place.last], pager=place, budgets=_budgets(site), judges=_judges(site, judged),
            certificates=_certificates(site), runs=known,
        )  # fmt: skip

    return [shows("/costs", show)]


def _since(runs: list[RunLine], days: int) -> list[RunLine]:
    """Return the runs of the last days before the newest run; all for 0."""
    if not days or not runs:
        return runs
    newest = max(line.day for line in runs)
    first = datetime.fromisoformat(newest or "1970-01-01") - timedelta(days=days)
    return [line for line in runs if line.day >= f"{first:%Y-%m-%d %H:%M}"]


def _budgets(site: Site) -> list[tuple[TeamBudget, str, dict[str, Any]]]:
    """Return the budgets of the settings with the month, and what the teams spent in it."""
    month = month_of(datetime.now(UTC).timestamp())
    try:
        budgets = team_budgets(None)
        spent = {line["team"]: line for line in read_ledger(site.store).teams(month)} if budgets else {}
    except LeadlineError:  # settings or a ledger that cannot be read do not keep the rest of the page back
        return []
    nothing: dict[str, Any] = {"calls": 0, "usd": 0.0}
    return [(budget, month, spent.get(team, nothing)) for team, budget in sorted(budgets.items())]


def _judges(site: Site, judged: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    """Return the enrolled judges with the last run that each judged in, or ""."""
    last: dict[str, str] = {}
    for line in sorted(judged, key=lambda line: line["run"]):
        last[line["judge"]] = line["run"]
    try:
        return [(standing, last.get(standing.model, "")) for standing in standings(site.store)]
    except LeadlineError:
        return []


def _certificates(site: Site) -> list[Certificate]:
    """Return what judges earned with people's labels, the last first."""
    try:
        found = [one for labels in label_sets(site.store) for one in kept_certificates(labels)]
    except LeadlineError:
        return []
    return sorted(found, key=lambda one: one.earned, reverse=True)
