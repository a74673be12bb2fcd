"""A check that LiteLLM knows the provider of a model's name, made before anything else is started."""

from __future__ import annotations

from typing import Final

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.evaluators.judge.engine.prices import is_listed

_NONE: Final = "LLM Provider NOT provided"
"""LiteLLM's message for a name without a provider that it knows."""


def check_provider(config: JudgeConfig) -> None:
    """Refuse a name that LiteLLM will refuse at every call, since it does not say whose model it is.

    LiteLLM itself decides. Importing it takes seconds, so names in its table, and names after a provider in its table,
    pass without.

    Raises:
        UsageError: The name has no provider that LiteLLM knows.
        JudgeRefused: LiteLLM is not installed.
    """
    if is_listed(config.model):
        return
    from leadline.evaluators.judge.engine.transport import litellm

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
