"""``leadline evaluators policy`` (list, show, check): what the gate blocks on."""

from __future__ import annotations

import click

from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import session_options


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_context
def policy(context: click.Context, as_json: bool) -> None:
    """List what a gate can block on, and show or check a policy."""
    if context.invoked_subcommand:
        return
    from leadline.tasks.policy.policy import load_policy, shipped

    found = [load_policy(name) for name in shipped()]
    if as_json:
        print_json([each.to_json() for each in found])
    else:
        print_table(("policy", "digest", "for"), [(each.name, each.digest, each.description) for each in found])


@policy.command()
@click.argument("name", metavar="[NAME|FILE]", required=False)
@click.option("--toml", "as_toml", is_flag=True, help="Print it as a file to edit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def show(name: str | None, as_toml: bool, as_json: bool) -> None:
    """Show in words what a policy asks.

    It is one of Leadline's, a file, or without a name the one that a run here takes.
    """
    from leadline.tasks.policy import policy_text
    from leadline.tasks.policy.policy import load_policy

    chosen = load_policy(name)
    if as_json:
        print_json(chosen.to_json())
    elif as_toml:
        click.echo(policy_text.as_toml(chosen), nl=False)
    else:
        for line in policy_text.in_words(chosen):
            click.echo(clean(line))


@policy.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@session_options
def check(files: tuple[str, ...]) -> None:
    """Check policy files, and print what differs from the default policy."""
    from leadline.tasks.policy import policy_text
    from leadline.tasks.policy.policy import DEFAULT, load_policy

    usual = load_policy(DEFAULT)
    for file in files:
        chosen = load_policy(file)
        lines = list(policy_text.differences(chosen, usual))
        end = f"What differs from {usual.name}:" if lines else f"It asks the same as {usual.name}."
        click.echo(f"{clean(chosen.name)} ({chosen.digest}) is a valid policy. {end}")
        for line in lines:
            click.echo(clean(line))
