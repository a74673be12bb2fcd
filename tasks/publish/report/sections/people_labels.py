"""People's labels: what a judge's means are by them, and how far people and judge agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.tasks.judges.labels.run_corrections import CertificateLine, CorrectionLine
from leadline.tasks.publish.report.section import Section, register_section
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.publish.views import EvaluatorView, Facts, MetricView, ModelView


@register_section
class PeopleLabels(Section):
    """A card for each metric that people labelled: corrected values by model, and the judge's certificate."""

    name = "labels"
    title = "People's labels"
    order = 205

    def context(self, results: RunResults) -> Mapping[str, Any] | None:
        """Return the metrics with labels; the section is left out where nobody was asked."""
        found = labelled_metrics(results.facts)
        return {"labelled": found} if found else None


@dataclass(frozen=True, slots=True)
class LabelledMetricView:
    """A metric with labels.

    Attributes:
        certificate: How far people and judge agree.
        corrections: The corrected means, with their models.
        run: Id of the run.
    """

    evaluator: EvaluatorView
    metric: MetricView
    certificate: CertificateLine
    corrections: tuple[tuple[ModelView, CorrectionLine], ...]
    run: str

    @property
    def advice(self) -> str:
        """The command that goes on from here, ``""`` where the certificate is valid."""
        name = f"{self.evaluator.key}.{self.metric.key}"
        found = self.certificate
        if found.state == "stale":
            return f"leadline judges certify {self.run} --metric {name}"
        if found.state in ("none", "few", "not drawn", "open"):
            rows = found.n_labels + (found.more_labels or max(100, found.n_labels))
            return f"leadline labels sample {self.run} --metric {name} --n {rows} -o page.html"
        return ""


def labelled_metrics(facts: Facts) -> list[LabelledMetricView]:
    """Return the metrics that people were asked about, in the order of the run.

    Args:
        facts: The run.
    """
    found = []
    for evaluator in facts.evaluators:
        for metric in evaluator.metrics:
            certificate = facts.certificates.get(metric.id)
            if certificate is not None:
                lines = ((model, facts.corrections.get((metric.id, model.id))) for model in facts.models)
                corrections = tuple((model, line) for model, line in lines if line is not None)
                found.append(LabelledMetricView(evaluator, metric, certificate, corrections, facts.run))
    return found
