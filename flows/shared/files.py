"""The files of a job: how its dataset is read, and which file it writes, which is never one that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.tasks.load.columns import ColumnMap, project_map


def reading(columns: ColumnMap, *, format: str = "auto", model_name: str = "") -> dict[str, Any]:  # noqa: A002
    """Return the options of :func:`leadline.tasks.load.load_dataset` for what a user asked for.

    Args:
        columns: The mapping of columns for this file; that of ``leadline.toml`` comes after it.
        model_name: The model whose answers name none.

    Raises:
        UsageError: ``leadline.toml`` is broken.
    """
    return {"format": format, "columns": columns, "default_columns": project_map(), "model_name": model_name}


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
