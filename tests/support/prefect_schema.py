"""The schema that the migrations of the installed Prefect end at, for a new database of a kept server.

Write it anew when constraints.txt names another Prefect::

    python -m tests.support.prefect_schema > flows/prefect/prefect_schema.sql
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from leadline.flows.prefect.serving import FIRST_LINE


def statements(file: Path) -> list[str]:
    """Return the statements that make the tables and indexes of a database, and the revision that it is at."""
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        (revision,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return [*(text for (text,) in rows), f"INSERT INTO alembic_version VALUES ('{revision}')"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prefect.db"
        os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{file}"
        import prefect
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
        made = statements(file)
    lines = [line.rstrip() for statement in made for line in f"{statement};".splitlines()]
    print("\n".join([FIRST_LINE + prefect.__version__, *lines]))


if __name__ == "__main__":
    main()
