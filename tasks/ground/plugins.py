"""Classes that extend Leadline, by name: those of a package of this project and those that other packages bring.

A class of this project is registered by importing its module. Another package names a module to import in an entry
point of the group. Nothing is imported before the first look-up.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, extensions, one_line


class Named(Protocol):
    """A class with a name of its own."""

    name: ClassVar[str]


C = TypeVar("C", bound=Named)
T = TypeVar("T", bound=type[Any])


_LONGEST: Final = 500
"""Characters of another error's text."""


def failure(kind: str, plugin: Named, error: Exception, code: ErrorCode, where: str = "") -> LeadlineError:
    """Return the error that a plugin failed, by its name, its class and thereby its package.

    Args:
        kind: What it is called in messages, e.g. ``exporter``.
        where: The file with the line, where that is known.
    """
    of = f"{type(plugin).__module__}.{type(plugin).__qualname__}"
    text = one_line(f"{type(error).__name__}: {error}")[:_LONGEST].rstrip(". ")
    return LeadlineError(
        f"The {kind} {plugin.name!r} ({of}) failed{f' in {where}' if where else ''}: {text}.",
        hint=code.advice,
        code=code,
    )


class Plugins(Generic[C]):
    """The classes of one kind."""

    def __init__(self, kind: str, package: str, group: str) -> None:
        """Remember where to look.

        Args:
            kind: What one is called in messages, e.g. ``exporter``.
            package: The package whose modules register the project's own.
        """
        self.kind = kind
        self.package = package
        self.group = group
        self._found: dict[str, type[C]] = {}
        self._complete = False

    def register(self, plugin: T) -> T:
        """Class decorator that makes a class known by its name; a second one of that name is an error."""
        known = self._found.get(plugin.name)
        if known is not None and (known.__module__, known.__qualname__) != (plugin.__module__, plugin.__qualname__):
            raise UsageError(
                f"Two {self.kind}s are called {plugin.name!r}: {known.__module__}.{known.__qualname__} "
                f"and {plugin.__module__}.{plugin.__qualname__}.",
                hint="Rename one of them.",
                code=ErrorCode.PLAN_SAME_ID,
            )
        self._found[plugin.name] = cast("type[C]", plugin)
        return plugin

    def all(self) -> list[type[C]]:
        """Return every known class, in the order of their modules' names."""
        if not self._complete:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            for entry in extensions(self.group):
                entry.load()
            self._complete = True
        return list(self._found.values())

    def get(self, name: str) -> type[C]:
        """Return the class of this name; an unknown one is a :class:`UsageError` that suggests the nearest ones."""
        known = {plugin.name: plugin for plugin in self.all()}
        if name in known:
            return known[name]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(sorted(known))}."
        raise UsageError(f"There is no {self.kind} called {name!r}.", hint=hint, code=ErrorCode.CONFIG_OPTION)
