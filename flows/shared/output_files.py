"""The file that a command writes, which is never one that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.paths import from_home


def output_file(given: str | None, default: str, *, sources: Sequence[str]) -> Path:
    """Return the file to write.

    Args:
        given: What the user named, if anything.
        default: Its name otherwise, in the working directory.
        sources: What is read.

    Raises:
        UsageError: It is a folder, or one of the sources.
    """
    output = Path(given or default)
    if output.is_dir():
        raise UsageError(f"{output} is a folder.", hint="Name a file: -o FILE", code=ErrorCode.CONFIG_OUTPUT)
    if output.exists() and any(output.resolve() == from_home(name).resolve() for name in sources):
        raise UsageError(f"{output} is the input file.", hint="Write elsewhere: -o FILE", code=ErrorCode.CONFIG_OUTPUT)
    return output
