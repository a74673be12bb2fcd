"""The flows that a Prefect server serves, one for each job; ``deployments/prefect.yaml`` names them."""

from __future__ import annotations

from leadline.flows.collect import Collect
from leadline.flows.prefect.prefect_steps import flow_of

collect = flow_of(Collect())
