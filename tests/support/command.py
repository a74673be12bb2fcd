"""The command line in this process."""

from leadline.cli.main import cli, run

__all__ = ["cli", "run"]
