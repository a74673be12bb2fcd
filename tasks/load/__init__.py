"""Loading: a file of cases and answers becomes Parquet tables in the store.

A load goes through six small steps, one module each: :mod:`.source` looks at the file, :mod:`.sniff` recognises it,
:mod:`.readers` takes records out of its container, :mod:`.schemas` says what their fields mean, :mod:`.checks`
compares what was staged, and :mod:`.write` publishes it. Whatever is wrong is gathered in one
:class:`.errors.DatasetError` before anything is written. ``docs/datasets.md`` is the page for users.
"""

from __future__ import annotations

from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.load.kinds import Container, DatasetFormat

__all__ = ["Container", "DatasetFormat", "LoadedDataset", "load_dataset"]
