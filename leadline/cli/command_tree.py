"""The tree of commands: the first level, the groups, and what other packages bring to both.

Modules of this folder have the commands of the first level; a folder or module that :data:`GROUPS` names has those of a
group, and an entry point ``GROUP.NAME`` is a command of a group, too. Help lines are read from the source, and a module
is imported when one of its commands is used: so it imports what its commands need where it begins.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from leadline.evaluators.ground import ErrorCode, UsageError, extensions, is_own, own_source
from leadline.flows.command.grouped_help import ShortHelp
from leadline.flows.command.session import session_options

FIRST: Final = ("init", "evaluate", "show", "compare", "rescore", "ci", "ui", "collect", "doctor")
"""Commands of the first level, in the order of the help."""

GROUPS: Final = ("data", "labels", "judges", "store", "service", "evaluators")
"""Groups in the order of the help; the docstring of a group's folder or module says what it is for."""

MEANT: Final = {
    "help": ("--help",),
    "list": ("store runs", "evaluators list"),
    "metrics": ("evaluators list", "service telemetry"),
    "plan": ("evaluate --plan",),
    "report": ("show",),
    "run": ("evaluate",),
    "score": ("evaluate",),
    "version": ("--version",),
}
"""Commands of other tools, and what does that here."""

ENTRY_POINTS: Final = "leadline.commands"
"""Entry points by which packages bring commands: ``NAME = "module:command"`` and ``GROUP.NAME = "module:command"``."""

_HERE: Final = Path(__file__).parent
_NO_COMMANDS: Final = frozenset({"main", "command_tree", *GROUPS})
"""Modules here without commands of the first level."""

# Whose command it is (click's, or a group's of the same module), its name if given, its function, its first sentence.
_COMMAND: Final = re.compile(
    r'^@(\w+)\.(?:command|group)\((?:"([\w-]+)")?.*?^def (\w+)\(.*?"""(.*?\.)(?=\s|""")', re.M | re.S
)


class _Written(NamedTuple):
    """A command as its source has it."""

    owner: str
    name: str
    function: str
    line: str


def _written(source: str) -> Iterator[_Written]:
    for owner, name, function, text in _COMMAND.findall(source):
        yield _Written(owner, name or function.replace("_", "-"), function, " ".join(text.split()))


@cache
def own_commands() -> dict[str, EntryPoint]:
    """Return the commands of this folder by name; those of a group as ``GROUP.NAME``."""
    found = {}
    for group in ("", *GROUPS):
        for file in _modules(group):
            module = ".".join(("leadline.cli", *file.relative_to(_HERE).with_suffix("").parts))
            for each in _written(file.read_text(encoding="utf-8")):
                if each.owner == "click":
                    name = f"{group}.{each.name}" if group else each.name
                    found[name] = EntryPoint(name, f"{module}:{each.function}", ENTRY_POINTS)
    return found


def _modules(group: str) -> list[Path]:
    """Return the modules with the commands of a group, or without its name of the first level."""
    if (module := _HERE / f"{group}.py").is_file():
        return [module]
    return sorted(file for file in (_HERE / group).glob("*.py") if group or file.stem not in _NO_COMMANDS)


@cache
def commands() -> dict[str, EntryPoint]:
    """Return all commands by name; other packages replace none of ours, and no group."""
    others = {entry.name: entry for entry in extensions(ENTRY_POINTS) if entry.name not in GROUPS}
    return dict(sorted((others | own_commands()).items()))


def group_of(name: str) -> str:
    """Return the group of a command; ``""`` where it is of the first level."""
    group, dot, _ = name.partition(".")
    return group if dot and group in GROUPS else ""


def typed(name: str) -> str:
    """Return what is typed for a command."""
    return name.replace(".", " ", 1) if group_of(name) else name


def help_lines(entry: EntryPoint) -> dict[str, str]:
    """Return what the help says of a command and of those within it, by what is typed.

    It is read from the source; only what another package brings is imported.
    """
    if not _is_ours(entry):
        return {typed(entry.name): _load(entry).get_short_help_str(limit=90)}
    lines = {}
    for each in _written(_source_of(entry)):
        if each.function == entry.attr:
            lines[typed(entry.name)] = each.line
        elif each.owner == entry.attr:
            lines[f"{typed(entry.name)} {each.name}"] = each.line
    return lines


def _is_ours(entry: EntryPoint) -> bool:
    return entry.name in own_commands() or is_own(entry)


def _source_of(entry: EntryPoint) -> str:
    if is_own(entry):
        return own_source(entry)
    return _HERE.joinpath(*entry.module.split(".")[2:]).with_suffix(".py").read_text(encoding="utf-8")


def about(group: str) -> str:
    """Return what a group is for."""
    module = _HERE / f"{group}.py"
    source = module if module.is_file() else _HERE / group / "__init__.py"
    return ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""


def _load(entry: EntryPoint) -> click.Command:
    """Import a command, whatever may fail in that of another package."""
    if entry.name in own_commands():
        command: click.Command = entry.load()
        return command
    try:
        command = entry.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.value} is not a click command")
    except Exception as error:
        raise UsageError(
            f"The command {typed(entry.name)!r} cannot be imported: {type(error).__name__}: {error}.",
            hint=f"Repair or uninstall the package with {entry.value}.",
            code=ErrorCode.CONFIG_OPTION,
        ) from error
    return command


@cache
def _group(name: str) -> click.Group:
    @click.group(name, cls=CommandTree, help=about(name))
    @session_options
    def group() -> None: ...

    return group


class CommandTree(ShortHelp, click.Group):
    """The program or one of its groups; imports a command's module when the command is used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._group = self.name if self.name in GROUPS else ""
        self.offer_all("List also the commands within groups.")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands: ours, the groups, those of other packages. See :class:`click.Group`."""
        here = [name for name in commands() if group_of(name) == self._group]
        if self._group:
            return [name.partition(".")[2] for name in here]
        first = [name for name in FIRST if name in here]
        return [*first, *GROUPS, *(name for name in here if name not in first)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command. See :class:`click.Group`."""
        if not self._group and cmd_name in GROUPS:
            return _group(cmd_name)
        name = f"{self._group}.{cmd_name}" if self._group else cmd_name
        if group_of(name) != self._group:
            return None
        entry = own_commands().get(name) or commands().get(name)  # ours without reading what is installed
        return _load(entry) if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or suggest what was meant. See :class:`click.Group`."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            meant = " or ".join(f"leadline {each}" for each in self._meant(args[0], self.list_commands(ctx)))
            hint = f" Did you mean {meant}?" if meant else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, word: str, here: list[str]) -> list[str]:
        """Return what somebody may have meant, exactly or nearly: a command of this group or of another one."""
        anywhere: dict[str, list[str]] = {}
        for each in (*GROUPS, *(line for entry in commands().values() for line in _typed_in(entry))):
            anywhere.setdefault(each.rpartition(" ")[2], []).append(each)
        if exact := [*MEANT.get(word, ()), *anywhere.get(word, ())]:
            return list(dict.fromkeys(exact))
        if near := difflib.get_close_matches(word, here, n=1):
            return [f"{self._group} {near[0]}".lstrip()]
        if self._group == "evaluators":  # what is no command here is mostly an evaluator's id
            return [f"evaluators show {word}"]
        return anywhere[near[0]] if (near := difflib.get_close_matches(word, anywhere, n=1)) else []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete names, importing only commands of other packages. See :class:`click.Group`."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._line_of(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _line_of(self, name: str) -> str:
        """Return what the help says of a command of this group."""
        if not self._group and name in GROUPS:
            return about(name)
        entry = commands()[f"{self._group}.{name}" if self._group else name]
        return _rows([entry], every=False)[0][1]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, importing only those of other packages. See :class:`click.Group`."""
        every = self.shows_all(ctx)
        here = [entry for name, entry in commands().items() if group_of(name) == self._group]
        if self._group:
            sections = {"Commands": _rows(here, every, below=self._group)}
        else:
            first = [commands()[name] for name in FIRST if name in commands()]
            sections = {"Commands": _rows(first, every)}
            if every:
                for group in GROUPS:
                    inside = [entry for name, entry in commands().items() if group_of(name) == group]
                    sections[about(group).rstrip(".")] = _rows(inside, every)
            else:
                sections["Groups"] = [(group, about(group)) for group in GROUPS]
            sections["From other packages"] = _rows([entry for entry in here if entry not in first], every)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _typed_in(entry: EntryPoint) -> list[str]:
    """Return what is typed for a command and those within it, as far as that is known without importing it."""
    return list(help_lines(entry)) if _is_ours(entry) else [typed(entry.name)]


def _rows(entries: list[EntryPoint], every: bool, below: str = "") -> list[tuple[str, str]]:
    """Return the lines of commands in the help.

    Args:
        every: Also those of commands within them.
        below: The group whose help it is.
    """
    rows = []
    for entry in entries:
        try:
            lines = list(help_lines(entry).items())
        except UsageError as error:  # the help remains readable beside a broken package
            lines = [(typed(entry.name), str(error))]
        rows += lines if every else lines[:1]
    return [(words.removeprefix(f"{below} "), line) for words, line in rows]
