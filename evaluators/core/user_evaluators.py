"""Evaluators of a user's own, which need be no part of a package: a plain function of a row, or a Python file.

::

    def polite(row: leadline.Row) -> bool:
        return "please" in (row.actual_answer or "").lower()

    leadline.evaluate(answers, metrics=["bleu", polite])

The decorator :func:`metric` says more: a range, a threshold, the direction, a name, what a row needs.

The file's content is part of the identity of its evaluators, so that a changed file is computed anew.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, Final, NoReturn, TypeAlias, cast

from leadline.evaluators.core.base import EvalContext, Evaluator, RowEvaluator
from leadline.evaluators.core.registry import load_installed, registered_by, unregister
from leadline.evaluators.core.spec import CUSTOM, INF, Metric, Spec, Unit
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, from_home
from leadline.evaluators.ground.code_digest import code_digest

Scored: TypeAlias = "float | bool | tuple[float | bool, str] | None"
"""The value of a row: a number, or whether the row is good; maybe with a sentence why; ``None`` where the metric does
not apply to the row."""

RowFunction: TypeAlias = Callable[[Row], Scored]

_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_FIELDS: Final = tuple(field.name for field in fields(Row) if field.name not in ("case", "model"))
_lock: Final = RLock()


class FunctionMetric:
    """A function with what there is to know of the metric that it computes; it can be called as before.

    Args:
        name: Id of the metric; the function's name by default.
        higher_is_better: Direction.
        low: Least value.
        high: Greatest value.
        threshold: Value that separates good rows from bad.
        inputs: Fields that a row must have; rows without them are not applicable.
        unit: Whether it is given each turn of a conversation, or the conversation as a whole.
    """

    def __init__(
        self,
        function: RowFunction,
        *,
        name: str = "",
        higher_is_better: bool = True,
        low: float | None = None,
        high: float | None = None,
        threshold: float | None = None,
        inputs: Iterable[str] = ("actual_answer",),
        unit: Unit = "turn",
    ) -> None:
        self.function = function
        self.id = _id_of(function, name)
        is_share = _returns_bool(function) and low is None and high is None
        least, greatest = (0.0, 1.0) if is_share else (-INF, INF)
        self.metric = Metric(
            self.id,
            self.id.replace("_", " ").strip().capitalize(),
            higher_is_better,
            range=(least if low is None else low, greatest if high is None else high),
            threshold=0.5 if is_share and threshold is None else threshold,
            primary=True,
            description=inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0],
            share=is_share,
        )
        self.unit: Unit = unit
        self.inputs = Spec.simple(self.id, inputs=inputs, higher_is_better=True).inputs
        self.__doc__ = function.__doc__

    def __call__(self, row: Row) -> Scored:
        """Score a row as the function does."""
        return self.function(row)

    def evaluator(self) -> type[Evaluator]:
        """Return the evaluator, whose scores are keyed by the function's code as it is at this moment."""
        spec = Spec(
            self.id,
            family=CUSTOM,
            inputs=self.inputs,
            metrics=(self.metric,),
            also_reads=tuple(RowField),
            unit=self.unit,
        )
        members = {
            "spec": spec,
            "source_digest": code_digest(self.function).digest,
            "computed": self,
            "__doc__": self.function.__doc__ or f"The function {self.id}.",
        }
        return cast("type[Evaluator]", type(self.id, (_FunctionEvaluator,), members))


def metric(
    *,
    name: str = "",
    higher_is_better: bool = True,
    low: float | None = None,
    high: float | None = None,
    threshold: float | None = None,
    inputs: Iterable[str] = ("actual_answer",),
    unit: Unit = "turn",
) -> Callable[[RowFunction], FunctionMetric]:
    """Decorate a function of a row with what there is to know of the metric that it computes.

    Args:
        name: Id of the metric; the function's name by default.
        higher_is_better: Direction.
        low: Least value; a row's value outside of the range is no score.
        high: Greatest value.
        threshold: Value that separates good rows from bad.
        inputs: Fields that a row must have; rows without them are not applicable.
        unit: Whether it is given each turn of a conversation, or the conversation as a whole.

    Raises:
        UsageError: The function has no name that can be an id, or there is no such input.
    """

    def decorated(function: RowFunction) -> FunctionMetric:
        return FunctionMetric(
            function,
            name=name,
            higher_is_better=higher_is_better,
            low=low,
            high=high,
            threshold=threshold,
            inputs=inputs,
            unit=unit,
        )

    return decorated


class _FunctionEvaluator(RowEvaluator):
    """Scores a row with a function of the user."""

    computed: ClassVar[FunctionMetric]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Call the function."""
        found: Any = self.computed(_without_keys(row))
        value, message = found if isinstance(found, tuple) and len(found) == 2 else (found, "")
        keys = self.row_metrics
        if value is None:
            return RowScore.not_applicable(keys, str(message))
        item = getattr(value, "item", None)  # a number of numpy or torch
        value = item() if callable(item) else value
        if not isinstance(value, int | float):
            return RowScore.unscored(
                keys, Reason.EVALUATOR_ERROR, f"{self.spec.id} returned {type(value).__name__}, not a number"
            )
        if not math.isfinite(value):
            shown = "NaN" if math.isnan(value) else "infinity"
            return RowScore.unscored(keys, Reason.EVALUATOR_ERROR, f"{self.spec.id} returned {shown}")
        return RowScore({keys[0]: float(value)}, Evidence(str(message)))


class _FieldsOfRow(Row):
    """A row whose keys cannot be read: rows with equal fields are scored once, whatever their case and model."""

    __slots__ = ()

    @property
    def case(self) -> str:
        """Refuse."""
        _refuse("case")

    @property
    def model(self) -> str:
        """Refuse."""
        _refuse("model")

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={getattr(self, name)!r}' for name in _FIELDS)})"


def _refuse(name: str) -> NoReturn:
    raise AttributeError(
        f"a metric cannot read row.{name}: rows with equal fields are scored once; put what it needs into the metadata"
    )


def _without_keys(row: Row) -> Row:
    view = object.__new__(_FieldsOfRow)
    for name in _FIELDS:
        object.__setattr__(view, name, getattr(row, name))
    return view


def _id_of(function: RowFunction, name: str) -> str:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise UsageError(
            f"The metric {getattr(function, '__name__', '')} is a coroutine function.",
            hint="Write a plain function, which may call asyncio.run.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise UsageError(
            f"The metric {getattr(function, '__name__', '')} cannot be called with a row: {error}.",
            hint="Write a function of one argument, the row: def mine(row): …",
            code=ErrorCode.CONFIG_CONTENT,
        ) from None
    except ValueError:  # a function in C does not always say what it takes
        inner = function
    inner = getattr(function, "func", function)
    found = name or getattr(inner, "__name__", "") or type(inner).__name__
    if found == "<lambda>":
        return f"lambda_{code_digest(function).digest[:8]}"
    if not _ID.fullmatch(found):
        raise UsageError(
            f"{found[:80]!r} cannot be the name of a metric.",
            hint="Give one of letters, digits and underscores: leadline.metric(name=…).",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return found


def _returns_bool(function: RowFunction) -> bool:
    stated = getattr(function, "__annotations__", {}).get("return")
    return stated is bool or stated == "bool"


@dataclass(frozen=True, slots=True)
class _LoadedFile:
    digest: str
    evaluators: tuple[type[Evaluator], ...]


_loaded: Final[dict[Path, _LoadedFile]] = {}


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
