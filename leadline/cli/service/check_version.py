"""``leadline service check-version`` and ``versions``: a new version of a model is evaluated, and what was decided."""

from __future__ import annotations

from typing import Any, Final

import click

from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options, split_ids
from leadline.flows.command.output import clean, moment, print_json, print_table
from leadline.flows.command.running import print_outcome, run_job
from leadline.flows.command.session import Session, say, server_option, session_options
from leadline.flows.model_version import ModelVersionConfig
from leadline.tasks.runs.versions import records, state_of

REJECTED: Final = 1
OPTIONS: Final = frozenset(
    {"model", "version", "suite", "target.file", "target.model", "target.api_base", "answers", "evaluator_suite"}
    | {"evaluators", "judges.model", "judges.api_base", "fail_on", "margin", "baseline", "again", "output"}
)
"""Settings with an option of their own; ``--set`` gives the others."""


@click.command(cls=GroupedCommand, settings_line="Each setting can also be given with --set.")
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
    from leadline.flows.check_version import CheckVersion  # which the other settings of the help do not need

    config = _config(session, options)
    job = CheckVersion()
    result = run_job(session, job, config)
    if result.standing == "in_progress" and not as_json:
        say(clean(result.reason), always=True)
    else:
        print_outcome(job, result, as_json=as_json)
    return 0 if result.decision == "pass" else REJECTED


@click.command()
@click.option("--model", metavar="KEY", help="Only this model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def versions(session: Session, /, model: str | None, as_json: bool) -> None:
    """List the evaluated model versions with decision and run."""
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
        say("No model version was evaluated yet. Begin with: leadline service check-version MODEL VERSION SUITE")
        return
    shown = [record | {"finished": moment(record.get("finished"))} for record in found]
    print_table(columns, [[record.get(column) for column in columns] for record in shown])


def _config(session: Session, options: dict[str, Any]) -> ModelVersionConfig:
    options |= {"evaluators": split_ids(options["evaluators"]), "store": session.store}
    return fill_in(ModelVersionConfig, "service check-version", options)
