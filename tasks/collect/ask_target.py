"""Putting one case to one model, by HTTP, LiteLLM, MCP or as a Python function: the call, and the answer in a reply."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from leadline.evaluators.ground import ErrorCode, UsageError, without_secrets
from leadline.evaluators.judge_client.budget import Budget
from leadline.evaluators.judge_client.call_limits import shared_gate
from leadline.evaluators.judge_client.calls import Call, JudgeError, JudgeUnavailable, Ledger, Reply
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.judge_client.http_client import exchange
from leadline.evaluators.judge_client.providers import check_provider, remote_transport
from leadline.evaluators.judge_client.search import mcp_server
from leadline.evaluators.judge_client.transport import (
    CONVERSATION,
    NO_TEXT,
    AttemptError,
    Refused,
    Transient,
    Transport,
    failure_of,
    seconds_of,
)
from leadline.evaluators.settings import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import ReplyFailed, TargetAnswer, plain, render_json, render_text
from leadline.tasks.load.messages import messages_with_ids
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

_SHOWN: Final = 200
_IN_MEMORY: Final = "in_memory:"
"""Begins the name of a function that a program handed over, in place of its module."""

_held: Final[dict[str, list[Callable[[Case], Any]]]] = {}
_lock: Final = threading.Lock()


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
        _load_function(str(target.function))


class Asker:
    """Asks one model; to be used in the judges' loop.

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
            gate=shared_gate(config, ledger.server_limits),
            identity=self._identity,
            call_cost=target.call_cost_usd,
        )

    async def ask(self, case: Case, repeat: int, copy: int = 0) -> TargetAnswer:
        """Return the answer to a case, or the error that came instead; never raises for what the model does.

        A reply of an earlier run in which no answer was found is read again for free, since the target may now tell
        where the answer is; if there still is none, the model is asked once more.

        Args:
            repeat: Number of earlier cases with the same question.
            copy: Which copy of the case it is; each is asked by itself.
        """
        try:
            messages = self._messages(case)
            # Where a server keeps the conversation, what is sent may be equal in two turns.
            place = [len(case.messages)] if case.conversation_id else []
            for attempt in range(MOST_REPLIES):
                call = Call(
                    judge=self._identity,
                    purpose=f"collect:{self.target.key}",
                    messages=messages,
                    canonical=json.dumps([*messages, *place], ensure_ascii=False),
                    trial=repeat,
                    attempt=attempt,
                    cache_salt=f"copy {copy}" if copy else "",
                )
                reply = await self._client.ask(call)
                try:
                    return self._read(reply, case)
                except ValueFault as error:
                    failure = error.said if isinstance(error, ReplyFailed) and case.tool_call is not None else None
                    if not reply.earlier or attempt == MOST_REPLIES - 1 or failure is not None:
                        return TargetAnswer(error=str(error), reused=reply.from_ledger, failure=failure)
        except JudgeError as error:
            return TargetAnswer(error=error.message, unavailable=isinstance(error, JudgeUnavailable))
        except ValueFault as error:
            return TargetAnswer(error=str(error))
        raise AssertionError("the last attempt returns")

    def _messages(self, case: Case) -> tuple[Mapping[str, str], ...]:
        """Return the message to send: a conversation, a request, or the case itself."""
        target = self.target
        if target.kind in ("http", "mcp"):
            return ({"role": "request", "content": json.dumps(_request_of(target, case), ensure_ascii=False)},)
        if target.kind == "function":
            return ({"role": "case", "content": json.dumps(case.asked(), ensure_ascii=False)},)
        system = ({"role": "system", "content": target.system},) if target.system else ()
        if case.conversation_id and case.tool_call is None:
            said = [message for message in case.messages if not system or message["role"] != "system"]
            whole = {"messages": [*system, *map(partial(self._prompted, case), said)], "tools": case.tools}
            return ({"role": CONVERSATION, "content": json.dumps(whole, ensure_ascii=False)},)
        return (*system, self._prompted(case, {"role": "user", "content": case.question}))

    def _prompted(self, case: Case, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message as it is sent: what the user says in the template of the target, if it has one."""
        if self.target.prompt is None or message["role"] != "user":
            return message
        content = render_text(self.target.prompt, _named(case) | {"question": message["content"]})
        return {**message, "content": content}

    def _read(self, reply: Reply, case: Case) -> TargetAnswer:
        """Read a reply.

        Raises:
            ValueFault: It contains no answer.
        """
        in_conversation = bool(case.conversation_id) and case.tool_call is None
        if self.target.kind != "litellm":
            whole = case.tool_call is not None
            answer = self.target.reply.read(reply.text, in_conversation=in_conversation, whole=whole)
        else:
            said = [{"role": "assistant", **json.loads(reply.text)}] if in_conversation else []
            text = str(said[0]["content"]) if said else reply.text
            calls = said and said[0]["tool_calls"]
            if not text.strip() and not calls and reply.finish_reason in _NO_TEXT:
                raise ValueFault(_NO_TEXT[reply.finish_reason])
            answer = TargetAnswer(text=text, messages=tuple(messages_with_ids(said)))
            if reply.finish_reason == TRUNCATED:
                answer = replace(answer, truncated=True, metadata={"finish_reason": TRUNCATED})
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
    if target.kind == "mcp":
        return McpTransport(target)
    return HttpTransport(target) if target.kind == "http" else _FunctionTransport(target)


def _named(case: Case) -> dict[str, Any]:
    return case.values() | {"case": case.values()}


def _request_of(target: Target, case: Case) -> dict[str, Any]:
    """Return what is sent for a case: ``query`` and ``body``; headers are added on the wire."""
    values = _named(case) | {"model": target.key, "version": target.version}
    request: dict[str, Any] = {}
    if target.query:
        request["query"] = {name: render_text(template, values) for name, template in target.query.items()}
    if target.kind == "mcp" and case.tool_call is not None:
        request |= {"tool": case.tool_call["name"], "body": case.tool_call["arguments"]}
    elif target.body is not None:
        request["body"] = render_json(target.body, values)
    elif target.kind == "http" and target.method == "GET":
        return request
    elif case.tool_call is not None:
        request["body"] = {**case.tool_call, "conversation_id": case.conversation_id}
    else:
        sent = ("question", "messages", "tools", "conversation_id") if case.conversation_id else ("question",)
        request["body"] = {name: values[name] for name in sent}
    return request


class HttpTransport:
    """Sends requests to one application; redirects are not followed, since headers may contain keys."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the request as JSON."""
        request = json.loads(messages[0]["content"])
        started = time.perf_counter()
        try:
            headers = self._target.request_headers()
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        body = json.dumps(request["body"]).encode() if "body" in request else None
        if body is not None and "content-type" not in map(str.lower, headers):
            headers = {"Content-Type": "application/json", **headers}
        try:
            response = await exchange(
                self._target.method,
                f"{self._target.url}?{urlencode(request['query'])}" if "query" in request else str(self._target.url),
                headers=headers,
                body=body,
                timeout_s=config.timeout_s,
                most=config.max_reply,
            )
        except AttemptError as error:
            error.message = without_secrets(error.message)
            raise
        raw = without_surrogates(response.body.decode("utf-8", "replace"))
        if response.status != 200:
            retry_after = response.headers.get("retry-after")
            message = f"HTTP {response.status}: {without_secrets(raw[: 10 * _SHOWN])[:_SHOWN]}"
            raise failure_of(response.status, message, seconds_of(retry_after) if retry_after else None)
        seconds = time.perf_counter() - started
        return Reply(text=raw, seconds=seconds, **self._target.reply.numbers(raw))


class McpTransport:
    """Calls a tool: the one that the target names, or any where tools are called for a conversation.

    Raises:
        UsageError: The server's program is not on this machine.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._server = mcp_server(str(target.mcp))

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the request as JSON."""
        from leadline.evaluators.judge_client import mcp_search  # seconds, which other targets should not take

        request = json.loads(messages[0]["content"])
        body = request["body"]
        if not isinstance(body, Mapping):
            raise Refused("the template of its arguments gives no object")

        def choose(tools: mcp_search.Schemas) -> tuple[str, Mapping[str, Any]]:
            name, arguments = mcp_search.tool_of(tools, request.get("tool") or self._server.tool)
            if "tool" in request or self._target.body is not None:
                return name, body
            known = arguments.get("properties") or {}
            taken = {each: value for each, value in body.items() if each in known}
            if set(arguments.get("required") or ()) <= taken.keys() and taken:
                return name, taken
            return name, {mcp_search.query_argument(name, arguments): body["question"]}

        started = time.perf_counter()
        try:
            result = await mcp_search.call(
                self._server.place,
                choose,
                shown=self._server.shown,
                timeout_s=config.timeout_s,
                most=config.max_reply,
                headers=self._target.request_headers(),
            )
        except UsageError as error:
            raise Refused(str(error), every=True) from None
        except LookupError as error:
            if "tool" not in request:
                raise Refused(f"the MCP server {self._server.shown} cannot be asked: {error}", every=True) from None
            return Reply(text=json.dumps({"error": str(error)}), seconds=time.perf_counter() - started)
        except Exception as error:  # whatever the package and the server's process raise
            raise Transient(without_secrets(f"{type(error).__name__}: {error}").rstrip(": ")) from None
        text = "\n".join(mcp_search.texts_of(result))
        structured = result.structured_content
        found: dict[str, Any] = {"error": text} if result.is_error else {"answer": text}
        if "tool" not in request and not result.is_error and isinstance(structured, Mapping):
            found |= structured
        raw = without_surrogates(json.dumps(found, ensure_ascii=False))
        return Reply(text=raw, seconds=time.perf_counter() - started, **self._target.reply.numbers(raw))


@contextmanager
def held(function: Callable[[Case], Any], name: str) -> Iterator[str]:
    """Have a function known within the block as a target's ``function``, and yield what it is called there.

    Args:
        name: An identifier. Answers that were given under it are taken to be this function's, so it says which code
            gives them.
    """
    path = f"{_IN_MEMORY}{name}"
    with _lock:
        _held.setdefault(path, []).append(function)
    try:
        yield path
    finally:
        with _lock:
            _held[path].remove(function)


def _load_function(path: str) -> Callable[[Case], Any]:
    """Import ``package.module:function``; modules of the working directory are found, too.

    Raises:
        UsageError: There is no such callable, or its module cannot be imported.
    """
    if handed_over := _held.get(path):
        return handed_over[-1]
    module_name, _, name = path.partition(":")
    here = os.getcwd()  # noqa: PTH109 - sys.path contains texts
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module can fail in any way while it is imported
        raise UsageError(
            f"{path} cannot be imported: {type(error).__name__}: {error}.", code=ErrorCode.COLLECT_FUNCTION
        ) from None
    if not callable(found):
        raise UsageError(
            f"{path} is not a function.",
            hint="Name one that takes a case and returns its answer.",
            code=ErrorCode.COLLECT_FUNCTION,
        )
    return found  # type: ignore[no-any-return]


class _FunctionTransport:
    """Calls a function with a :class:`~leadline.tasks.collect.cases.Case`.

    A coroutine function runs in the judges' loop; any other in a thread of its own, which goes on after a time-out,
    since a thread cannot be stopped.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._function = _load_function(str(target.function))

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the case as JSON."""
        values = json.loads(messages[0]["content"])
        case = Case(**values | {"categories": tuple(values["categories"])})
        started = time.perf_counter()
        try:
            async with asyncio.timeout(config.timeout_s):
                result = await self._call(case)
            if case.tool_call is not None and not isinstance(result, str | Mapping):
                result = {"answer": json.dumps(result, ensure_ascii=False)}
            raw = without_surrogates(json.dumps(plain(result), ensure_ascii=False))
        except TimeoutError:
            raise Transient(f"no answer within {config.timeout_s:g} s", overloaded=True) from None
        except ValueFault as error:
            raise Refused(str(error)) from None
        except (Exception, SystemExit) as error:  # whatever the user's function raises
            raise _failure(error) from None
        return Reply(text=raw, seconds=time.perf_counter() - started, **self._target.reply.numbers(raw))

    async def _call(self, case: Case) -> Any:
        result = self._function(case) if _is_async(self._function) else await _in_thread(self._function, case)
        return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _in_thread(function: Callable[[Case], Any], case: Case) -> Any:
    """Run a function in a daemon thread, so that one that hangs does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function(case)
        except (SystemExit, StopIteration) as failure:  # no future takes them, and nobody waits for ever
            error = RuntimeError(f"{type(failure).__name__}: {failure}")
        except Exception as failure:
            error = failure
        loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=work, name="leadline-under-test", daemon=True).start()
    return await done


def _failure(error: Exception | SystemExit) -> AttemptError:
    """Return the failure: by the error's HTTP status, otherwise connection errors and time-outs are transient."""
    message = without_secrets(f"{type(error).__name__}: {error}")
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return failure_of(status, message, None)
    return Transient(message) if isinstance(error, ConnectionError | TimeoutError) else Refused(message)
