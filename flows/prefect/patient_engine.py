"""Prefect's engine of a flow run on a worker, which waits for a server that is away from its first request on.

The engine asks the server for its flow run before it imports the flow's module, so that is too late. Deployments start
it by their job's ``command``: ``python -m leadline.flows.prefect.patient_engine``.
"""

from __future__ import annotations

import runpy

from leadline.flows.prefect.server_outage import outlast_outages

if __name__ == "__main__":
    outlast_outages()
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
