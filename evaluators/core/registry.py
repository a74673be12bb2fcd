"""All evaluators by id: the built-in ones and those that other packages bring.

A built-in evaluator is any class decorated with :func:`register` in a module of one of the families'
packages, or a prompt with front matter there, in a file called ``ID.jinja``. Another package brings its own with an
entry point in the group ``leadline.evaluators`` that names a module to import; a single file is loaded by
:mod:`leadline.evaluators.core.user_evaluators`. Nothing is imported or read before somebody asks, and of the built-in
ones only the prompt of the id that is asked for, or the modules whose source mentions it.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.spec import CUSTOM, Lane, Spec
from leadline.evaluators.ground import ErrorCode, UsageError, extensions

FAMILIES: Final = (
    "generation",
    "matching",
    "structured",
    "code",
    "citations",
    "retrieval",
    "privacy",
    "fairness",
    "summarization",
    "classification",
    "robustness",
    "conversation",
    "agent",
    "vision",
    "performance",
    "style",
    "pairwise",
    CUSTOM,
)
ENTRY_POINTS: Final = "leadline.evaluators"
BUILT_IN: Final = "leadline.evaluators."
LEADLINE: Final = "leadline"
_WORD_IN_QUOTES: Final = re.compile(r'(?<=")[^"\s]+(?=")')

_NAMED: Final = re.compile(r"(?P<id>[^#]+)#(?P<name>[A-Za-z0-9_-]{1,40})")

E = TypeVar("E", bound=type[Evaluator])

_registered: dict[str, type[Evaluator]] = {}
_reading: Final = RLock()
_lent: Final[ContextVar[Mapping[str, type[Evaluator]]]] = ContextVar("lent", default=MappingProxyType({}))
_lent_by_source: Final[WeakValueDictionary[tuple[str, str], type[Evaluator]]] = WeakValueDictionary()
"""The same for threads without the context, which know the digest of the source that was planned."""


def register(evaluator: E) -> E:
    """Class decorator that makes an evaluator known under its id; a second one of that id is an error.

    A built-in one is of the family of its folder, and Leadline's own where its spec names no origin. One from outside
    of this package is of origin ``custom``, even if its spec was copied from a built-in evaluator.
    """
    own = evaluator.__module__.startswith(BUILT_IN)
    known = _registered.get(evaluator.spec.id) if own else _built_in(evaluator.spec.id)
    if known is not None and _place(known) != _place(evaluator):
        raise UsageError(
            f"Two evaluators are called {evaluator.spec.id!r}: {known.__module__}.{known.__qualname__} "
            f"and {evaluator.__module__}.{evaluator.__qualname__}.",
            hint="Rename one of them.",
            code=ErrorCode.PLAN_SAME_ID,
        )
    evaluator.spec = _placed(evaluator) if own else replace(evaluator.spec, origin=CUSTOM)
    _registered[evaluator.spec.id] = evaluator
    return evaluator


def _placed(evaluator: type[Evaluator]) -> Spec:
    """Return the spec of a built-in evaluator with what need not be written: family, origin, and lane."""
    spec = evaluator.spec
    folder = evaluator.__module__.removeprefix(BUILT_IN).partition(".")[0]
    if folder not in FAMILIES:  # made of a judge's file, which says all, and may be a user's
        return spec
    family = folder if spec.family == CUSTOM else spec.family
    origin = LEADLINE if spec.origin == CUSTOM else spec.origin
    lane: Lane = "judge" if spec.judge else "gpu" if spec.gpu else spec.lane
    return replace(spec, family=family, origin=origin, lane=lane)


def _place(evaluator: type[Evaluator]) -> tuple[str, str]:
    """Return where a class is written: a file may be imported as a module and be named for a run as well."""
    file = getattr(sys.modules.get(evaluator.__module__), "__file__", None)
    return file or evaluator.__module__, evaluator.__qualname__


def unregister(evaluator: type[Evaluator]) -> None:
    """Forget an evaluator, for example since the file that it was loaded from has changed."""
    _registered.pop(evaluator.spec.id, None)


@contextmanager
def lent(evaluators: Iterable[type[Evaluator]]) -> Iterator[None]:
    """Have evaluators that only this process knows found by their ids, in this context and by jobs that it plans.

    Args:
        evaluators: Classes that need not be registered; a registered one may be replaced by a subclass.

    Raises:
        UsageError: Another evaluator has the id of one.
    """
    mine = {kind.spec.id: _lent_by_source.setdefault((kind.spec.id, kind.source_digest), kind) for kind in evaluators}
    for id_, kind in mine.items():
        known = find(id_)
        if known is not None and not issubclass(kind, known):
            raise UsageError(
                f"The id {id_!r} is taken by another evaluator.", hint="Rename yours.", code=ErrorCode.PLAN_SAME_ID
            )
    token = _lent.set({**_lent.get(), **mine})
    try:
        yield
    finally:
        _lent.reset(token)


@cache
def _under_a_name(kind: type[Evaluator], name: str) -> type[Evaluator]:
    title = f"{kind.spec.name.removesuffix(' Evaluator')} ({name})"
    spec = replace(kind.spec, id=f"{kind.spec.id}#{name}", name=title)
    return type(kind.__name__, (kind,), {"spec": spec, "__doc__": kind.__doc__, "__module__": kind.__module__})


@cache
def _prompt_files() -> dict[str, Path]:
    """Return the file of each built-in evaluator that is a prompt with front matter, by id."""
    room = Path(__file__).parents[1]
    return {file.stem: file for family in FAMILIES[:-1] for file in sorted((room / family).glob("*.jinja"))}


def _read_prompt(evaluator_id: str) -> None:
    with _reading:
        if evaluator_id not in _registered:
            reader = importlib.import_module(f"{BUILT_IN}judge.file_evaluators")  # which imports this module
            reader.register_built_in(_prompt_files()[evaluator_id])


@cache
def _sources() -> dict[str, str]:
    """Return the source of each module that may have built-in evaluators."""
    rooms = {family: Path(__file__).parents[1] / family for family in FAMILIES[:-1]}
    return {
        f"{BUILT_IN}{family}.{file.stem}": file.read_text(encoding="utf-8")
        for family, room in rooms.items()
        for file in sorted(room.glob("[!_]*.py"))
    }


@cache
def _quoted() -> frozenset[str]:
    """Return the words in quotes of these sources, the ids of all built-in evaluators among them."""
    return frozenset(word for source in _sources().values() for word in _WORD_IN_QUOTES.findall(source))


def _built_in(evaluator_id: str) -> type[Evaluator] | None:
    """Return an evaluator that is registered already, or that is built-in: then a file has its id, or a module does."""
    if evaluator_id not in _registered and evaluator_id in _prompt_files():
        _read_prompt(evaluator_id)
    for module, source in _sources().items() if evaluator_id in _quoted() else ():
        if evaluator_id in _registered:
            break
        if f'"{evaluator_id}"' in source:
            importlib.import_module(module)
    return _registered.get(evaluator_id)


def has_members(prefix: str) -> bool:
    """Return whether ids of built-in evaluators may begin with another id and a point, without importing them."""
    return any(word.startswith(f"{prefix}.") for word in _quoted())


@cache
def load_installed() -> None:
    """Import the evaluators of other packages."""
    for entry in extensions(ENTRY_POINTS):
        entry.load()


@cache
def _import_all() -> None:
    for module in _sources():
        importlib.import_module(module)
    for id_ in _prompt_files():
        _read_prompt(id_)
    load_installed()


def all_evaluators() -> dict[str, type[Evaluator]]:
    """Return every known evaluator by id, sorted by id."""
    _import_all()
    return dict(sorted(_registered.items()))


def registered_by(module: str) -> tuple[type[Evaluator], ...]:
    """Return the evaluators that a module has registered."""
    return tuple(evaluator for evaluator in _registered.values() if evaluator.__module__ == module)


def find(evaluator_id: str) -> type[Evaluator] | None:
    """Return one evaluator, ``None`` where there is none of this id."""
    found = _lent.get().get(evaluator_id) or _built_in(evaluator_id)
    if found is None:
        load_installed()
    return found or _registered.get(evaluator_id)


def planned(evaluator_id: str, source: str) -> type[Evaluator]:
    """Return an evaluator that a run was planned with.

    Args:
        source: Digest of the user's code that it was planned with, ``""`` if there is none.

    Raises:
        UsageError: There is none of this id.
    """
    return _lent_by_source.get((evaluator_id, source)) or get(evaluator_id)


def get(evaluator_id: str) -> type[Evaluator]:
    """Return one evaluator; an unknown id is a :class:`UsageError` that suggests the nearest ones.

    ``ID#NAME`` is the evaluator ID under a name of its own, so that one run can have it several times.
    """
    named = _NAMED.fullmatch(evaluator_id)
    if named is not None:
        return _under_a_name(get(named["id"]), named["name"])
    found = find(evaluator_id)
    if found is not None:
        return found
    near = difflib.get_close_matches(evaluator_id, all_evaluators(), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "List them with: leadline evaluators list"
    raise UsageError(f"There is no evaluator called {evaluator_id!r}.", hint=hint, code=ErrorCode.PLAN_NO_EVALUATOR)
