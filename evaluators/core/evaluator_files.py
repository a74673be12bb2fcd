"""Evaluators in a Python file of the user's own, which need be no part of a package.

The file's content is part of the identity of its evaluators, so that a changed file is computed anew.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.registry import load_installed, registered_by, unregister
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError, UsageError
from leadline.evaluators.ground.paths import from_home


@dataclass(frozen=True, slots=True)
class _LoadedFile:
    digest: str
    evaluators: tuple[type[Evaluator], ...]


_loaded: Final[dict[Path, _LoadedFile]] = {}
_lock: Final = RLock()


def load_evaluator_file(path: str | Path) -> tuple[type[Evaluator], ...]:
    """Register the evaluators of a Python file, and return them in the order of their ids.

    A file that was loaded before is run again only if its content has changed; its evaluators are then replaced.

    Raises:
        UsageError: The file cannot be read or run, registers no evaluator, or one whose id is taken.
    """
    file = from_home(path).absolute()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            hint="Name a Python file that registers evaluators.",
            code=ErrorCode.CONFIG_FILE,
        ) from None
    digest = hashlib.sha256(source).hexdigest()[:32]
    with _lock:
        known = _loaded.get(file)
        if known is None or known.digest != digest:
            load_installed()  # so that an id that is taken is refused here, with the file's name
            for evaluator in known.evaluators if known else ():
                unregister(evaluator)
            known = _loaded[file] = _LoadedFile(digest, _run(file, source, digest))
        return known.evaluators


def _run(file: Path, source: bytes, digest: str) -> tuple[type[Evaluator], ...]:
    """Run a file as a module of a name that no other module has."""
    module = ModuleType(
        f"leadline_file_{hashlib.sha256(str(file).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    )
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)  # noqa: S102 - the user named the file to be run
        found = registered_by(module.__name__)
        if not found:
            raise UsageError(
                "it registers no evaluator.",
                hint="Decorate the class with @leadline.register.",
                code=ErrorCode.CONFIG_CONTENT,
            )
    except BaseException as error:  # a script that ends with sys.exit(main()) is no evaluators file
        for evaluator in registered_by(module.__name__):
            unregister(evaluator)
        _loaded.pop(file, None)
        del sys.modules[module.__name__]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _refusal(file, error) from error
    for evaluator in found:
        evaluator.source_digest = digest
    return found


def _refusal(file: Path, error: BaseException) -> UsageError:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines = [error.lineno]
    where = f"{file}, line {lines[-1]}" if lines else str(file)
    if isinstance(error, LeadlineError):
        return UsageError(f"{where}: {error.message}", hint=error.hint, code=error.code)
    message = f"{where}: {type(error).__name__}: {error}."
    return UsageError(message, hint="Correct the file.", code=ErrorCode.CONFIG_CONTENT)
