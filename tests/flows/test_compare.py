"""The flow ``compare`` on a Prefect API of its own: its form, its result, and what the UI shows of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from leadline.flows.compare import CompareConfig
from tests.support.processes.prefect_api import prefect_api
from tests.tasks.compare.two_runs import completed

SCRIPT = """
import json, sys
from leadline.flows.prefect.server import lasting_api
with lasting_api():
    from leadline.flows.compare import CompareConfig
    from leadline.flows.served import compare
    from prefect.client.orchestration import get_client
    result = compare(CompareConfig(**json.loads(sys.argv[1])))
    with get_client(sync_client=True) as client:
        artifacts = {artifact.key: artifact.data for artifact in client.read_artifacts()}
        flow_runs = [run.name for run in client.read_flow_runs()]
print(json.dumps({"result": result.model_dump(mode="json"), "artifacts": artifacts, "runs": flow_runs}))
"""


def test_a_configuration_names_two_sides_or_two_versions() -> None:
    assert CompareConfig(baseline="latest~1").candidate == "latest"
    for wrong in (
        {},
        {"model": "m", "versions": ("1",)},
        {"versions": ("1", "2")},
        {"baseline": "a", "model": "m", "versions": ("1", "2")},
        {"baseline": "a", "model": "m"},
        {"baseline": "a", "margins": {"x": float("nan")}},
    ):
        with pytest.raises(ValidationError):
            CompareConfig.model_validate(wrong)


@pytest.mark.e2e
def test_it_runs_on_prefect_and_leaves_artifacts(tmp_path: Path, home: Path) -> None:
    before, after = (completed(tmp_path, {"m": [value + 0.01 * (n % 5) for n in range(30)]}) for value in (0.8, 0.4))
    config = {"baseline": before.id, "candidate": after.id, "store": str(tmp_path / "store")}
    environment = os.environ | {"PREFECT_HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment |= {"LEADLINE_UI_URL": "https://reports.example.org", "LEADLINE_STORE": str(tmp_path / "store")}
    with prefect_api(home) as api:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(config)], capture_output=True, text=True,
            env=environment | {"PREFECT_API_URL": api}, timeout=100,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["result"]["verdict"] == "fail"
    assert found["result"]["metrics"] == {"fail": 1}
    assert Path(found["result"]["report"]).exists()
    assert found["runs"] == [f"compare {after.id} with {before.id}"]
    assert set(found["artifacts"]) == {"leadline-comparison", "leadline-compared-metrics", "leadline-comparison-report"}
    identifier = Path(found["result"]["report"]).parent.name
    link = f"https://reports.example.org/comparisons/{identifier}/report.html"
    assert link in found["artifacts"]["leadline-comparison-report"]
    assert f"<{link}>" in found["artifacts"]["leadline-comparison"]
