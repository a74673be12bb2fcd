"""``leadline check-version`` and ``versions``: evaluate a new version of a model and decide, and what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.core.text import count
from leadline.flows.cli.evaluate_options import FAIL_ON, refusals
from leadline.flows.cli.events import read_settings
from leadline.flows.cli.output import clean, moment, print_json, print_table
from leadline.flows.cli.running import on_an_api, stoppable
from leadline.flows.cli.session import Session, say, session_options, warn_of_ledger

if TYPE_CHECKING:
    from leadline.flows.model_version.config import ModelVersionConfig, ModelVersionResult

REJECTED: Final = 1
_KEPT: Final = "Interrupted. Answers and scores are kept: the same command goes on from there."
_TARGET: Final = {"targets": "file", "target": "model", "api_base": "api_base"}
_JUDGE: Final = {"judge": "model", "judge_api_base": "api_base"}
_SAME: Final = ("answers", "evaluator_suite", "fail_on", "margin", "baseline", "output")


@click.command("check-version")
@click.argument("model", metavar="MODEL")
@click.argument("version", metavar="VERSION")
@click.argument("suite", type=click.Path(), metavar="SUITE")
@click.option(
    "--targets",
    type=click.Path(),
    metavar="FILE",
    help="File that says how MODEL is asked.  [default: $LEADLINE_TARGETS or targets.toml]",
)
@click.option("--target", metavar="M", help="Instead: a LiteLLM name, an address http://…, or python:module:function.")
@click.option("--api-base", metavar="URL", help="OpenAI-compatible server of --target.")
@click.option("--answers", type=click.Path(), metavar="FILE", help="Dataset with its answers, if they are collected.")
@click.option("-e", "--evaluator", "evaluators", multiple=True, metavar="ID", help="An evaluator; repeatable.")
@click.option("--evaluator-suite", metavar="NAME", help="A named set of evaluators.")
@click.option("--judge", metavar="MODEL", help="Judge: a LiteLLM model name, or a judge of leadline.toml.")
@click.option("--judge-api-base", metavar="URL", help="Address of the judge's OpenAI-compatible server.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Least severity that fails the gate.  [default: high]")
@click.option(
    "--margin", type=click.FloatRange(0, 1), help="How much worse it may be, of a metric's range.  [default: 0.05]"
)
@click.option("--baseline", metavar="B", help="A version, tag or run.  [default: the last version that passed]")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Another field of the flow's form; repeatable."
)
@click.option("--again", is_flag=True, help="Evaluate although that was done; answers and scores are reused.")
@click.option("-o", "--output", type=click.Path(file_okay=False), metavar="DIR", help="Copy the results to DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@session_options
@click.pass_obj
def check_version(session: Session, /, as_json: bool, **options: Any) -> int:
    """Evaluate VERSION of MODEL on the cases of SUITE, compare it with the version before, and decide.

    The same model version, suite and configuration is evaluated once: repeating the command prints what was found.
    Leaves with 0 when the version passes, else with 1; also when another process is still at it.
    """
    config = _config(session, options)
    warn_of_ledger(config.store)
    with stoppable(_KEPT):
        result = on_an_api(session, lambda: _run(config), first=lambda: _check(config))
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
    """List the model versions that were evaluated, or are being evaluated, with decision and run."""
    from leadline.tasks.runs.versions import records

    found = [record for record in records(session.open_store()) if model in (None, record["model"])]
    if as_json:
        print_json(found)
        return
    columns = ("model", "version", "suite", "state", "decision", "baseline", "run", "finished")
    if not found:
        say("No model version was evaluated yet. Begin with: leadline check-version MODEL VERSION SUITE")
        return
    told = [record | {"finished": moment(record.get("finished"))} for record in found]
    print_table(columns, [[record.get(column) for column in columns] for record in told])


def _config(session: Session, options: dict[str, Any]) -> ModelVersionConfig:
    from leadline.flows.model_version.config import ModelVersionConfig

    given = read_settings(options["settings"])
    given |= {name: options[name] for name in ("model", "version", "suite")}
    given |= {name: options[name] for name in _SAME if options[name] is not None}
    for field, names in (("target", _TARGET), ("judges", _JUDGE)):
        stated = {inner: options[name] for name, inner in names.items() if options[name] is not None}
        if stated:
            given[field] = {**given.get(field, {}), **stated}
    if options["evaluators"]:
        given["evaluators"] = [id_ for text in options["evaluators"] for id_ in text.split(",") if id_]
    if options["again"]:
        given["again"] = True
    if session.store is not None:
        given["store"] = session.store
    with refusals("check-version", ModelVersionConfig):
        return ModelVersionConfig.model_validate(given)


def _check(config: ModelVersionConfig) -> None:
    """Refuse what the flow would refuse, before a server is started."""
    from leadline.flows.model_version.prepare import check_measured, target_of
    from leadline.tasks.collect import check_target
    from leadline.tasks.load import load_dataset
    from leadline.tasks.store.store import Store

    check_measured(config)
    if not config.answers:
        check_target(target_of(config))
    store = Store.open(config.store)
    load_dataset(store, config.suite, cases_only=True)
    if config.answers:
        load_dataset(store, config.answers)


def _run(config: ModelVersionConfig) -> ModelVersionResult:
    from leadline.flows.model_version.flow import on_model_version

    result: ModelVersionResult = on_model_version(config)
    return result


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
