"""LiteLLM, used as late as possible since its import takes seconds: its prices, its providers and the library itself.

Prices are the user's figures, else those of the table that comes with LiteLLM, else unknown. Without LiteLLM the usual
models of OpenAI have one all the same.
"""

from __future__ import annotations

import json
import logging
import os
import tomllib
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from leadline.evaluators.judge_client.failures import JudgeRefused
from leadline.evaluators.settings.judge_config import JudgeConfig

_TABLE: Final = "model_prices_and_context_window_backup.json"


def price(config: JudgeConfig) -> tuple[float, float] | None:
    """Return USD per input and per output token, ``None`` when unknown; what runs here costs nothing."""
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


@cache
def litellm() -> ModuleType:
    """Import LiteLLM (seconds) with its network access at import, telemetry and chatter off.

    Raises:
        JudgeRefused: It is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm as module
    except ImportError as error:
        raise JudgeRefused(
            f"LiteLLM cannot be imported: {error}.", hint="Install it: pip install -c constraints.txt -e '.[judge]'"
        ) from None

    from leadline.evaluators.judge_client.litellm_http import bound_replies

    module.suppress_debug_info = True
    module.telemetry = False
    module.drop_params = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it would show what servers say as they say it
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", module="pydantic")
    bound_replies()
    return module


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
