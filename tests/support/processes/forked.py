"""Calls a function in processes that are forked from one which has imported what all of them need.

``with Forked("package.module:function", imports, environment) as forked: code, said = forked.call({…})``. What takes
each new process seconds is done once; apart from that a call is a process of its own, with its own standard output,
variables, limits and exit code: the function's result, or 99 for an exception.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RAISED = 99


class Forked:
    """A process that waits for calls.

    Args:
        function: ``module:name`` of a function that takes what is asked, and returns an exit code.
        imports: Modules that are imported before the first call.
        environment: All variables of the process.
    """

    def __init__(self, function: str, imports: Sequence[str], environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-P", "-m", "tests.support.processes.forked", function, *imports]
        self._process = subprocess.Popen(
            command, env=dict(environment) | {"PYTHONPATH": str(Path(__file__).parents[3])}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()

    def call(
        self, asked: object, folder: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Return the exit code, and what was said on standard output and error.

        Args:
            asked: What the function gets.
            folder: The working directory.
            variables: Added to the environment.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as out:
            call = {"asked": asked, "folder": str(folder or Path.cwd()), "out": out.name}
            print(json.dumps(call | {"variables": dict(variables or {})}), file=self._process.stdin, flush=True)
            code = int(self._process.stdout.readline())
            return code, Path(out.name).read_text(encoding="utf-8", errors="replace")


def _call(function: Any, call: dict[str, Any]) -> int:
    with Path(call["out"]).open("wb") as out, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(call["folder"])
    os.environ.update(call["variables"])
    try:
        return int(function(call["asked"]) or 0)
    except SystemExit as error:
        print(error, file=sys.stderr)
        return RAISED
    except BaseException:
        traceback.print_exc()
        return RAISED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    """Serve calls until standard input ends."""
    module, _, name = sys.argv[1].partition(":")
    for each in sys.argv[2:]:
        import_module(each)
    function = getattr(import_module(module), name)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os._exit(_call(function, json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
