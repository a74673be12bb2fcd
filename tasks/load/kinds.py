"""The two things that a dataset file is: a container of records, and a vocabulary for their fields."""

from __future__ import annotations

from enum import StrEnum


class DatasetFormat(StrEnum):
    """Whose vocabulary the records of a dataset speak; ``auto`` recognises it from the first records."""

    AUTO = "auto"
    LEADLINE = "leadline"
    H2O_DATASET = "h2o-dataset"
    H2O_SUITE = "h2o-suite"
    H2O_LAB = "h2o-lab"
    DATABRICKS = "databricks"
    RAGAS = "ragas"
    DEEPEVAL = "deepeval"
    COCO = "coco"


class Container(StrEnum):
    """How records are packed into a file; always recognised from the file's first bytes, never from its name."""

    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
