"""A run whose worker was killed goes on although nobody reads what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.flows.deploy.file import read_deployment_file

RUN = """
import sys
from pathlib import Path
from prefect.logging import get_logger
from prefect.logging.configuration import setup_logging
setup_logging()
sys.stdin.readline()
for number in range(3):
    get_logger("engine").error("line %s", number)
    print("more", file=sys.stderr, flush=True)
    print("more", flush=True)
Path(sys.argv[1]).touch()
"""


@pytest.mark.slow
def test_a_run_goes_on_when_the_worker_that_reads_its_lines_is_gone(tmp_path: Path) -> None:
    done = tmp_path / "done"
    [deployment] = [one for one in read_deployment_file().deployments if one.name == "cpu"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = {**kept, **deployment.work_pool.job_variables["env"], "PREFECT_HOME": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(done)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment, text=True,
    )  # fmt: skip
    assert run.stdin is not None
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    run.stderr.close()
    run.stdin.write("go\n")
    run.stdin.close()
    run.wait(60)
    assert done.exists()


def test_every_run_is_told_to() -> None:
    name = "PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS"
    assert {name in one.work_pool.job_variables["env"] for one in read_deployment_file().deployments} == {True}
