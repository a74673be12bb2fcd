"""``leadline rescore``: the answers of earlier runs, scored by another judge."""

from __future__ import annotations

from typing import Any

import click

from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options, split_ids
from leadline.flows.command.running import print_outcome, run_job
from leadline.flows.command.session import Session, server_option, session_options
from leadline.flows.rescore import Rescore, RescoreConfig


@click.command(cls=GroupedCommand)
@form_options(RescoreConfig)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def rescore(session: Session, /, as_json: bool, **options: Any) -> None:
    """Score the answers of the last runs again, by another judge.

    Without --judge they are scored as prompts and evaluators are now. Scores and replies that the store has are reused,
    and the price is told before: with --yes the judge is asked. Each run gets one beside it that stands at its time in
    trends, and the difference between the two judges is told with its interval.
    """
    options["evaluators"] = split_ids(options["evaluators"])
    config = fill_in(RescoreConfig, "rescore", options | {"store": session.store})
    print_outcome(Rescore(), run_job(session, Rescore(), config), as_json=as_json)
