"""Loading: a file of cases and answers becomes Parquet tables in the store.

:func:`.dataset.load_dataset` is the way in. It looks at the file (:mod:`.source`), recognises it
(:mod:`.sniff`), takes the records out of their container (:mod:`.readers`), reads their fields one record at a time
(:mod:`.formats`) or many together (:mod:`.columnwise`), stages them (:mod:`.batches`, :mod:`.staging`), compares them
(:mod:`.checks`), and publishes the tables. All faults are gathered (:mod:`.faults`) and refuse the file in one
:class:`~leadline.evaluators.ground.errors.DatasetError`, before anything is written. ``docs/datasets.md`` is for
users.
"""

from __future__ import annotations

from leadline.tasks.load.dataset import LoadedDataset, load_dataset

__all__ = ["LoadedDataset", "load_dataset"]
