"""Budgets: what a run may spend on judges. Reserved before a call, settled after it.

A ledger that other processes share keeps the budget of their run (:meth:`.Ledger.intend`);
:class:`Budget` is for one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from leadline.evaluators.judge.engine.failures import BudgetSpent


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run's spending; ``None`` is no limit."""

    calls: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """The expected cost of a call.

    Attributes:
        usd: The most that it is likely to cost in US dollars; ``None`` when its price is unknown.
    """

    usd: float | None


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
