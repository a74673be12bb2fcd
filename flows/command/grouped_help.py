"""Help that is short until ``--all`` is given, and has its options under headings where they are many."""

from __future__ import annotations

from typing import Any, Final

import click

from leadline.flows.shared.option_group import OptionGroup

_ALL: Final = "leadline.all"


class ShortHelp(click.Command):
    """A command whose help is shorter than it could be; ``--all``, alone or with ``--help``, shows the rest."""

    def offer_all(self, text: str, *, hidden: bool = False) -> None:
        """Add the option.

        Args:
            hidden: Leave it out of the list of options, because the help tells of it elsewhere.
        """

        def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
            if value:
                click.echo(ctx.get_help(), color=ctx.color)
                ctx.exit()

        self.params.append(
            click.Option(
                ["--all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=text, hidden=hidden
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether all is asked for, before ``--help``, which may stand first, is obeyed."""
        ctx.meta[_ALL] = "--all" in args
        return super().parse_args(ctx, args)

    @staticmethod
    def shows_all(ctx: click.Context) -> bool:
        """Return whether all is asked for."""
        return bool(ctx.meta.get(_ALL))


class GroupedOption(click.Option):
    """An option with a heading.

    Attributes:
        advanced: Only ``--help --all`` lists it.
    """

    def __init__(
        self, *args: Any, group: OptionGroup = OptionGroup.OTHER, advanced: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.advanced = advanced


class GroupedCommand(ShortHelp):
    """A command whose help lists options under their headings, in the order of :class:`OptionGroup`.

    Attributes:
        settings_line: What the short help says at its end of settings.
    """

    def __init__(self, *args: Any, settings_line: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings_line = settings_line
        if any(map(_is_advanced, self.params)):
            self.offer_all("Show all options.", hidden=True)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options. See :class:`click.Command`."""
        groups: dict[OptionGroup, list[tuple[str, str]]] = {group: [] for group in OptionGroup}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or (_is_advanced(parameter) and not self.shows_all(ctx)):
                continue
            if isinstance(parameter, click.Option):
                groups[_group_of(parameter)].append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the end: of the short help where the other options are. See :class:`click.Command`."""
        left_out = sum(map(_is_advanced, self.params))
        if self.shows_all(ctx) or not left_out:
            super().format_epilog(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            text = f"{left_out} more options: {ctx.command_path} --help --all. {self.settings_line}"
            formatter.write_text(text.rstrip())


def _is_advanced(parameter: click.Parameter) -> bool:
    return isinstance(parameter, GroupedOption) and parameter.advanced


def _group_of(parameter: click.Parameter) -> OptionGroup:
    """Return an option's heading; what ends in the session rather than in the command is of every command."""
    if isinstance(parameter, GroupedOption):
        return parameter.group
    return OptionGroup.OTHER if parameter.expose_value else OptionGroup.COMMON
