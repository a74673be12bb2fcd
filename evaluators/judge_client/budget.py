"""Prices of calls, and budgets: what a run, and a team in a month, may spend. Reserved before a call, settled after it.

Prices are the user's figures, else those of the table that comes with LiteLLM, else unknown. Without LiteLLM the usual
models of OpenAI have one all the same.

A ledger that other processes share keeps the budgets of their run and of its team (:meth:`.Ledger.intend`);
:class:`Budget` is for one process.

::

    [budgets.search]
    month_cost = 200
    month_calls = 50000
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.ground import FILE, ErrorCode, UsageError, named_tables, project_scope
from leadline.evaluators.judge_client.calls import BudgetSpent, Charge
from leadline.evaluators.settings import JudgeConfig, JuryConfig

_TABLE: Final = "model_prices_and_context_window_backup.json"
_TEAM_VARIABLE: Final = "LEADLINE_TEAM"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class TeamBudget:
    """The limits of what all runs of a team spend together in a month (UTC); without any it is only added up.

    Attributes:
        team: The team's name.
        calls: Calls in a month; ``None`` is no limit.
        cost_usd: US dollars in a month; ``None`` is no limit.
    """

    team: str
    calls: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run's spending; ``None`` is no limit.

    Attributes:
        calls: Calls of the run.
        cost_usd: US dollars of the run.
        team: The monthly budget of its team, against which it counts as well.
    """

    calls: int | None = None
    cost_usd: float | None = None
    team: TeamBudget | None = None

    @property
    def of_cost(self) -> bool:
        """True if money is limited, so that no call of unknown price can be admitted."""
        return self.cost_usd is not None or (self.team is not None and self.team.cost_usd is not None)


def admit(limits: Limits, calls: int, usd: float, charge: Charge) -> float:
    """Return the money to set aside for one more call.

    Args:
        limits: What may be spent.
        calls: Calls made so far.
        usd: US dollars spent and set aside so far.
        charge: What the call may cost.

    Raises:
        BudgetSpent: The call would exceed a limit, or its price is unknown under a cost limit.
    """
    if limits.calls is not None and calls >= limits.calls:
        raise BudgetSpent(f"The budget of {limits.calls} calls is spent.", hint="Raise --max-calls.")
    if limits.cost_usd is not None:
        if charge.usd is None:
            raise BudgetSpent(
                "The price is unknown, so a cost limit cannot be kept.",
                hint="Give its input_cost_per_token and output_cost_per_token (leadline.toml, targets file).",
            )
        if usd + charge.usd > limits.cost_usd:
            raise BudgetSpent(f"The budget of ${limits.cost_usd:g} is spent.", hint="Raise --max-cost.")
    return charge.usd or 0.0


def admit_team(budget: TeamBudget, month: str, calls: int, usd: float, charge: Charge) -> None:
    """Check one more call against a team's budget.

    Args:
        calls: Calls made in the month so far.
        usd: US dollars spent and set aside in the month so far.
        charge: What the call may cost.

    Raises:
        BudgetSpent: The call would exceed a limit, or its price is unknown under a cost limit.
    """
    if budget.cost_usd is not None and charge.usd is None:
        raise BudgetSpent(
            f"The price is unknown, so the monthly cost limit of team {budget.team} cannot be kept.",
            hint="Give its input_cost_per_token and output_cost_per_token (leadline.toml, targets file).",
        )
    too_many = budget.calls is not None and calls >= budget.calls
    too_dear = budget.cost_usd is not None and usd + (charge.usd or 0.0) > budget.cost_usd
    if too_many or too_dear:
        of_calls = "" if budget.calls is None else f" of {budget.calls:,}"
        of_usd = "" if budget.cost_usd is None else f" of ${budget.cost_usd:,.2f}"
        raise BudgetSpent(
            f"The budget of team {budget.team} for {month} is spent: {calls:,}{of_calls} calls, ${usd:,.2f}{of_usd}, "
            f"with what is set aside for calls in flight; it renews on {renewal(month)} (UTC).",
            hint=f"Raise {'month_calls' if too_many else 'month_cost'} of [budgets.{budget.team}] in leadline.toml.",
        )


def month_of(seconds: float) -> str:
    """Return the month (UTC) of a time in seconds since 1970, as ``2026-11``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m")


def renewal(month: str) -> str:
    """Return the first day after a month, when its budgets begin anew."""
    year, number = map(int, month.split("-"))
    return f"{year + number // 12:04}-{number % 12 + 1:02}-01"


class Budget:
    """Admits calls as long as the limits allow; shared by all threads of a process.

    A call whose price is unknown cannot be admitted under a cost limit: unknown is not free.
    """

    def __init__(self, limits: Limits, *, spent_calls: int = 0, spent_usd: float = 0.0) -> None:
        self._limits = limits
        self._lock = Lock()
        self._calls = spent_calls
        self._usd = spent_usd
        self._reserved = 0.0

    def reserve(self, estimate_usd: float | None) -> float:
        """Set money aside for one call and return how much.

        Raises:
            BudgetSpent: The call would exceed a limit, or its price is unknown under a cost limit.
        """
        with self._lock:
            aside = admit(self._limits, self._calls, self._usd + self._reserved, Charge(estimate_usd))
            self._calls += 1
            self._reserved += aside
            return aside

    def settle(self, reserved: float, cost_usd: float | None) -> None:
        """Replace a reservation by what the call cost; an unknown cost is taken as reserved.

        Args:
            reserved: US dollars that :meth:`reserve` set aside for the call.
            cost_usd: US dollars that it cost; ``None`` when unknown.
        """
        with self._lock:
            self._reserved -= reserved
            self._usd += reserved if cost_usd is None else cost_usd

    def release(self, reserved: float) -> None:
        """Give back what a call that never got an answer had reserved."""
        with self._lock:
            self._reserved -= reserved
            self._calls -= 1

    @property
    def calls(self) -> int:
        """Calls admitted so far."""
        return self._calls

    @property
    def spent_usd(self) -> float:
        """Money spent so far."""
        return self._usd


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
    named = team or (scope.team if scope else "") or environment.get(_TEAM_VARIABLE)
    if not named:
        return None
    budgets = team_budgets(file)
    if named not in budgets:
        there = f"there are {', '.join(sorted(budgets))}" if budgets else "there are none"
        raise UsageError(
            f"{file or FILE} has no budget for the team {named[:64]!r}; {there}.",
            hint=f"Write [budgets.TEAM] with month_cost or month_calls, or correct --team or {_TEAM_VARIABLE}.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return budgets[named]


def price(config: JudgeConfig) -> tuple[float, float] | None:
    """Return USD per input and per output token, ``None`` when unknown; what runs here costs nothing.

    A jury's is the sum of its judges', since each of them is asked.
    """
    if isinstance(config, JuryConfig):
        prices = [each for each in map(price, config.members) if each is not None]
        if len(prices) < len(config.members):
            return None
        return sum(sent for sent, _ in prices), sum(replied for _, replied in prices)
    if config.input_cost_per_token is not None and config.output_cost_per_token is not None:
        return config.input_cost_per_token, config.output_cost_per_token
    if config.kind == "local":
        return 0.0, 0.0
    table = _table() or openai_prices()
    known = table.get(config.model) or table.get(config.model.partition("/")[2]) or {}
    sent, replied = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    if not isinstance(sent, int | float) or not isinstance(replied, int | float):
        return None
    return float(sent), float(replied)


def cost(config: JudgeConfig, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Return the price of a call in USD, ``None`` when it is unknown.

    Args:
        input_tokens: Tokens of the question; ``None`` when unknown.
        output_tokens: Tokens of the reply; ``None`` when unknown.
    """
    known = price(config)
    if known is None or input_tokens is None or output_tokens is None:
        return None
    return input_tokens * known[0] + output_tokens * known[1]


def listed(model: str) -> Mapping[str, Any]:
    """Return what LiteLLM's table says of a model; nothing where it does not list it, or is not installed."""
    known: Mapping[str, Any] = _table().get(model, {})
    return known


@cache
def providers() -> frozenset[str]:
    """Return the providers of LiteLLM's table."""
    return frozenset(str(known.get("litellm_provider")) for known in _table().values())


@cache
def _table() -> dict[str, Any]:
    """Read LiteLLM's table from its package: importing LiteLLM takes seconds."""
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _TABLE
        if path.exists():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


@cache
def openai_prices() -> Mapping[str, Any]:
    """Return the prices of OpenAI's usual models, as LiteLLM's table has them."""
    prices = tomllib.loads(Path(__file__).with_name("openai_prices.toml").read_text(encoding="utf-8"))
    names = ("input_cost_per_token", "output_cost_per_token")
    return {model: dict(zip(names, (each / 1e6 for each in both), strict=True)) for model, both in prices.items()}
