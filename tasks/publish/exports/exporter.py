"""Output formats: classes that write the results of a run as files.

An exporter is one class in one module of this package. Other packages bring theirs by an entry point in the group
``leadline.exporters`` that names a module to import.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from leadline.tasks.ground.plugins import Plugins
from leadline.tasks.publish.run_results import RunResults


class Exporter(ABC):
    """One output format.

    Attributes:
        name: What ``leadline store export --as`` calls it.
        files: The files it writes, the main one first; empty if their names depend on the run.
        published: Whether every run is published in this format, and not only one whose ``--results`` names it.
        repeats_rows: Whether it writes every row of the run once more; runs above :data:`.run_results.SMALL_RUN` are
            published in such a format only when that was asked for.
        order: Its place among the published formats.
    """

    name: ClassVar[str]
    files: tuple[str, ...]
    published: ClassVar[bool] = False
    repeats_rows: ClassVar[bool] = False
    order: ClassVar[int] = 1000

    @abstractmethod
    def write(self, results: RunResults, folder: Path) -> None:
        """Write the files.

        Args:
            results: What the run found.
            folder: An existing folder. When a run is published it already contains the files of lower order.
        """

    @classmethod
    def for_suffix(cls, suffix: str) -> Exporter:
        """Return an exporter whose main file ends so; a format with only one ending ignores the suffix."""
        return cls()


EXPORTERS: Final[Plugins[Exporter]] = Plugins("exporter", "leadline.tasks.publish.exports", "leadline.exporters")
register_exporter = EXPORTERS.register


def published_exporters(results: RunResults) -> list[Exporter]:
    """Return the formats in which a run is published, in their order."""
    found = [
        exporter()
        for exporter in EXPORTERS.all()
        if exporter.name == results.asked
        or (exporter.published and (results.repeats_rows or not exporter.repeats_rows))
    ]
    return sorted(found, key=lambda exporter: exporter.order)
