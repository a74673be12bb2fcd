"""Limits of a dataset, so that a hostile file costs bounded memory and bounded time."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024

MAX_RECORD: Final = 64 * MIB
"""Bytes of one record: a line, a row of a Parquet table, an element of a JSON array."""

MAX_VALUES: Final = 2**22
"""Values in the lists and objects of one JSON record: each takes some 60 bytes, however short it is."""

MAX_CSV_ROW: Final = 16 * MIB
"""Bytes of one row of CSV; several blocks of this size are in memory while it is parsed."""

MAX_TEXT: Final = 16 * MIB
"""Characters of one text."""

MAX_KEY: Final = 1000
"""Characters of the key of a case or a model."""

MAX_ITEMS: Final = 100_000
"""Elements of one list: chunks, categories, acceptable answers."""

MAX_PIXELS: Final = 16_384 * 16_384
"""Pixels of one mask."""

MAX_MODELS: Final = 65_535
"""Models of one dataset: their ids have 16 bits."""

MAX_ROWS: Final = 2**32 - 1
"""Rows of one dataset: their ids have 32 bits."""

MAX_FAULTS: Final = 200
"""Faults that are listed; the others are counted."""

MAX_LOST: Final = 64 * 1024
"""Bytes of unreadable records that are searched for what refers to them; beyond it they may contain anything."""

MAX_EXPANSION: Final = 1000
"""Largest ratio of a dataset to its file; a larger one is taken for a decompression bomb."""

FREE_EXPANSION: Final = 1024 * MIB
"""Size up to which a dataset may grow, however small its file is."""

BATCH_ROWS: Final = 16_384
"""Records that are staged together."""

BATCH_BYTES: Final = 8 * MIB
"""Text that is staged together."""

MAX_UNSHARED: Final = 64 * MIB
"""Bytes of texts that a table has once and refers to many times, when each reference becomes a text."""

COLUMNS_FROM: Final = MIB
"""Bytes of a file from which on its records are read column by column: what that needs takes longer to import."""

BLOCK_BYTES: Final = 2 * MIB
"""Bytes of a file that are decoded together, to the end of a line: what a block costs beside its rows is little."""
