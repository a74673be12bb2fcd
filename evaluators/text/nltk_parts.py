"""Single modules of NLTK, without what its packages import beside them.

``import nltk``, and any import from it, runs the package's ``__init__``, which imports scikit-learn, SciPy and pandas
where they are installed: a second of processor time in every process that scores, for a tokenizer and a stemmer of
regular expressions. :func:`nltk_part` runs the module's file alone. What that imports from NLTK is loaded in the same
way; nothing of it is in ``sys.modules``, so that ``import nltk`` elsewhere gives the whole package as ever.
"""

from __future__ import annotations

import builtins
import importlib.util
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any


@cache
def nltk_part(name: str) -> Any:
    """Return a module of NLTK, such as ``nltk.stem.porter``.

    Raises:
        ImportError: There is no such module.
    """
    module = ModuleType(name)
    code = SourceFileLoader(name, str(_file(name))).get_code(name)
    if code is None:
        raise ImportError(f"{name} has no code", name=name)
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
    exec(code, vars(module))  # noqa: S102 - the file of an installed package, as the import system runs it
    return module


def _import(name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
    """Import for the modules of NLTK: as ever, but modules of NLTK by :func:`nltk_part`."""
    if level or name.partition(".")[0] != "nltk":
        return __import__(name, scope, local, wanted, level)
    if _file(name).is_file():
        return nltk_part(name)
    package = ModuleType(name)
    vars(package).update({part: nltk_part(f"{name}.{part}") for part in wanted})
    return package


def _file(name: str) -> Path:
    package, *parts = name.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return Path(spec.origin).parent.joinpath(*parts).with_suffix(".py")
