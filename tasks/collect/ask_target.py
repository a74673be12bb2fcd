"""Putting one case to one model: the call, and the answer in its reply, which comes from the model or the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from leadline.evaluators.judge_client.budget import Budget
from leadline.evaluators.judge_client.calls import Call, Ledger, Reply
from leadline.evaluators.judge_client.client import JudgeClient, shared_gate
from leadline.evaluators.judge_client.failures import JudgeError, JudgeUnavailable
from leadline.evaluators.judge_client.providers import check_provider, remote_transport
from leadline.evaluators.judge_client.transport import NO_TEXT, Transport
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.function_target import FunctionTransport, load_function
from leadline.tasks.collect.http_target import HttpTransport, request_of
from leadline.tasks.collect.replies import TargetAnswer
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import render_text
from leadline.tasks.load.values import ValueFault

MOST_REPLIES: Final = 10
"""Replies without an answer after which a case is not asked again in later runs."""

TRUNCATED: Final = "length"
_NO_TEXT: Final = {
    "content_filter": "the provider's content filter withheld the answer",
    TRUNCATED: "the reply ended at its token limit before any text; raise max_tokens",
    "tool_calls": "the model called a tool instead of answering",
    "function_call": "the model called a tool instead of answering",
    NO_TEXT: "the content of the reply is no text",
}
"""Why a reply has no text, by its end; one that ended by itself is an empty answer."""


def check_target(target: Target) -> None:
    """Check that a model can be asked, without asking it.

    Raises:
        UsageError: A variable of the environment is not set, there is no such function, or LiteLLM does not know
            the provider.
        JudgeRefused: LiteLLM is needed and not installed.
    """
    target.check()
    if target.kind == "litellm":
        check_provider(target.config())
    if target.kind == "function":
        load_function(str(target.function))


class Asker:
    """Asks one model; to be used in the judges' loop.

    Args:
        target: The model.
        ledger: Records the calls.
        budget: Limits of calls and cost.

    Raises:
        UsageError: The function that it names cannot be imported.
        JudgeRefused: LiteLLM is not installed.
    """

    def __init__(self, target: Target, ledger: Ledger, budget: Budget) -> None:
        self.target = target
        self._identity = target.identity()
        config = target.config()
        self._client = JudgeClient(
            config,
            transport=_transport(target),
            ledger=ledger,
            budget=budget,
            gate=shared_gate(config),
            identity=self._identity,
            call_cost=target.call_cost_usd,
        )

    async def ask(self, case: Case, repeat: int) -> TargetAnswer:
        """Return the answer to a case, or the error that came instead; never raises for what the model does.

        A reply of an earlier run in which no answer was found is read again for free, since the target may now tell
        where the answer is; if there still is none, the model is asked once more.

        Args:
            repeat: Number of earlier cases with the same question.
        """
        try:
            messages = self._messages(case)
            for attempt in range(MOST_REPLIES):
                call = Call(
                    judge=self._identity,
                    purpose=f"collect:{self.target.key}",
                    messages=messages,
                    canonical=json.dumps(messages, ensure_ascii=False),
                    trial=repeat,
                    attempt=attempt,
                )
                reply = await self._client.ask(call)
                try:
                    return self._read(reply)
                except ValueFault as error:
                    if not reply.earlier or attempt == MOST_REPLIES - 1:
                        return TargetAnswer(error=str(error), reused=reply.from_ledger)
        except JudgeError as error:
            return TargetAnswer(error=error.message, unavailable=isinstance(error, JudgeUnavailable))
        except ValueFault as error:
            return TargetAnswer(error=str(error))
        raise AssertionError("the last attempt returns")

    def _messages(self, case: Case) -> tuple[Mapping[str, str], ...]:
        """Return the message to send: a conversation, a request, or the case itself."""
        target = self.target
        if target.kind == "http":
            return ({"role": "request", "content": json.dumps(request_of(target, case), ensure_ascii=False)},)
        if target.kind == "function":
            return ({"role": "case", "content": json.dumps(case.values(), ensure_ascii=False)},)
        question = case.question if target.prompt is None else render_text(target.prompt, _named(case))
        system = ({"role": "system", "content": target.system},) if target.system else ()
        return (*system, {"role": "user", "content": question})

    def _read(self, reply: Reply) -> TargetAnswer:
        """Read a reply.

        Raises:
            ValueFault: It contains no answer.
        """
        if self.target.kind != "litellm":
            answer = self.target.reply.read(reply.text)
        elif not reply.text.strip() and reply.finish_reason in _NO_TEXT:
            raise ValueFault(_NO_TEXT[reply.finish_reason])
        else:
            answer = TargetAnswer(text=reply.text, truncated=reply.finish_reason == TRUNCATED)
            if answer.truncated:
                answer = replace(answer, metadata={"finish_reason": TRUNCATED})
        return replace(
            answer,
            seconds=reply.seconds,
            cost_usd=reply.cost_usd if answer.cost_usd is None else answer.cost_usd,
            input_tokens=reply.input_tokens if answer.input_tokens is None else answer.input_tokens,
            output_tokens=reply.output_tokens if answer.output_tokens is None else answer.output_tokens,
            reused=reply.from_ledger,
        )


def _transport(target: Target) -> Transport:
    if target.kind == "litellm":
        return remote_transport(target.config())
    return HttpTransport(target) if target.kind == "http" else FunctionTransport(target)


def _named(case: Case) -> dict[str, Any]:
    return case.values() | {"case": case.values()}
