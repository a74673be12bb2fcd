"""Commands of Leadline that stand in files, and whether the program knows them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from leadline.cli.main import cli


def command_exists(words: Sequence[str]) -> bool:
    """Return whether the program has this command with these options; the first word is ``leadline``."""
    first, *arguments = words
    command: click.Command | None = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and arguments:
        command = command.get_command(context, arguments.pop(0))
    known = {option for parameter in command.params for option in parameter.opts} if command else set()
    return first == "leadline" and command is not None and {a for a in arguments if a.startswith("--")} <= known
