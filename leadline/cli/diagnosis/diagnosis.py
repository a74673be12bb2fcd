"""A diagnosis: one line for each thing that Leadline needs, with what to do where it is missing or broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from leadline.evaluators.ground import LeadlineError, masked


class State(StrEnum):
    """The state of a thing."""

    OK = "ok"
    MISSING = "missing"
    """Something optional is not here: what needs it cannot run, the rest can."""
    BROKEN = "broken"
    """A command will fail, or its results cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of one thing.

    Attributes:
        part: The thing.
        found: What was found, in a sentence without its point; never a key.
        advice: What to do, ``""`` where nothing is.
    """

    part: str
    state: State
    found: str
    advice: str = ""


Examination: TypeAlias = Callable[[], Iterable[Diagnosis]]


def diagnose(examinations: Sequence[tuple[str, Examination]]) -> Iterator[Diagnosis]:
    """Yield what examinations find, in their order; one that fails is a finding itself.

    Args:
        examinations: Each with the name of its part, which says where it failed.
    """
    for part, examine in examinations:
        try:
            yield from examine()
        except LeadlineError as error:
            yield Diagnosis(part, State.BROKEN, masked(str(error)))
        except (OSError, ValueError, ImportError) as error:
            yield Diagnosis(part, State.BROKEN, masked(f"{type(error).__name__}: {error}"))
