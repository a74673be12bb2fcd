"""The flows that a Prefect server serves, one for each job; ``deployments/prefect.yaml`` names them."""

from __future__ import annotations

from leadline.flows.check_judges import CheckJudges
from leadline.flows.check_version import CheckVersion
from leadline.flows.collect import Collect
from leadline.flows.compare import Compare
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.generate import Generate
from leadline.flows.improve_judge import ImproveJudge
from leadline.flows.perturb import Perturb
from leadline.flows.prefect.prefect_steps import flow_of
from leadline.flows.sample_labels import SampleLabels

check_judges = flow_of(CheckJudges())
collect = flow_of(Collect())
compare = flow_of(Compare())
evaluate = flow_of(Evaluate())
generate = flow_of(Generate())
improve_judge = flow_of(ImproveJudge())
on_model_version = flow_of(CheckVersion())
perturb = flow_of(Perturb())
sample_labels = flow_of(SampleLabels())
