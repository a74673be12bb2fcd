"""The rows that get more than the first trial, where that is not a number or a share: see :mod:`.planner`."""

from __future__ import annotations

from typing import Final

ALL_ROWS: Final = "all"
"""Every row gets all trials."""

AUTO: Final = "auto"
"""A sample; where a dataset has perturbed copies, both rows of pairs on two sides of a threshold."""
