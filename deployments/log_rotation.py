"""Rotating the logs of processes that go on writing to them.

A process has its log open for appending, so what it wrote is copied to ``NAME.log.1`` and the file is emptied: the next
line begins at its start. What is written in the moment between the last read and the emptying is lost, a few
microseconds; nothing has to be told to let go of a file.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from leadline.evaluators.ground import ErrorCode, UsageError

SIZE_VARIABLE: Final = "LEADLINE_LOG_MAX_MB"
COUNT_VARIABLE: Final = "LEADLINE_LOG_KEEP"


@dataclass(frozen=True, slots=True)
class Rotation:
    """The room that a log may take.

    Attributes:
        max_bytes: Size at which a log is rotated; 0 rotates none.
        keep: Older logs that are kept beside it.
    """

    max_bytes: int = 20 << 20
    keep: int = 5

    @classmethod
    def from_environment(cls) -> Rotation:
        """Return what ``LEADLINE_LOG_MAX_MB`` and ``LEADLINE_LOG_KEEP`` say.

        Raises:
            UsageError: One of them is no number that makes sense.
        """
        return cls(_number(SIZE_VARIABLE, 20, 100_000) << 20, _number(COUNT_VARIABLE, 5, 1_000))

    def rotate(self, log: Path) -> bool:
        """Rotate a log if it has become too large; return whether it was rotated.

        Raises:
            OSError: It cannot be, as on a full disk; it goes on growing.
        """
        try:
            if not self.max_bytes or log.stat().st_size < self.max_bytes:
                return False
        except FileNotFoundError:
            return False
        for number in range(self.keep, 1, -1):
            older = _numbered(log, number - 1)
            if older.exists():
                os.replace(older, _numbered(log, number))
        if self.keep:
            with log.open("rb") as source, _private(_numbered(log, 1)) as target:
                shutil.copyfileobj(source, target)
                target.flush()
                shutil.copyfileobj(source, target)  # what came in the meantime
                os.truncate(log, 0)
        else:
            os.truncate(log, 0)
        return True


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")


def _number(variable: str, default: int, most: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or int(text[:9]) > most:
        raise UsageError(
            f"{variable}={text[:40]!r} is not a whole number from 0 to {most:,}.",
            hint="Correct or unset it.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return int(text)
