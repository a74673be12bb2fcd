"""Help with its options under headings, for commands that have many."""

from __future__ import annotations

from typing import Any

import click

from leadline.flows.shared.option_group import OptionGroup


class GroupedOption(click.Option):
    """An option with a heading.

    Attributes:
        group: The heading.
    """

    def __init__(self, *args: Any, group: OptionGroup = OptionGroup.OTHER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help lists options under their headings, in the order of :class:`OptionGroup`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options. See :class:`click.Command`."""
        groups: dict[OptionGroup, list[tuple[str, str]]] = {group: [] for group in OptionGroup}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups[_group_of(parameter)].append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def _group_of(parameter: click.Parameter) -> OptionGroup:
    """Return an option's heading; what ends in the session rather than in the command is of every command."""
    if isinstance(parameter, GroupedOption):
        return parameter.group
    return OptionGroup.OTHER if parameter.expose_value else OptionGroup.COMMON
