"""``leadline version``."""

from __future__ import annotations

import importlib.metadata
import platform

import click

from leadline.flows.command.output import print_json, print_table
from leadline.flows.command.session import session_options

_PARTS = (
    *("prefect", "duckdb", "pyarrow", "numpy", "scipy", "nltk", "rapidfuzz", "regex", "sentencex"),
    *("torch", "transformers", "sentence-transformers"),
)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def version(as_json: bool) -> None:
    """Show the versions of Leadline and its main packages."""
    versions = {"leadline": _version("leadline"), "python": platform.python_version()}
    versions |= {package: _version(package) for package in _PARTS}
    if as_json:
        print_json(versions)
    else:
        print_table(("package", "version"), [(name, value or "not installed") for name, value in versions.items()])
