"""The database of a new ``PREFECT_HOME``, made in a moment from the schema that Prefect's migrations end at.

Prefect runs more than a hundred migrations on an empty database, which takes longer than all else that its server does
to start. ``prefect_schema.sql`` is what they leave behind in SQLite; it is used where the installed Prefect is the one
that it was written with, and a test compares the two. ``tests/support/prefect_schema.py`` writes it anew for another.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

SCHEMA: Final = Path(__file__).with_name("prefect_schema.sql")
FIRST_LINE: Final = "-- Prefect "


def prepare_database() -> bool:
    """Create the database that Prefect's settings name, if it is a file of SQLite that is not there yet.

    Returns:
        Whether it was created. If not, the server's own migrations do what is to be done.
    """
    import prefect
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL
    from sqlalchemy import make_url

    url = make_url(PREFECT_SERVER_DATABASE_CONNECTION_URL.value())
    script = SCHEMA.read_text(encoding="utf-8")
    if url.get_backend_name() != "sqlite" or not url.database or ":memory:" in url.database or url.query:
        return False
    if script.partition("\n")[0] != FIRST_LINE + prefect.__version__:
        return False
    return create(Path(url.database), script)


def create(file: Path, script: str) -> bool:
    """Create a database at once, as a whole, unless there is one.

    Args:
        file: Where it is to be.
        script: Its statements.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    if file.exists() or not file.parent.is_dir():
        return False
    try:
        with closing(sqlite3.connect(draft)) as database:
            database.executescript(f"BEGIN;\n{script}\nCOMMIT;")
            database.execute("PRAGMA journal_mode = wal")
        os.link(draft, file)  # unlike a rename, never in place of what another server has made meanwhile
    except OSError:
        return False
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    return True
