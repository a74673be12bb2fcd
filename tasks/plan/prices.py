"""Refusing a limit of cost for models whose price is unknown, before anything is read: no call could be admitted."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.text import count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.litellm_library import price
from leadline.evaluators.settings.judge_config import JudgeConfig

_LINES: Final = (
    "the two lines input_cost_per_token = 1.5e-7 and output_cost_per_token = 6e-7, with its own prices in USD; or "
    "limit the number of calls instead: --max-calls N."
)


def _install() -> str:
    return "" if find_spec("litellm") else "Install the table of all prices: pip install 'leadline[judge]'. Or: "


def require_judge_price(judge: JudgeConfig, limits: Limits) -> None:
    """Refuse a judge whose price is unknown where money is limited.

    Args:
        limits: What may be spent.

    Raises:
        UsageError: Its price is unknown.
    """
    if not limits.of_cost or price(judge) is not None:
        return
    named = "" if judge.key != "default" else f', with model = "{judge.model}",'
    raise UsageError(
        f"The price of the judge {judge.model!r} is unknown, so a cost limit (--max-cost, month_cost) allows no call.",
        hint=f"{_install()}Write into its table [judges.{judge.key}] of leadline.toml{named} {_LINES}",
        code=ErrorCode.JUDGE_PRICE,
    )


def require_model_price(model: JudgeConfig, limits: Limits, call_cost: float | None, *, by_token: bool) -> None:
    """Refuse a model under test whose price is unknown where money is limited.

    Args:
        model: How it is called.
        limits: What may be spent.
        call_cost: The most that one call costs, ``None`` where that is not stated.
        by_token: Whether it is priced by token.

    Raises:
        UsageError: Its price is unknown.
    """
    if not limits.of_cost or call_cost is not None or price(model) is not None:
        return
    lines = _LINES if by_token else "the line call_cost_usd = 0.01, the most that one call of it costs in USD."
    raise UsageError(
        f"The price of the model {model.key!r} is unknown, so a cost limit (--max-cost, month_cost) allows no call.",
        hint=f"Write into its table [[model]] of a targets file {lines}",
        code=ErrorCode.JUDGE_PRICE,
    )


def paid_in_words(calls: int, unknown: int, cost_usd: float) -> str:
    """Say what calls cost; an unknown cost is reported as unknown, not as zero.

    Args:
        calls: Calls that were answered.
        unknown: Those of them whose price is unknown.
        cost_usd: What the others cost.
    """
    price = "price unknown" if unknown == calls else f"${cost_usd:.4f}"
    return price + (f" and {count(unknown, 'call')} of unknown price" if 0 < unknown < calls else "")
