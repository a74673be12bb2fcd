"""The monthly budgets of teams in ``leadline.toml``.

::

    [budgets.search]
    month_cost = 200
    month_calls = 50000
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.project_scope import project_scope
from leadline.evaluators.ground.settings_file import FILE, named_tables
from leadline.evaluators.judge_client.budget import TeamBudget

TEAM_VARIABLE: Final = "LEADLINE_TEAM"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class _BudgetTable(BaseModel):
    """A table ``[budgets.TEAM]``."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    month_cost: float | None = Field(None, ge=0, allow_inf_nan=False, description="US dollars in a month.")
    month_calls: int | None = Field(None, ge=0, lt=2**31, description="Calls in a month.")


def team_budgets(file: Path | None) -> dict[str, TeamBudget]:
    """Return the budgets of a configuration file by team; none if it has none.

    Args:
        file: The configuration file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The file is broken.
    """
    tables = named_tables(
        "budgets",
        _BudgetTable,
        file,
        names=_NAME,
        rule="Up to 64 letters, digits, points, hyphens and underscores.",
        example="month_cost = 200",
    )
    return {team: TeamBudget(team, limits.month_calls, limits.month_cost) for team, limits in tables.items()}


def team_budget(team: str | None, file: Path | None, environment: Mapping[str, str]) -> TeamBudget | None:
    """Return the budget that a run counts against; ``None`` where no team is named.

    Args:
        team: The team; else ``$LEADLINE_TEAM``.
        file: The configuration file; by default ``leadline.toml`` here, if there is one.
        environment: The environment's variables.

    Raises:
        UsageError: The file is broken, or has no budget for the team, whose calls would be without limit.
    """
    scope = project_scope(environment)
    if scope is not None and scope.team and (team or scope.team) != scope.team:
        raise scope.refused("This team", f"the budget of {scope.team}")
    named = team or (scope.team if scope else "") or environment.get(TEAM_VARIABLE)
    if not named:
        return None
    budgets = team_budgets(file)
    if named not in budgets:
        there = f"there are {', '.join(sorted(budgets))}" if budgets else "there are none"
        raise UsageError(
            f"{file or FILE} has no budget for the team {named[:64]!r}; {there}.",
            hint=f"Write [budgets.TEAM] with month_cost or month_calls, or correct --team or {TEAM_VARIABLE}.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return budgets[named]
