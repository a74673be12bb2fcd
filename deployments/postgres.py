"""A PostgreSQL server of one's own: a data folder that is made when it is missing, and the command that serves it.

PostgreSQL refuses to run as root. There it runs as the user ``postgres``, which Debian's package makes. That user may
not enter the folders above, which are for root alone, so it is handed its own folder as an open file.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.evaluators.ground import ErrorCode, LeadlineError

ROLE: Final = "leadline"
SYSTEM_USER: Final = "postgres"
HANDED: Final = Path("/proc/self/fd/9")
"""The folder that was handed over, as the process of :data:`SYSTEM_USER` sees it."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A data folder and the port on which it is served.

    Attributes:
        data: The data folder.
        port: A port of the loopback interface.
        password: Of the role ``leadline``, a superuser.
    """

    data: Path
    port: int
    password: str

    def url(self, database: str, scheme: str = "postgresql") -> str:
        """Return the address of a database, with the password.

        Args:
            database: Name of the database.
            scheme: Scheme of the address, which names a driver for SQLAlchemy.
        """
        return f"{scheme}://{ROLE}:{self.password}@127.0.0.1:{self.port}/{database}"

    def command(self) -> list[str]:
        """Return the command that serves the folder in the foreground."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        folder = self.data.parent
        return [*as_postgres(folder), str(binaries() / "postgres"), "-D", str(_seen(folder) / "data"), *options]

    def answers(self) -> bool:
        """Return whether the server accepts the role and its password."""
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def ensure(self, database: str) -> None:
        """Make a database unless there is one of that name."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=10) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone()
            if known is None:
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(database)))


def initialise(folder: Path, port: int) -> Postgres:
    """Make a data folder with a password of its own, or take the one that is there.

    Args:
        folder: Gets the data in ``data`` and the password in ``password``.
        port: A free port of the loopback interface.

    Raises:
        LeadlineError: PostgreSQL is not installed, or cannot keep its data there.
    """
    data, secret = folder / "data", folder / "password"
    if not (data / "PG_VERSION").exists():
        shutil.rmtree(data, ignore_errors=True)  # half of one, from a start that was cut short
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(16), encoding="ascii")
        if as_postgres():
            for path in (folder, secret):
                shutil.chown(path, SYSTEM_USER, SYSTEM_USER)
        seen = _seen(folder)
        options = ["--auth=scram-sha-256", f"--username={ROLE}", f"--pwfile={seen / 'password'}", "--encoding=UTF8"]
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own command
            [*as_postgres(folder), str(binaries() / "initdb"), "-D", str(seen / "data"), *options],
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise LeadlineError(
                f"PostgreSQL cannot keep its data in {data}: {' '.join(done.stderr.split())[-400:]}",
                code=ErrorCode.DEPLOY_POSTGRES,
            )
    return Postgres(data, port, secret.read_text(encoding="ascii").strip())


def binaries() -> Path:
    """Return the folder with ``initdb`` and ``postgres``; Debian keeps one for each version, away from the path.

    Raises:
        LeadlineError: PostgreSQL is not installed.
    """
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not versions:
        raise LeadlineError(
            "PostgreSQL is not installed.",
            hint="Install it: apt-get install postgresql",
            code=ErrorCode.DEPLOY_POSTGRES,
        )
    return versions[-1].parent


def as_postgres(folder: Path | None = None) -> list[str]:
    """Return how to start a command as somebody whom PostgreSQL accepts: it refuses to run as root.

    Args:
        folder: Handed to the command as :data:`HANDED`.
    """
    if os.geteuid() != 0:
        return []
    handing = ["sh", "-c", 'cd / && exec 9<"$0" && exec "$@"', str(folder)] if folder else []
    user = ["setpriv", f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--clear-groups", "--pdeathsig=keep", "--"]
    return [*handing, *user]


def _seen(folder: Path) -> Path:
    """Return a folder as PostgreSQL's process sees it."""
    return HANDED if as_postgres() else folder
