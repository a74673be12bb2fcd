"""The flow ``compare``: two runs, models or versions, row by row, and whether the new one is worse.

It contains no logic: :mod:`leadline.tasks.compare` compares, and the command line calls that without Prefect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.runtime import flow_run

from leadline.evaluators.ground.jsonio import rounded
from leadline.flows.compare.config import CompareConfig as CompareConfig
from leadline.flows.compare.config import CompareResult as CompareResult
from leadline.flows.compare.prepare import result_of, run_comparison
from leadline.flows.prefect.outside_requests import allowed, check_output, check_store, is_from_outside
from leadline.flows.prefect.prefect_steps import TaskSteps
from leadline.flows.prefect.report_links import comparison_link
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.reporting import report
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison

outlast_outages()


def _flow_run_name() -> str:
    config = flow_run.parameters.get("config")
    if not isinstance(config, CompareConfig):
        return "compare"
    sides = config.versions or (config.baseline, config.candidate)
    return f"compare {config.model or ''} {sides[-1]} with {sides[0]}".replace("  ", " ")


@flow(
    name="compare",
    description="Compare two runs, models or versions row by row, and say whether the new one is worse.",
    flow_run_name=_flow_run_name,
    persist_result=False,
)
def compare_runs(config: CompareConfig) -> CompareResult:
    """Compare a candidate with a baseline.

    Args:
        config: Who is compared with whom, how much worse the candidate may be, and what is compared.

    Returns:
        The verdict, why, and where the report is.
    """
    if is_from_outside():
        rules = allowed()
        check_store(rules, config.store)
        check_output(rules, config.output)
    report("compare", done=0)
    compared = TaskSteps().step("compare", run_comparison, config)
    report("compare", done=1)
    _publish_artifacts(Store.open(config.store), compared)
    return result_of(compared)


def _publish_artifacts(store: Store, comparison: Comparison) -> None:
    """Show in the Prefect UI what came out, each metric, and the link to the report."""
    link = comparison_link(store, comparison.id, comparison.report)
    shown = f"<{link}>" if link.startswith("http") else f"`{comparison.report}`"
    summary = f"# {comparison.verdict.upper()}\n\n{comparison.reason}\n\nReport: {shown}"
    create_markdown_artifact(summary, key="leadline-comparison", description=f"Comparison {comparison.id}")
    lines = [
        {
            "metric": found.metric.key,
            "models": found.models.label,
            "baseline": rounded(found.baseline),
            "candidate": rounded(found.candidate),
            "effect": rounded(found.effect),
            "interval low": rounded(found.ci_low),
            "interval high": rounded(found.ci_high),
            "margin": rounded(found.margin),
            "verdict": found.verdict,
            "reason": found.reason,
        }
        for found in comparison.metrics
    ]
    create_table_artifact(lines, key="leadline-compared-metrics", description="Metrics, what needs attention first")
    create_link_artifact(link, link_text="Report", key="leadline-comparison-report", description=comparison.id)
