"""Whose model a name means, and the wire by which it is asked: the OpenAI protocol directly, all else by LiteLLM."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge_client.budget import listed, providers
from leadline.evaluators.judge_client.litellm_transport import LiteLLMTransport, litellm
from leadline.evaluators.judge_client.openai_protocol import OpenAITransport
from leadline.evaluators.judge_client.transport import Transport
from leadline.evaluators.settings import JudgeConfig

_OPENAI: Final = frozenset({"openai", "hosted_vllm", "lm_studio", "llamafile"})
"""Providers before a name whose servers speak the OpenAI protocol and no other."""

_OLLAMA: Final = frozenset({"ollama", "ollama_chat"})
"""Providers whose servers speak it at the address that ends in ``/v1``."""

_BRIDGED: Final = "responses/"
"""Begins the name of a model that LiteLLM is to ask by OpenAI's other protocol."""

_NONE: Final = "LLM Provider NOT provided"
"""LiteLLM's message for a name without a provider that it knows."""


def remote_transport(config: JudgeConfig) -> Transport:
    """Return the wire to a model on a server.

    Raises:
        JudgeRefused: It is LiteLLM's, which is not installed.
    """
    name = openai_name(config)
    if name is not None:
        return OpenAITransport(name)
    return LiteLLMTransport()


def openai_name(config: JudgeConfig) -> str | None:
    """Return the name by which a server of the OpenAI protocol knows a model, ``None`` where LiteLLM must ask it.

    A name without a provider is OpenAI's if LiteLLM's table says so, and that of a server of the user's own
    (``api_base``) if the table does not know it.
    """
    provider, slash, name = config.model.partition("/")
    known = listed(config.model)
    if name.startswith(_BRIDGED):
        return None
    if config.api_base is None:
        ours = provider == "openai" if slash else known.get("litellm_provider") == "openai"
        chats = (known or listed(name)).get("mode", "chat") == "chat"  # not by the API of completions or responses
        return (name if slash else config.model) if ours and chats else None
    if not slash:
        return config.model if known.get("litellm_provider", "openai") == "openai" else None
    of_ollama = provider in _OLLAMA and urlsplit(config.api_base).path.endswith("/v1")
    return name if provider in _OPENAI or of_ollama else None


def check_provider(config: JudgeConfig) -> None:
    """Refuse a name that LiteLLM will refuse at every call, since it does not say whose model it is.

    LiteLLM itself decides. Importing it takes seconds, so names in its table, and names after a provider in its table,
    pass without.

    Raises:
        UsageError: The name has no provider that LiteLLM knows.
        JudgeRefused: LiteLLM is not installed.
    """
    if openai_name(config) is not None or _is_listed(config.model):
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
    return bool(listed(model)) or (bool(slash) and provider in providers())
