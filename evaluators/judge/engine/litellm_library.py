"""LiteLLM, used as late as possible since its import takes seconds: its prices, its providers and the library itself.

Prices are the user's figures, else those of the table that comes with LiteLLM, else unknown.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.judge.engine.failures import JudgeRefused
from leadline.evaluators.judge.engine.judge_config import JudgeConfig

_TABLE: Final = "model_prices_and_context_window_backup.json"

_NONE: Final = "LLM Provider NOT provided"
"""LiteLLM's message for a name without a provider that it knows."""


def price(config: JudgeConfig) -> tuple[float, float] | None:
    """Return USD per input and per output token, ``None`` when unknown; what runs here costs nothing."""
    if config.input_cost_per_token is not None and config.output_cost_per_token is not None:
        return config.input_cost_per_token, config.output_cost_per_token
    if config.kind == "local":
        return 0.0, 0.0
    known = _table().get(config.model) or _table().get(config.model.partition("/")[2]) or {}
    sent, replied = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    if not isinstance(sent, int | float) or not isinstance(replied, int | float):
        return None
    return float(sent), float(replied)


def cost(config: JudgeConfig, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Return the price of a call in USD, ``None`` when it is unknown.

    Args:
        config: The judge.
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

    module.suppress_debug_info = True
    module.telemetry = False
    module.drop_params = True
    return module


def check_provider(config: JudgeConfig) -> None:
    """Refuse a name that LiteLLM will refuse at every call, since it does not say whose model it is.

    LiteLLM itself decides. Importing it takes seconds, so names in its table, and names after a provider in its table,
    pass without.

    Raises:
        UsageError: The name has no provider that LiteLLM knows.
        JudgeRefused: LiteLLM is not installed.
    """
    if _is_listed(config.model):
        return
    api = litellm()
    provider, slash, _ = config.model.partition("/")
    if slash and provider in api.provider_list:
        return  # to ask further, LiteLLM would log in to some of them
    try:
        api.get_llm_provider(config.model, api_base=config.api_base)
    except Exception as error:
        if _NONE in str(error):  # what else is wrong, the call says
            raise UsageError(
                f"LiteLLM knows no provider for the model {config.model!r}.",
                hint="Name the provider too, as in openai/gpt-4o-mini, also for a server of your own: openai/NAME with "
                "its address as api_base.",
                code=ErrorCode.JUDGE_PROVIDER,
            ) from None


def _is_listed(model: str) -> bool:
    """Return whether LiteLLM's table has a model, or else models of the provider that stands before its name."""
    provider, slash, _ = model.partition("/")
    return model in _table() or (bool(slash) and provider in _providers())


@cache
def _providers() -> frozenset[str]:
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
