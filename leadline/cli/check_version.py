"""``leadline check-version`` and ``versions``: evaluate a new version of a model and decide, and what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground.text import count
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options, split_ids
from leadline.flows.command.output import clean, moment, print_json, print_table
from leadline.flows.command.running import on_an_api, stoppable
from leadline.flows.command.session import Session, check_ledger, say, server_option, session_options
from leadline.flows.model_version.config import ModelVersionConfig

if TYPE_CHECKING:
    from leadline.flows.model_version.config import ModelVersionResult

REJECTED: Final = 1
_KEPT: Final = "Interrupted. Answers and scores are kept: the same command goes on from there."
OPTIONS: Final = frozenset(
    {"model", "version", "suite", "target.file", "target.model", "target.api_base", "answers", "evaluator_suite"}
    | {"evaluators", "judges.model", "judges.api_base", "fail_on", "margin", "baseline", "again", "output"}
)
"""Settings with an option of their own; ``--set`` gives the others."""


@click.command(cls=GroupedCommand)
@form_options(ModelVersionConfig, only=OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def check_version(session: Session, /, as_json: bool, **options: Any) -> int:
    """Evaluate a new version of a model, and decide.

    VERSION of MODEL is evaluated on the cases of SUITE and compared with the version before. The same model version,
    suite and configuration is evaluated once: repeating the command prints what was found. Leaves with 0 when the
    version passes, else with 1; also when another process is still at it.
    """
    config = _config(session, options)
    check_ledger(config.store)
    with stoppable(_KEPT):
        result = on_an_api(
            session, lambda: _run(config), direct=lambda: _run_directly(config), first=lambda: _check(config)
        )
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        print_result(result)
    return 0 if result.decision == "pass" else REJECTED


@click.command()
@click.option("--model", metavar="KEY", help="Only this model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def versions(session: Session, /, model: str | None, as_json: bool) -> None:
    """List the evaluated model versions with decision and run."""
    from leadline.tasks.runs.versions import records, state_of

    found = [
        record | {"state": state_of(record)}
        for record in records(session.open_store())
        if model in (None, record["model"])
    ]
    if as_json:
        print_json(found)
        return
    columns = ("model", "version", "suite", "state", "decision", "baseline", "run", "finished")
    if not found:
        say("No model version was evaluated yet. Begin with: leadline check-version MODEL VERSION SUITE")
        return
    shown = [record | {"finished": moment(record.get("finished"))} for record in found]
    print_table(columns, [[record.get(column) for column in columns] for record in shown])


def _config(session: Session, options: dict[str, Any]) -> ModelVersionConfig:
    options |= {"evaluators": split_ids(options["evaluators"]), "store": session.store}
    return fill_in(ModelVersionConfig, "check-version", options)


def _check(config: ModelVersionConfig) -> None:
    """Refuse what the flow would refuse, before a server is started."""
    from leadline.flows.model_version.prepare import check_measured, reading_of_answers, reading_of_suite, target_of
    from leadline.tasks.collect import check_target
    from leadline.tasks.load import load_dataset
    from leadline.tasks.store.store import Store

    check_measured(config)
    if not config.answers:
        check_target(target_of(config))
    store = Store.open(config.store)
    load_dataset(store, config.suite, cases_only=True, **reading_of_suite(config))
    if config.answers:
        load_dataset(store, config.answers, **reading_of_answers(config))


def _run(config: ModelVersionConfig) -> ModelVersionResult:
    from leadline.flows.model_version.flow import on_model_version
    from leadline.flows.prefect.prefect_steps import recorded_flow

    return recorded_flow(on_model_version, config, _run_directly)


def _run_directly(config: ModelVersionConfig) -> ModelVersionResult:
    from leadline.flows.compare.prepare import result_of, run_comparison
    from leadline.flows.evaluate.run import run_evaluation
    from leadline.flows.evaluate.steps import DirectSteps
    from leadline.flows.model_version.version_check import run_version

    return run_version(
        config,
        DirectSteps(),
        evaluate=lambda evaluation: run_evaluation(evaluation, DirectSteps()),
        compare=lambda comparison: result_of(run_comparison(comparison)),
    )


def print_result(result: ModelVersionResult) -> None:
    """Print what became of a version."""
    if result.standing == "in_progress":
        say(clean(result.reason), always=True)
        return
    decision = (result.decision or "").upper()
    known = " (evaluated before)" if result.standing == "known" else ""
    asked = f"{result.asked:,} asked for now" + (f", {count(result.failed, 'error')}" if result.failed else "")
    lines = (
        ("Decision", f"{decision}{known}: {result.reason}"),
        ("Version", f"{result.model} {result.version}"),
        ("Baseline", f"{result.baseline} (run {result.baseline_run})" if result.baseline else "none"),
        ("Answers", f"{asked}; {result.dataset}"),
        ("Run", str(result.run)),
        ("Report", str(result.report)),
        *((("Compared", str(result.comparison_report)),) if result.comparison_report else ()),
    )
    for label, text in lines:
        click.echo(f"{label:<9} {clean(text)}")
