"""The options by which a flow has its dataset read: what was asked for, and the project's mapping of columns."""

from __future__ import annotations

from typing import Any

from leadline.tasks.load.column_map import ColumnMap, project_map


def reading(columns: ColumnMap, *, format: str = "auto", model_name: str = "") -> dict[str, Any]:  # noqa: A002
    """Return the options of :func:`leadline.tasks.load.load_dataset` for what a user asked for.

    Args:
        columns: The mapping of columns for this file; that of ``leadline.toml`` comes after it.
        model_name: The model whose answers name none.

    Raises:
        UsageError: ``leadline.toml`` is broken.
    """
    return {"format": format, "columns": columns, "default_columns": project_map(), "model_name": model_name}
