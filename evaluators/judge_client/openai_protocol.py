"""The wire to servers that speak OpenAI's chat protocol: OpenAI itself, vLLM, Ollama, llama.cpp, gateways.

What a server does not take is found out by asking it: a JSON schema where ``structured`` is ``auto``, and
parameters that newer models refuse. It is remembered by server and model for as long as the process lives.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from leadline.evaluators.ground import UsageError, without_secrets
from leadline.evaluators.judge_client.budget import cost
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.http_client import Response, exchange
from leadline.evaluators.judge_client.reply_parsing import response_format
from leadline.evaluators.judge_client.transport import (
    AttemptError,
    Refused,
    Transient,
    end_of,
    failure_of,
    name_of,
    request_of,
    seconds_of,
    text_of,
    tokens_of,
    with_calls,
)
from leadline.evaluators.settings import JudgeConfig

OPENAI: Final = "https://api.openai.com/v1"
OPENAI_KEY: Final = "OPENAI_API_KEY"
_ACCOUNT: Final = {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"}
_OPTIONAL: Final = ("temperature", "top_p", "seed")
_SHOWN: Final = 300

_PARAMETER_REFUSED: Final = frozenset({400, 422})
_FORM_REFUSED: Final = frozenset({400, 404, 415, 422, 501})
_ABOUT_FORM: Final = re.compile(r"response_format|schema|grammar|structured|guided", re.IGNORECASE)
_OFTEN: Final = 3
"""Errors 500 and the like after which a server that has taken no schema yet is asked without one."""

_ABOUT_PARAMETER: Final = re.compile(r"unsupported|not support|unknown|unrecogni|not permitted|extra", re.IGNORECASE)

_REASONING: Final = re.compile(r"\A<(think|thinking)>.*?</\1>", re.DOTALL)
"""A reasoning model's thoughts, where its server leaves them in the answer: no part of it, as LiteLLM has it, too."""

_FINISHED: Final = {
    "": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "refusal": "content_filter",
    "safety": "content_filter",
}
"""The protocol's words for ends of replies that servers and gateways have words of their own for."""


@dataclass
class _Server:
    """A server's model, and what it has been found to take.

    Attributes:
        takes_schemas: ``None`` until it is known.
        broken: Errors of the server itself before it is known.
        refused_schemas: Names of schemas that it refused although it may take others.
        refused_parameters: Parameters that it does not take.
    """

    takes_schemas: bool | None = None
    broken: int = 0
    refused_schemas: set[str] = field(default_factory=set)
    refused_parameters: set[str] = field(default_factory=set)


_servers: dict[tuple[str, str], _Server] = {}


class OpenAITransport:
    """Asks a model by the protocol.

    Args:
        name: The model's name on its server.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`."""
        base = config.api_base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI
        asked, calls_tools = request_of(messages)
        body: dict[str, Any] = {"model": self._name, **asked, "max_tokens": max_tokens, "stream": False}
        body |= {name: value for name in _OPTIONAL if (value := getattr(config, name)) is not None}
        attempt = _Attempt(
            config, base.rstrip("/"), _servers.setdefault((base, self._name), _Server()), body, calls_tools
        )
        if schema is None or config.structured == "off":
            return await attempt.ask()
        if config.structured == "json_object":
            return await attempt.ask({"type": "json_object"})
        if config.structured == "json_schema":
            return await attempt.ask(response_format(schema))
        return await attempt.ask_in_form(response_format(schema))


class _Attempt:
    """One attempt, for which a server is asked more than once only until it is known what it takes.

    Args:
        config: The judge.
        base: Address of the server.
        server: What is known of the model there.
        body: The request, but for the form of the reply.
        calls_tools: Whether the reply may call tools.
    """

    def __init__(
        self, config: JudgeConfig, base: str, server: _Server, body: Mapping[str, Any], calls_tools: bool
    ) -> None:
        self._config = config
        self._url = f"{base}/chat/completions"
        self._server = server
        self._body = body
        self._calls_tools = calls_tools
        self._headers = _headers(config)

    async def ask_in_form(self, form: Mapping[str, Any]) -> Reply:
        """Ask for a reply by a schema, unless the server is known to take none; what comes tells it of later calls.

        Those that are sent before it is known do not wait for one another: a refusal costs nothing, and a round trip
        in which one call is made does.

        Args:
            form: The value of ``response_format``.
        """
        server, name = self._server, form["json_schema"]["name"]
        if server.takes_schemas is False or name in server.refused_schemas:
            return await self.ask()
        return await self._ask_with(form)

    async def _ask_with(self, form: Mapping[str, Any]) -> Reply:
        """Ask for a reply in a form; where the server refuses that form, and nothing else, ask without."""
        server, name = self._server, form["json_schema"]["name"]
        try:
            reply = await self.ask(form)
        except AttemptError as error:
            about_form, unknown = _ABOUT_FORM.search(error.message) is not None, not server.takes_schemas
            broken = error.status is not None and error.status >= 500
            server.broken += broken and unknown and not (isinstance(error, Transient) and error.overloaded)
            told = about_form and (broken or error.status in _FORM_REFUSED)
            likely = unknown and (error.status in _FORM_REFUSED or (broken and server.broken >= _OFTEN))
            if not told and not likely:
                raise
        else:
            server.takes_schemas = True
            server.refused_schemas.discard(name)
            return reply
        reply = await self.ask()
        if told or not server.takes_schemas:  # else calls beside this one have shown that it takes them
            server.takes_schemas = bool(server.takes_schemas)
            server.refused_schemas.add(name)
        return reply

    async def ask(self, form: Mapping[str, Any] | None = None) -> Reply:
        """Send the request, again without a parameter that the server says it does not take.

        Args:
            form: The value of ``response_format``; ``None`` for none.
        """
        while True:
            left_out = frozenset(self._server.refused_parameters)  # calls in flight beside this one may add to them
            try:
                return await self._exchange({} if form is None else {"response_format": form}, left_out)
            except Refused as error:
                refused = self._refused_parameter(error, left_out)
                if refused is None:
                    raise
                self._server.refused_parameters.add(refused)

    def _refused_parameter(self, error: AttemptError, left_out: frozenset[str]) -> str | None:
        """Return the parameter that an error is about, if it was sent and can be left out or has another name.

        Args:
            left_out: Parameters that were not sent.
        """
        if error.status not in _PARAMETER_REFUSED or not _ABOUT_PARAMETER.search(error.message):
            return None
        if "max_completion_tokens" in error.message and "max_tokens" not in left_out:
            return "max_tokens"
        for name in _OPTIONAL:
            if name in self._body and name not in left_out and f"{name}'" in error.message:
                return name
        return None

    async def _exchange(self, form: Mapping[str, Any], refused: frozenset[str]) -> Reply:
        """Send one request.

        Args:
            form: The parameter that asks for a form of the reply.
            refused: Parameters that are left out.
        """
        started = time.perf_counter()
        config = self._config
        body = {name: value for name, value in self._body.items() if name not in refused} | dict(form)
        if "max_tokens" in refused:
            body["max_completion_tokens"] = self._body["max_tokens"]
        try:
            response = await exchange(
                "POST",
                self._url,
                headers=self._headers,
                body=_encoded(body),
                timeout_s=config.timeout_s,
                most=config.max_reply,
            )
        except AttemptError as error:
            error.message = without_secrets(error.message)
            raise
        if not 200 <= response.status < 300:  # some gateways answer 201
            retry_after = response.headers.get("retry-after")
            raise failure_of(
                response.status,
                without_secrets(f"HTTP {response.status}: {_said(response, document_of(response))}"),
                seconds_of(retry_after) if retry_after else None,
            )
        return reply_of(config, response, time.perf_counter() - started, calls_tools=self._calls_tools)


def _headers(config: JudgeConfig) -> dict[str, str]:
    """Return the headers with the key.

    Raises:
        Refused: There is no key, or none that a header can hold.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        key = config.api_key() or os.environ.get(OPENAI_KEY)
    except UsageError as error:
        raise Refused(str(error), every=True) from None
    if not key:
        raise Refused(f"its API key is taken from {OPENAI_KEY}, which is not set", every=True)
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise Refused("its API key holds characters that no header can", every=True)
    if config.api_base is None:
        headers |= {name: os.environ[variable] for name, variable in _ACCOUNT.items() if os.environ.get(variable)}
    return headers | {"Authorization": f"Bearer {key}"}


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # a seed of more than 64 bits, half a surrogate pair
        return json.dumps(body).encode()


def document_of(response: Response) -> Any:
    """Return the JSON of a reply, ``None`` where it is none."""
    for read in (orjson.loads, json.loads):  # only the second takes half a surrogate pair, and NaN
        with suppress(ValueError, RecursionError):
            return read(response.body)
    return None


def shown(response: Response) -> str:
    """Return the beginning of what came, for error texts, without keys; it is cut only once none is in it."""
    return without_secrets(response.body[: 10 * _SHOWN].decode("utf-8", "replace"))[:80]


def _said(response: Response, document: Any) -> str:
    """Return what a server says about an error, in the forms that servers have for it."""
    said = document
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    if not isinstance(said, str):
        said = response.body[: 10 * _SHOWN].decode("utf-8", "replace")  # cut only once no key is in it
    where = response.headers.get("location") if 300 <= response.status < 400 else None
    return f"it redirects to {where}" if where else said[: 10 * _SHOWN]


def reply_of(config: JudgeConfig, response: Response, seconds: float, *, calls_tools: bool = False) -> Reply:
    """Read a reply of the protocol whose status is one of success.

    Args:
        response: What came.
        seconds: Time that it took.
        calls_tools: Whether the text is to be the whole message, which may call tools.

    Raises:
        AttemptError: It is none, or says that something failed.
    """
    document = document_of(response)
    if not isinstance(document, dict):
        raise Transient(f"what came is no answer by OpenAI's protocol: {shown(response)}", answered=True)
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        error = document.get("error")
        if not error:
            raise Transient(f"what came has no message: {shown(response)}", answered=True)
        code = error.get("code") if isinstance(error, dict) else None
        said = without_secrets(_said(response, document))
        raise failure_of(code if type(code) is int and 400 <= code < 600 else None, said, None)
    usage = document.get("usage")
    sent, replied = tokens_of(usage if isinstance(usage, dict) else {})
    ended = choice.get("finish_reason")
    ended = _FINISHED.get(ended.lower(), ended) if isinstance(ended, str) else "stop"
    content = message.get("content")
    text = text_of(content) or text_of(message.get("refusal"))
    said = _REASONING.sub("", text)
    return Reply(
        text=with_calls(said, message.get("tool_calls")) if calls_tools else said,
        finish_reason=end_of(ended, text, content),
        input_tokens=sent,
        output_tokens=replied,
        cost_usd=cost(config, sent, replied),
        seconds=seconds,
        served_model=name_of(document.get("model")),
        fingerprint=name_of(document.get("system_fingerprint")),
    )
