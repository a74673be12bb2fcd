"""Loading: a file of cases and answers becomes Parquet tables in the store.

:func:`.dataset.load_dataset` is the way in. It looks at the file (:mod:`.source`), recognises it (:mod:`.sniff`), and
imports it (:mod:`.importing`): records are taken out of their container (:mod:`.readers`), their fields are read one
record at a time (:mod:`.formats`) or many together (:mod:`.columnwise`), staged (:mod:`.staging`), compared with
each other, and published as tables. All faults are gathered (:mod:`.faults`) and refuse the file in one
:class:`~leadline.evaluators.ground.errors.DatasetError`, before anything is written. ``docs/datasets.md`` is for
users.
"""
