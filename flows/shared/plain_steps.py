"""Running the steps of a job: the interface, and the way that needs no Prefect."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Logger: TypeAlias = "logging.Logger | logging.LoggerAdapter[Any]"


class JobSteps(Protocol):
    """Runs the steps of a job."""

    @property
    def log(self) -> Logger:
        """The log of the run."""

    def step(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one step and return what it returns."""

    def show(self, key: str, text: str, description: str) -> None:
        """Show a text in Markdown where the history is kept."""


class PlainSteps:
    """Runs the steps in this process, without Prefect and its history."""

    log: Logger = logging.getLogger("leadline.run")

    def step(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function.

        Args:
            name: Name of the step.
            function: What to call.
            **kwargs: Its keyword arguments.
        """
        return function(*args, **kwargs)

    def show(self, key: str, text: str, description: str) -> None:
        """Do nothing: there is no history.

        Args:
            key: Name of the text.
            description: What it is about.
        """
