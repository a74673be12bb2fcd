"""``leadline judges``: whether a judge can be trusted, which one is better, and whether it is still the same."""

from __future__ import annotations

import click

from leadline.cli.judge_certificate import judges_certify
from leadline.cli.judge_changes import judges_accept, judges_check, judges_enrol, judges_status
from leadline.cli.judge_choice import judges_compare, judges_train
from leadline.flows.command.session import session_options


@click.group()
@session_options
def judges() -> None:
    """Certify and compare judges, and notice when they change."""


judges.add_command(judges_certify)
judges.add_command(judges_compare)
judges.add_command(judges_train)
for _command in (judges_enrol, judges_check, judges_accept, judges_status):
    judges.add_command(_command)
