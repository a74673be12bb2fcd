"""The flow ``check-judges``: whether judges are still the ones that were enrolled. A schedule runs it every day.

It contains no logic: :mod:`leadline.tasks.judges.drift` checks, and the command line calls that without Prefect.
"""

from __future__ import annotations

from prefect import flow
from prefect.artifacts import create_table_artifact

from leadline.flows.judges.change_event import announce_change
from leadline.flows.judges.config import CheckJudgesConfig as CheckJudgesConfig
from leadline.flows.judges.config import CheckJudgesResult as CheckJudgesResult
from leadline.flows.judges.prepare import run_checks
from leadline.flows.prefect.outside_requests import allowed, check_store, is_from_outside
from leadline.flows.prefect.prefect_steps import TaskSteps
from leadline.flows.prefect.server_outage import outlast_outages

outlast_outages()


@flow(
    name="check-judges",
    description="Ask enrolled judges about their probes, and say whether one has changed.",
    persist_result=False,
)
def check_enrolled_judges(config: CheckJudgesConfig) -> CheckJudgesResult:
    """Check judges, each once a day.

    Args:
        config: Which judges.

    Returns:
        How each stands.
    """
    if is_from_outside():
        check_store(allowed(), config.store)
    result = TaskSteps().step("check judges", run_checks, config)
    create_table_artifact(
        [
            {
                "judge": name,
                "state": found["state"],
                "epoch": found["epoch"],
                "found": result.not_checked.get(name) or found["in_words"],
            }
            for name, found in result.judges.items()
        ],
        key="leadline-judges",
        description="Whether each judge is still the one that was enrolled",
    )
    for name in result.newly_changed:
        announce_change(name, result.judges[name])
    return result
