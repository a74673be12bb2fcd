"""Improving a judge by a queue's labels: the price, a form that starts it, and what came of earlier tries."""

from __future__ import annotations

import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import LeadlineError
from leadline.evaluators.judge_client.choice import configured_judges
from leadline.evaluators.settings import UNNAMED, JuryConfig
from leadline.flows.improve_judge import ImproveJudge
from leadline.plugins.ui.site import Site, asked, person_of, shows
from leadline.plugins.ui.work_forms import KINDS, checked_config
from leadline.tasks.judges.labels.judge_improvement import kept_improvements
from leadline.tasks.judges.labels.judging import LabelsNeed
from leadline.tasks.judges.labels.label_sets import find_label_set


def routes(site: Site) -> list[Route]:
    """Return the page's route; its form starts work as all do."""

    def show(request: Request) -> Response:
        if not person_of(request).may_edit:
            raise HTTPException(403, "That needs the role editor.")
        set_name = find_label_set(site.store, request.path_params["name"]).name
        wanted, names = asked(request, "metric", "judge", "by"), _names()
        judge = wanted["judge"] if wanted["judge"] in names else next(iter(names), "")
        by = wanted["by"] if wanted["by"] in names else judge
        settings = {"judges.model": judge, "proposer": by, "labels": set_name, "metric": wanted["metric"]}
        needs: dict[str, LabelsNeed] = {}
        price, problem = None, "" if names else "leadline.toml names no judge that could be improved."
        try:
            if judge:
                config = checked_config(KINDS[ImproveJudge.name], settings, site.store.location)
                needs, price = ImproveJudge().check(config).needs()
        except LeadlineError as error:  # too few labels, for one
            problem = site.told(error)
        return site.page(
            request, "label_improve.html", set_name=set_name, metric=wanted["metric"], judges=names, judge=judge, by=by,
            needs=needs, price=price, problem=problem, settings=settings | {"job": ImproveJudge.name},
            tries=kept_improvements(site.store, wanted["metric"])[::-1],
        )  # fmt: skip

    return [shows("/labels/{name}/improve", show)]


def _names() -> list[str]:
    """Return the single judges that the server's ``leadline.toml`` names."""
    known = configured_judges(None, os.environ)
    return [judge.key for judge in known if judge.key != UNNAMED and not isinstance(judge, JuryConfig)]
