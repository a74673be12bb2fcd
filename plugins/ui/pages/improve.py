"""Improving a judge by a queue's labels: the price, the command, a way to start it, and what came of earlier tries."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.evaluators.judge_client.choice import configured_judges
from leadline.evaluators.settings import UNNAMED, JuryConfig
from leadline.flows.improve_judge import prepare_improving
from leadline.flows.shared.settings import JudgeAccess
from leadline.plugins.ui.site import PersonRole, Site, asked, does, noted, person_of, shows
from leadline.tasks.judges.labels.judge_improvement import kept_improvements
from leadline.tasks.judges.labels.judging import LabelsNeed
from leadline.tasks.judges.labels.label_sets import find_label_set


def routes(site: Site) -> list[Route]:
    """Return the page's routes."""

    def show(request: Request) -> Response:
        if not person_of(request).may_edit:
            raise HTTPException(403, "That needs the role editor.")
        set_name = find_label_set(site.store, request.path_params["name"]).name
        wanted, names = asked(request, "metric", "judge", "by"), _names()
        judge = wanted["judge"] if wanted["judge"] in names else next(iter(names), "")
        by = wanted["by"] if wanted["by"] in names else judge
        needs: dict[str, LabelsNeed] = {}
        price, problem = None, "" if names else "leadline.toml names no judge that could be improved."
        try:
            if judge:
                found = prepare_improving(site.store, judge, set_name, wanted["metric"], JudgeAccess(model=None), by)
                needs, price = found.needs()
        except LeadlineError as error:  # too few labels, for one
            problem = str(error)
        command = _command(site, judge, by, set_name, wanted["metric"])
        return site.page(
            request, "label_improve.html", set_name=set_name, metric=wanted["metric"], judges=names, judge=judge, by=by,
            needs=needs, price=price, problem=problem, command=shlex.join(("leadline", *command)),
            tries=kept_improvements(site.store, wanted["metric"])[::-1],
        )  # fmt: skip

    def start(request: Request, form: Mapping[str, str]) -> Response:
        set_name, names = find_label_set(site.store, request.path_params["name"]).name, _names()
        judge, by, metric = form.get("judge", ""), form.get("by", ""), form.get("metric", "")
        if judge not in names or by not in names:
            raise UsageError("There is no such judge in leadline.toml.", code=ErrorCode.JUDGE_CONFIG)
        command = _command(site, judge, by, set_name, metric)
        started = site.workshop.start(f"improve {judge} by {set_name}", command, person_of(request).name)
        noted(request, "started work", work=started.title, id=started.id, judge=judge, metric=metric)
        return site.back("work", started.id)

    return [
        shows("/labels/{name}/improve", show),
        does("/labels/{name}/improve", PersonRole.EDITOR, start),
    ]


def _names() -> list[str]:
    """Return the single judges that the server's ``leadline.toml`` names."""
    known = configured_judges(None, os.environ)
    return [judge.key for judge in known if judge.key != UNNAMED and not isinstance(judge, JuryConfig)]


def _command(site: Site, judge: str, by: str, set_name: str, metric: str) -> list[str]:
    return [
        "judges", "improve", "--store", site.store.location, f"--labels={set_name}", f"--metric={metric}", f"--by={by}",
        "--", judge,
    ]  # fmt: skip
