"""``leadline collect``: ask models under test for their answers."""

from __future__ import annotations

from typing import Any

import click

from leadline.flows.collect import Collect, CollectConfig
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.running import print_outcome, run_job
from leadline.flows.command.session import Session, server_option, session_options


@click.command(cls=GroupedCommand)
@form_options(CollectConfig)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@server_option
@session_options
@click.pass_obj
def collect(session: Session, /, as_json: bool, **options: Any) -> None:
    """Ask models for their answers to the cases of SUITE.

    The result is a dataset for `leadline evaluate`. SUITE is any dataset; answers in it are ignored. Answers that were
    given before are not asked for again, unless the model's configuration or --model-version changed. A call that
    failed is an error in its row, and asked again by the same command.

    A conversation is held anew: what the user said is replayed, and tools return what they returned.
    """
    config = fill_in(CollectConfig, "collect", options | {"store": session.store})
    print_outcome(Collect(), run_job(session, Collect(), config), as_json=as_json)
