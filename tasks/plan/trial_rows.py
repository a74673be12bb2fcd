"""The rows of a dataset that get more than the first trial, and the turns of conversations judged at all.

Where trials are a number or a share of the rows, see :mod:`.planner`.
"""

from __future__ import annotations

from typing import Final

ALL_ROWS: Final = "all"
"""Every row gets all trials."""

AUTO: Final = "auto"
"""A sample; where a dataset has perturbed copies, both rows of pairs on two sides of a threshold."""

ALL_TURNS: Final = "all"
"""Every turn of a conversation is judged."""

LAST_TURN: Final = "last"
"""Only a conversation's last turn is."""

SAMPLED_TURNS: Final = "sample:"
"""Before a number: so many turns of each conversation, drawn by their digests, are."""
