"""The headings under which a command's help lists its options."""

from __future__ import annotations

from enum import StrEnum


class OptionGroup(StrEnum):
    """A heading; the help has them in this order."""

    MEASURED = "What is measured"
    DATA = "How the file is read"
    JUDGES = "Judges, and what they may cost"
    GATE = "The gate"
    OUTPUT = "What is written"
    MACHINE = "Local models, and where it runs"
    OTHER = "Options"
    COMMON = "Of every command"
