"""The transport to an application under test that is a Python callable."""

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
from typing import Any, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.redaction import without_secrets
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.transport import AttemptError, Refused, Transient, failure_of
from leadline.evaluators.settings.judge_config import JudgeConfig
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.collect.cases import Case
from leadline.tasks.collect.replies import plain
from leadline.tasks.collect.targets import Target
from leadline.tasks.load.values import ValueFault

IN_MEMORY: Final = "in_memory:"
"""Begins the name of a function that a program handed over, in place of its module."""

_held: Final[dict[str, list[Callable[[Case], Any]]]] = {}
_lock: Final = threading.Lock()


@contextmanager
def held(function: Callable[[Case], Any], name: str) -> Iterator[str]:
    """Have a function known within the block as a target's ``function``, and yield what it is called there.

    Args:
        name: An identifier. Answers that were given under it are taken to be this function's, so it says which code
            gives them.
    """
    path = f"{IN_MEMORY}{name}"
    with _lock:
        _held.setdefault(path, []).append(function)
    try:
        yield path
    finally:
        with _lock:
            _held[path].remove(function)


def load_function(path: str) -> Callable[[Case], Any]:
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


class FunctionTransport:
    """Calls a function with a :class:`~leadline.tasks.collect.cases.Case`.

    A coroutine function runs in the judges' loop; any other in a thread of its own, which goes on after a time-out,
    since a thread cannot be stopped.

    Args:
        target: Names the function.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._function = load_function(str(target.function))

    async def send(
        self,
        config: JudgeConfig,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> Reply:
        """See :class:`leadline.evaluators.judge_client.transport.Transport`; the one message is the case as JSON."""
        values = json.loads(messages[0]["content"])
        case = Case(**values | {"categories": tuple(values["categories"])})
        started = time.perf_counter()
        try:
            async with asyncio.timeout(config.timeout_s):
                result = await self._call(case)
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
