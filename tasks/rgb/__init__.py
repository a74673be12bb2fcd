"""RGB as a testbed: its files become a suite of test cases, and a run's scores become the paper's tables.

``testbed`` chooses the documents of each case as the benchmark does, ``build`` writes the suite, ``predictions`` reads
the benchmark's own result files, and ``tables`` lays a run out as the paper does. ``docs/rgb.md`` is the users' page.
"""
