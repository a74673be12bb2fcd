"""Compaction: rewriting a database without the blocks that nothing uses any more, since its file never shrinks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leadline.tasks.db.connection import connect, literal
from leadline.tasks.ground.files import replacing

LEAST_SIZE: Final = 4 << 20
"""Bytes of a file below which rewriting saves too little."""
LEAST_FREE: Final = 0.2
"""Share of blocks that must be free."""


def compact(database: Path) -> bool:
    """Rewrite a database that nobody has open if much of its file is free, and return whether that was so.

    Args:
        database: The file.
    """
    if database.stat().st_size < LEAST_SIZE:
        return False
    with connect() as connection:
        connection.execute(f"ATTACH {literal(database)} AS old (READ_ONLY)")
        ((size, free, total),) = connection.execute(
            "SELECT block_size, free_blocks, total_blocks FROM pragma_database_size() WHERE database_name = 'old'"
        ).fetchall()
        if free < LEAST_FREE * total:
            return False
        with replacing(database) as draft:
            connection.execute(f"ATTACH {literal(draft)} AS new (BLOCK_SIZE {size})")
            connection.execute("COPY FROM DATABASE old TO new")
            connection.execute("DETACH new")
    return True
