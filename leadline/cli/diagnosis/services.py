"""The Prefect server and the judges; a judge is asked only on request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from leadline.cli.diagnosis.diagnosis import Diagnosis, State

if TYPE_CHECKING:
    from leadline.evaluators.settings import JudgeConfig

_KEYS: Final = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
}
"""Variables with the keys of providers, by the beginning of a model's name."""

QUESTION: Final = "Reply with the word: ready"
REPLY_TOKENS: Final = 16
LONGEST_WAIT_S: Final = 15.0


def examine_server() -> Iterator[Diagnosis]:
    """Yield which Prefect server a run would use, and whether it answers."""
    from leadline.flows.prefect.background import answers, running
    from leadline.flows.prefect.prefect_settings import configured_api
    from leadline.flows.prefect.resolve import ServerUse, chosen_server

    api = configured_api()
    if chosen_server() is ServerUse.NONE:
        yield Diagnosis("server", State.OK, "none, as was chosen: runs leave no history in Prefect")
    elif api:
        if answers(api):
            yield Diagnosis("server", State.OK, "the one of PREFECT_API_URL answers")
        else:
            advice = "Start it, or unset PREFECT_API_URL to use one of this machine"
            yield Diagnosis("server", State.BROKEN, "the one of PREFECT_API_URL does not answer", advice)
    elif kept := running():
        if problem := kept.problem():
            yield Diagnosis("server", State.BROKEN, problem, "leadline service server stop, then start")
        else:
            yield Diagnosis("server", State.OK, f"kept at {kept.url}")
    else:
        yield Diagnosis(
            "server", State.OK, "none: runs leave no history in Prefect", "leadline service server start keeps one"
        )


def examine_judges(*, ask: bool = False) -> Iterator[Diagnosis]:
    """Yield which judges are configured, whether their keys are set, and on request whether the default one replies.

    Args:
        ask: Ask the default judge one short question, which may cost a fraction of a cent.
    """
    from leadline.evaluators.judge_client.choice import find_judges
    from leadline.evaluators.settings import JuryConfig, members_of

    judges = find_judges(None, None, None, os.environ)
    if not judges:
        advice = "--judge MODEL, or [judges.NAME] in leadline.toml; evaluators that ask none run without"
        yield Diagnosis("judge", State.MISSING, "none is configured", advice)
    for judge in judges:
        if isinstance(judge, JuryConfig):
            yield Diagnosis(f"judge {judge.key}", State.OK, f"a jury: {judge.model}")
        else:
            yield from _configured(judge)
    for judge in members_of(judges[0]) if ask and judges else ():
        yield _asked(judge)


def _configured(judge: JudgeConfig) -> Iterator[Diagnosis]:
    from leadline.evaluators.judge_client.budget import price

    part, state, advice = f"judge {judge.key}", State.OK, ""
    found = [judge.model]
    variable = _variable(judge)
    if variable is None:
        found.append("runs here" if judge.kind == "local" else "needs no key that is known of")
    elif os.environ.get(variable):
        found.append(f"key in {variable}")
    else:
        state, advice = State.MISSING, f"export {variable}=…"
        found.append(f"no key: {variable} is not set")
    if price(judge) is None:
        found.append("price unknown, so --max-cost refuses it")
        advice = advice or f"Write input_cost_per_token and output_cost_per_token into [judges.{judge.key}]"
    yield Diagnosis(part, state, ", ".join(found), advice)


def _variable(judge: JudgeConfig) -> str | None:
    """Return the variable that should hold a judge's key, ``None`` where it needs none or that is not known."""
    if judge.kind == "local":
        return None
    if judge.api_key_env or judge.api_base:
        return judge.api_key_env
    provider, slash, _ = judge.model.partition("/")
    return _KEYS.get(provider if slash else "openai")


def _asked(judge: JudgeConfig) -> Diagnosis:
    """Ask a judge one question in one attempt, outside of any run and its ledger."""
    from leadline.evaluators.judge_client.calls import JudgeError
    from leadline.evaluators.judge_client.event_loop import run
    from leadline.evaluators.judge_client.providers import remote_transport
    from leadline.evaluators.judge_client.transport import AttemptError

    part = f"judge {judge.key}"
    if judge.kind == "local":
        return Diagnosis(part, State.OK, "was not asked: leadline evaluators models says whether its weights are here")
    hasty = judge.model_copy(update={"timeout_s": min(judge.timeout_s, LONGEST_WAIT_S)})
    question = [{"role": "user", "content": QUESTION}]
    try:
        reply = run(remote_transport(hasty).send(hasty, question, None, REPLY_TOKENS))
    except (JudgeError, AttemptError) as error:
        return Diagnosis(part, State.BROKEN, f"does not reply: {error}", "Look at its address, its key and its log")
    return Diagnosis(part, State.OK, f"replied in {reply.seconds:.1f} s")
