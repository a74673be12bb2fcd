"""Counting problems by severity, with those of models apart from those of the instrument and the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.data import Severity

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Tally: TypeAlias = dict[str, dict[str, int]]
"""``{"model": {"high": 1, …}, "instrument": {"high": 0, …}}``: problems by severity, worst first."""

_FAILING: Final[dict[str, tuple[str, ...]]] = {"never": ("high",), "high": ("high",), "medium": ("high", "medium")}


def failing_severities(fail_on: str) -> tuple[str, ...]:
    """Return the severities of models' problems that fail the gate; ``never`` decides as ``high`` does."""
    return _FAILING[fail_on]


def tally(problems: Iterable[tuple[str, bool]]) -> Tally:
    """Count problems, each given as its severity and whether the instrument or the data is at fault."""
    counted = Counter(problems)
    return {
        whose: {severity.value: counted[severity.value, instrument] for severity in Severity}
        for whose, instrument in (("model", False), ("instrument", True))
    }


def tally_run(connection: DuckDBPyConnection) -> Tally:
    """Count the problems in a run's table."""
    return tally(connection.execute("SELECT severity, instrument FROM problems").fetchall())


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by severity as "1 high, 2 low", or "none"."""
    return ", ".join(f"{count:,} {severity}" for severity, count in counts.items() if count) or "none"


def tally_in_words(found: Mapping[str, Mapping[str, int]]) -> str:
    """Return a line for people: the problems of models, and those of the instrument, which do not count."""
    instrument = in_words(found["instrument"])
    never = " (these never fail the gate)" if instrument != "none" else ""
    return f"of models: {in_words(found['model'])}; of the instrument or the data: {instrument}{never}"


def what_counts(record: Mapping[str, Any]) -> str:
    """Return in a few words the problems that a run's gate counts, or ``""`` if that is not on record."""
    config = record.get("config")
    fail_on = str(config.get("fail_on")) if isinstance(config, Mapping) else ""
    if fail_on not in _FAILING:
        return ""
    return f"counted: model problems of {' and '.join(_FAILING[fail_on])} severity"
