"""Formats: what the fields of a record mean. One module per family; each names its columns in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.tasks.load.kinds import DatasetFormat

if TYPE_CHECKING:
    from leadline.tasks.load.formats.base import Converter


def converter_of(dataset_format: DatasetFormat) -> type[Converter]:
    """Return what converts the records of a format."""
    from leadline.tasks.load.formats.coco import Coco
    from leadline.tasks.load.formats.databricks import Databricks
    from leadline.tasks.load.formats.h2o import H2oDataset, H2oLab, H2oSuite
    from leadline.tasks.load.formats.leadline import Leadline
    from leadline.tasks.load.formats.pairs import Deepeval, Ragas

    converters: tuple[type[Converter], ...] = (
        Leadline,
        H2oDataset,
        H2oSuite,
        H2oLab,
        Databricks,
        Ragas,
        Deepeval,
        Coco,
    )
    return next(converter for converter in converters if converter.format is dataset_format)
