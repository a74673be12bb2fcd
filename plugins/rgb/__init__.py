"""RGB as a testbed: its files become a suite of test cases, and a run's scores become the paper's tables.

:mod:`.build` writes the suite, with the documents that the benchmark chooses, :mod:`.predictions` reads the
benchmark's own result files, and :mod:`.paper_tables` shows a run as the paper does. ``docs/origins/rgb.md`` is the
page for users.
"""
