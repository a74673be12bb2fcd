"""Commands of Leadline that stand in files, and whether the program knows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import click

from leadline.cli.main import cli


@cache
def all_commands() -> dict[tuple[str, ...], click.Command]:
    """Return every command and group by the words that are typed for it."""

    def below(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if path:
            yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from below((*path, name), inner)

    return dict(below((), cli))


def command_exists(words: Sequence[str]) -> bool:
    """Return whether the program has this command with these options; the first word is ``leadline``."""
    first, *arguments = words
    path = max((path for path in all_commands() if path == tuple(arguments[: len(path)])), key=len, default=())
    command = all_commands().get(path)
    if first != "leadline" or command is None or (isinstance(command, click.Group) and path != tuple(arguments)):
        return False
    known = {option for parameter in command.params for option in parameter.opts}
    return {word for word in arguments if word.startswith("--")} <= known
