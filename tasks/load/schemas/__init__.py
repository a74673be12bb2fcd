"""Formats: what the fields of a record mean. One module per family; each names its columns in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.load.formats import DatasetFormat

if TYPE_CHECKING:
    from tasks.load.schemas.base import Converter


def converter_of(dataset_format: DatasetFormat) -> type[Converter]:
    """Return what converts the records of a format."""
    from tasks.load.schemas.coco import Coco
    from tasks.load.schemas.databricks import Databricks
    from tasks.load.schemas.h2o import H2oDataset, H2oLab, H2oSuite
    from tasks.load.schemas.leadline import Leadline
    from tasks.load.schemas.pairs import Deepeval, Ragas

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
