"""Alerts on a real Prefect server: what they are called, and what they say."""

from __future__ import annotations

import httpx
import pytest

from leadline.flows.alert import Alert, raise_alert
from tests.support.processes.prefect_runs import Server

pytestmark = pytest.mark.slow


def test_a_run_that_failed_before_it_had_its_name_is_called_what_was_asked_for(api_url: str) -> None:
    config = {"name": "nightly", "dataset": "answers.json"}
    failed = Server(api_url).run("handsome-tortoise", "FAILED", config=config)
    about = {"prefect.resource.id": f"prefect.flow-run.{failed}", "prefect.resource.name": "handsome-tortoise"}
    reason = {"validated_state": {"message": "DatasetError: There is no file. " * 100}}
    alert = Alert(event="prefect.flow-run.Failed", resource=about, payload=reason)
    state = raise_alert(alert, return_state=True)
    assert state.is_failed()
    assert (state.message or "").startswith(
        "prefect.flow-run.Failed of nightly (harbour): DatasetError: There is no file."
    )
    assert len(state.message or "") == 500
    made = httpx.get(f"{api_url}/flow_runs/{state.state_details.flow_run_id}", trust_env=False, timeout=30).json()
    assert made["name"] == "alert: nightly (harbour)"


@pytest.mark.parametrize("about", ["leadline.run.r1", "prefect.flow-run.00000000-0000-0000-0000-000000000001"])
def test_an_alert_about_something_else_or_a_run_that_was_deleted_keeps_the_name_that_it_came_with(
    api_url: str, about: str
) -> None:
    alert = Alert(event="leadline.gate.failed", resource={"prefect.resource.id": about}, payload={"reason": "2 rows"})
    assert raise_alert(alert, return_state=True).message == f"leadline.gate.failed of {about}: 2 rows"
