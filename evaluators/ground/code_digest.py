"""Digests of functions and classes that a user wrote: of their code, and of all that it refers to.

A score of a user's function may be used again only if the function would give it again. So its digest covers the
compiled code, default arguments, the values that a closure holds, and the globals that the code names, each in the same
way: other functions of the user with theirs, classes, constants, data. Of installed packages it has name and version.

What cannot be told is not guessed. A function that refers to an object whose state cannot be read, such as a client
with an open connection, gets a digest that no other one has: it is scored anew each time. Files that it reads, the
network, the clock and random numbers are beyond what any digest covers.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import importlib
import inspect
import logging
import pathlib
import re
import secrets
import site
import sys
import sysconfig
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground.packages import package_version

MOST_VALUES: Final = 100_000
"""Values that are looked at; a function that refers to more counts as one that cannot be told."""

_ATOMS: Final = (bool, int, float, complex, str, bytes, bytearray, type(None), type(Ellipsis), type(NotImplemented))
_VALUES: Final = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    range,
    slice,
    uuid.UUID,
)
"""Types whose text tells all of a value."""
_CONTENTS: Final = (list, tuple, dict, set, frozenset, str, bytes, int, float)
"""Types whose objects a class of Python may extend, and that tell what they hold."""
_GENERIC: Final = (types.GenericAlias, types.UnionType)
_LOADS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_OF_CLASSES: Final = re.compile(
    r"__(?:dict|weakref|doc|module|firstlineno|static_attributes|abstractmethods|annotate\w*|pydantic_\w+)__|_abc_impl"
    r"|__(?:signature|class_vars|private_attributes|slots)__"
)
"""Members of a class that Python and libraries make, and that say nothing of what it does."""
_OF_OBJECTS: Final = ("__dict__", "__weakref__")
_DESCRIPTORS: Final = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)


@dataclass(frozen=True, slots=True)
class CodeDigest:
    """The digest of a function or class.

    Attributes:
        digest: The digest; one of its own each time where something cannot be told.
        untold: Names of what the code refers to and whose state cannot be read.
    """

    digest: str
    untold: tuple[str, ...] = ()


def code_digest(code: Callable[..., Any]) -> CodeDigest:
    """Return the digest of a function, a class, or an object that can be called."""
    reader = _Reader()
    try:
        reader.read(code, getattr(code, "__name__", type(code).__name__))
    except RecursionError:
        reader.untold["nested too deeply"] = None
    untold = tuple(reader.untold)
    own = secrets.token_hex(16) if untold else ""
    return CodeDigest(hashlib.sha256(f"{reader.hash.hexdigest()}{own}".encode()).hexdigest()[:32], untold)


def is_installed(kind: type) -> bool:
    """Return whether a class is Python's, Leadline's, or of an installed package, whose version tells what it does."""
    return _is_installed(_file_of(kind), kind.__module__)


class _Reader:
    """Reads values into a hash.

    Attributes:
        untold: Names of values that could not be read.
    """

    def __init__(self) -> None:
        self.hash = hashlib.sha256(f"{sys.version_info[:2]}".encode())
        self.untold: dict[str, None] = {}
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []

    def _put(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes | bytearray) else str(part).encode("utf-8", "surrogatepass")
            self.hash.update(len(data).to_bytes(8, "big") + data)

    def read(self, value: Any, name: str) -> None:
        """Read a value.

        Args:
            name: Its name in the code.
        """
        if type(value) in _ATOMS:
            self._put(type(value).__name__, value if isinstance(value, bytes | bytearray) else repr(value))
            return
        if id(value) in self._seen:
            self._put("again", self._seen[id(value)])
            return
        if type(value) is not tuple:  # equal constants may be one object or several
            self._seen[id(value)] = len(self._seen)
        self._alive.append(value)  # so that no other value gets its id
        if len(self._alive) > MOST_VALUES:
            self.untold["too many values"] = None
            return
        if not self._read_code(value, name) and not self._read_data(value, name):
            self._read_object(value, name)

    def _read_code(self, value: Any, name: str) -> bool:
        """Read a value that is code, and return whether it is."""
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._put("method")
            self.read(value.__func__, name)
            self.read(value.__self__, name)
        elif isinstance(value, staticmethod | classmethod):
            self._put(type(value).__name__)
            self.read(value.__func__, name)
        elif isinstance(value, property | functools.cached_property):
            self._put(type(value).__name__)
            for part in ("fget", "fset", "fdel", "func"):
                self.read(getattr(value, part, None), name)
        elif isinstance(value, functools.partial):
            self._put("partial")
            self._members([value.func, value.args, value.keywords], name)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.ModuleType):
            self._module(value, ())
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
            self._installed(getattr(value, "__module__", None) or "builtins", value.__qualname__)
            owner = getattr(value, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType):
                self.read(owner, name)
        elif hasattr(value, "__wrapped__") and callable(value):  # functools.cache and the like
            self._put("wrapper", type(value).__qualname__)
            self.read(value.__wrapped__, name)
        else:
            return False
        return True

    def _read_data(self, value: Any, name: str) -> bool:
        """Read a value that is data of Python's own or of numpy, and return whether it is."""
        kind = type(value)
        if kind in (tuple, list):
            self._put(kind.__name__, len(value))
            self._members(value, name)
        elif kind in (set, frozenset):
            self._put(kind.__name__, *sorted(_alone(member, self, name) for member in value))
        elif isinstance(value, Mapping) and kind in (dict, types.MappingProxyType):
            self._put("dict", len(value))
            for key, member in value.items():
                self.read(key, name)
                self.read(member, f"{name}[{str(key)[:40]!r}]")
        elif isinstance(value, re.Pattern):
            self._put("pattern", repr(value.pattern), value.flags)
        elif isinstance(value, enum.Enum):
            self._put("member", value.name)
            self._class(kind)
        elif kind in _VALUES or isinstance(value, pathlib.PurePath):
            self._put(kind.__qualname__, repr(value))
        elif isinstance(value, _GENERIC) or kind.__module__ == "typing":
            self._put("type", repr(value))
        elif isinstance(value, logging.Logger):
            self._put(kind.__name__, value.name)  # it changes no value
        elif isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType):
            self._put(kind.__name__, value.__name__)
        elif kind.__qualname__ == "_tuplegetter":  # a field of a named tuple
            self._put(repr(value))
        elif kind.__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
            self._put(kind.__name__, value.dtype.str, getattr(value, "shape", ()), value.tobytes())
        else:
            return False
        return True

    def _read_object(self, value: Any, name: str) -> None:
        """Read an object by its class and its attributes, if these are all that it has."""
        kind = type(value)
        content = next((base for base in kind.__mro__ if base in _CONTENTS), None)
        if content is None and _is_native(kind):
            self.untold[name] = None
            return
        self._put("object")
        self._class(kind)
        if content is not None:
            self.read(content(value), name)
        for slot in _slots(kind):
            if hasattr(value, slot):
                self._put(slot)
                self.read(getattr(value, slot), f"{name}.{slot}")
        self.read(dict(getattr(value, "__dict__", {})), name)

    def _members(self, values: Iterable[Any], name: str) -> None:
        for value in values:
            self.read(value, name)

    def _function(self, function: types.FunctionType) -> None:
        code = function.__code__
        installed = _is_installed(code.co_filename, function.__module__)
        if installed:
            self._installed(function.__module__ or "", function.__qualname__)
        else:
            self._put("function")
            self._code(code)
        self.read(function.__defaults__, function.__name__)
        self.read(function.__kwdefaults__, function.__name__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not yet assigned
                self._put("empty", name)
            else:
                self._put(name)
                self.read(content, name)
        if not installed:
            self._globals(code, function.__globals__)

    def _code(self, code: types.CodeType) -> None:
        self._put("code", code.co_code, code.co_flags, code.co_argcount, code.co_posonlyargcount)
        self._put(code.co_kwonlyargcount, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
        self._members(code.co_consts, code.co_name)

    def _globals(self, code: types.CodeType, known: Mapping[str, Any]) -> None:
        names = _attributes(code)
        for name in sorted(_named(code, _LOADS)):
            self._put(name)
            if name in known:
                value = known[name]
                if isinstance(value, types.ModuleType):
                    self._module(value, names)
                else:
                    self.read(value, name)
            else:
                self._put("builtin" if hasattr(builtins, name) else "missing")
        package = str(known.get("__package__") or "")
        for name in sorted(_named(code, frozenset({"IMPORT_NAME"}))):
            self._put("import", name)
            for place in dict.fromkeys((f"{package}.{name}" if package else name, name)):
                module = _imported(place)
                if module is not None:
                    self._module(module, names)

    def _module(self, module: types.ModuleType, names: Iterable[str]) -> None:
        """Read a module: of one that is the user's, its file and those members that the code may name."""
        file = getattr(module, "__file__", None)
        if not file or _is_installed(file, module.__name__):
            self._installed(module.__name__, "")
            return
        self._put("module", module.__name__)
        if Path(file).suffix == ".py" and Path(file).is_file():
            self._put(Path(file).read_bytes())
        for name in names:
            if name in module.__dict__:
                self._put(name)
                value = module.__dict__[name]
                if not isinstance(value, types.ModuleType):
                    self.read(value, f"{module.__name__}.{name}")
                elif id(value) not in self._seen:
                    self._seen[id(value)] = len(self._seen)
                    self._module(value, names)

    def _class(self, kind: type) -> None:
        if kind.__module__ == "builtins" or is_installed(kind):
            self._installed(kind.__module__, kind.__qualname__)
            return
        self._put("class", kind.__qualname__, _source(kind))
        self._members(kind.__bases__, kind.__name__)
        for name, member in sorted(vars(kind).items()):
            if not _OF_CLASSES.fullmatch(name):
                self._put(name)
                self.read(member, f"{kind.__name__}.{name}")

    def _installed(self, module: str, name: str) -> None:
        self._put("installed", module, name, package_version(module.partition(".")[0]))


def _alone(value: Any, reader: _Reader, name: str) -> str:
    """Return the digest of one value of a set, whose order means nothing."""
    apart = _Reader()
    apart.read(value, name)
    reader.untold |= apart.untold
    return apart.hash.hexdigest()


def _named(code: types.CodeType, operations: frozenset[str]) -> set[str]:
    """Return the names that some operations of the code, and of functions within it, have."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname in operations}
    return found.union(*(_named(inner, operations) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _attributes(code: types.CodeType) -> tuple[str, ...]:
    """Return all names in the code, those of attributes among them, sorted."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return tuple(sorted({*code.co_names}.union(*map(_attributes, inner))))


def _imported(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # the code may expect it to fail, and says so when it runs
        return None


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _is_native(kind: type) -> bool:
    """Return whether objects of a class have a state that is in no attribute: that of classes written in C."""
    return any(_is_c(base) for base in kind.__mro__ if base is not object)


def _is_c(base: type) -> bool:
    return base.__module__ == "builtins" or any(
        isinstance(member, _DESCRIPTORS) for name, member in vars(base).items() if name not in _OF_OBJECTS
    )


def _file_of(kind: type) -> str:
    return str(getattr(sys.modules.get(kind.__module__), "__file__", "") or "")


def _source(kind: type) -> str:
    """Return the text of a class; "" where it is not known, as of one made by a program."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


@cache
def _places() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({Path(path).resolve() for path in paths if path})


def _is_installed(file: str, module: str | None) -> bool:
    """Return whether code is Python's, Leadline's, or of an installed package, whose version tells what it does."""
    if (module or "").partition(".")[0] == "leadline" or file.startswith("<frozen"):
        return True
    if not file:
        return (module or "").partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    path = Path(file)
    return path.is_absolute() and any(path.resolve().is_relative_to(place) for place in _places())
